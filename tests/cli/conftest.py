# SPDX-License-Identifier: Apache-2.0
"""The command as people meet it: arguments in; exit code, stdout and stderr out."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.fake_conductor import FakeConductor
from tests.flow.cloud import TurnedClock

from roost.cli.main import main
from roost.client.rpc_client import RpcClient
from roost.messages.context import RequestContext
from roost.messages.in_process import InProcessTransport
from roost.messages.options import RpcOptions

FLEET = """\
hosts:
  - host: node-[1-4]
    vcpus_total: 8
    total_usable_ram_mb: 16384
    total_usable_disk_gb: 100
  - host: big
    vcpus_total: 32
    total_usable_ram_mb: 65536
    total_usable_disk_gb: 500
aggregates:
  - {name: north, hosts: ["node-[1-2]"], metadata: {availability_zone: north}}
flavors:
  - {name: small, vcpus: 2, memory_mb: 2048, root_gb: 20}
  - {name: huge, vcpus: 64, memory_mb: 2048}
images:
  - {name: debian, properties: {hw_architecture: x86_64}}
server_groups:
  - {name: apart, policy: anti-affinity}
"""


@dataclass(frozen=True)
class Outcome:
    """What a run left behind."""

    code: int
    out: str
    err: str

    @property
    def record(self):
        """Stdout as JSON, by the letter of the standard."""

        def refuse(name):
            raise AssertionError(f"{name} is no JSON")

        return json.loads(self.out, parse_constant=refuse)

    def assert_refused(self, *words, code=2):
        """One line on stderr that has these words, nothing on stdout."""
        assert (self.code, self.out) == (code, ""), self.err
        assert self.err.startswith("roost: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        for word in words:
            assert word in self.err


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """A folder of one's own, a terminal without wishes, and no cloud that is named."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "OS_CLOUD",
        "OS_AUTH_URL",
        "OS_ENDPOINT",
        "NO_COLOR",
        "FORCE_COLOR",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "COLUMNS",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def roost(capsys):
    """Run the command in this process."""

    def run(*arguments):
        code = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return run


@pytest.fixture
def fleet(tmp_path):
    """A small fleet file."""
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


@pytest.fixture
def place(roost, fleet):
    """`roost place` on the small fleet."""
    return lambda *arguments: roost("place", "--fleet", fleet, *arguments)


@pytest.fixture
def place_on(roost, tmp_path):
    """`roost place` on a fleet given as text, asking for one vCPU and one MiB."""

    def run(text, *arguments, name="fleet.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return roost("place", "--fleet", name, *(arguments or ("--vcpus", 1, "--ram", 1)))

    return run


@pytest.fixture
def process():
    """Run the command as a process of its own, with nothing but a path in its environment."""

    def run(*arguments, program=(sys.executable, "-m", "roost"), cwd=None, **environment):
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **environment}
        done = subprocess.run(
            [*program, *(str(each) for each in arguments)],
            cwd=cwd or Path.cwd(),
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


class CloudRun:
    """Runs the command against a conductor in memory, by a clock that does not wait."""

    def __init__(self, capsys):
        self._capsys, self.clock, self.conductor = capsys, TurnedClock(), FakeConductor()
        self.transport = InProcessTransport(in_callers_thread=True)
        self.transport.serve("conductor", "one", [self.conductor.endpoint()]).start()

    def __call__(self, *arguments):
        code = main([str(each) for each in arguments], self.clock)
        printed = self._capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    def open_client(self, settings, files, project, cloud_name):
        context = RequestContext.new("req-1", "admin", project or "admin", is_admin=True)
        return RpcClient(self.transport, RpcOptions(), context)


@pytest.fixture
def cloud(capsys, monkeypatch):
    """Commands for a cloud whose conductor is in memory."""
    made = CloudRun(capsys)
    monkeypatch.setattr("roost.client.rpc_client.open_client", made.open_client)
    yield made
    made.transport.close()
