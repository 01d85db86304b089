# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from tests.api.cloud import ApiCloud

from roost.cli.main import main


@pytest.fixture(scope="session")
def cloud(tmp_path_factory):
    """One cloud for all tests of a process: each makes its own servers, with names of their own."""
    # The path of a Unix socket is short.
    made = ApiCloud(tmp_path_factory.mktemp("cloud"))
    yield made
    made.stop()


@pytest.fixture
def admin(cloud):
    return cloud.client("admin")


@pytest.fixture
def member(cloud):
    return cloud.client("member")


@pytest.fixture
def anyone(cloud):
    return cloud.client()


@pytest.fixture
def clouds(cloud, monkeypatch):
    """The clouds.yaml of the cloud is the one that commands read, and nothing else names a cloud."""
    for name in ("OS_CLOUD", "OS_AUTH_URL", "OS_ENDPOINT", "OS_CLIENT_SECURE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(cloud.state.clouds_file))


@pytest.fixture
def roost(clouds, capsys):
    """Run a command: (exit code, stdout as JSON, stderr)."""

    def run(*arguments):
        code = main([*arguments, "-f", "json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if printed.out else None, printed.err

    return run


@pytest.fixture
def over_api(roost):
    """Run a command over the API; its record, after it succeeded."""

    def run(*arguments, cloud="roost"):
        code, record, problem = roost(*arguments, "--os-cloud", cloud)
        assert (code, problem) == (0, "")
        return record

    return run
