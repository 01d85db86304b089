# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.api.cloud import ApiCloud


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
