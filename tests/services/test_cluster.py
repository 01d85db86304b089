# SPDX-License-Identifier: Apache-2.0
"""`roost cluster ...` with a private PostgreSQL, as an operator meets it when something is wrong."""

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from roost.cli.main import main


@pytest.fixture
def state():
    """A folder that the user of PostgreSQL can enter; pytest's own is closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="roost-cluster-"))
    folder.chmod(0o755)
    yield folder / "state"
    shutil.rmtree(folder)


def test_services_that_cannot_start_are_told_and_nothing_is_left_running(state, broker, tmp_path, capsys):
    wrong = tmp_path / "wrong.conf"
    wrong.write_text("[scheduler]\nworkrs = 1\n")
    words = ["--state-dir", str(state), "--broker", broker.address(), "--conductors", "1", "--schedulers", "1"]
    assert main(["cluster", "start", *words, "--config-file", str(wrong)]) == 1
    *told, last = capsys.readouterr().err.splitlines()
    assert told[0].startswith("postgresql: ready on port ")
    assert told[1].startswith("database: upgraded to revision ")
    assert any(": | " in line and "did you mean workers?" in line for line in told)
    assert told[-1] == "postgresql: stopped"
    assert "ended at its start (its log is " in last
    assert main(["cluster", "status", "--state-dir", str(state), "-f", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {each["state"] for each in found} == {"stopped"}
    assert [each["process"] for each in found] == ["postgresql", "conductor-1", "scheduler-1", "compute-1", "api-1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start", "--driver", "libvirt"], "--driver libvirt needs the address of at least one daemon (add --uri"),
        (["start", "--uri", "qemu:///system"], "--uri is for libvirt (add --driver libvirt)"),
        (["start", "--agents", "1", "--processes", "2"], "1 agents cannot be spread over 2 processes"),
        (["stop"], "there is no cluster in"),
        (["status"], "there is no cluster in"),
        (["restart", "conductor-1"], "there is no cluster in"),
    ],
)
def test_wrong_input_is_one_line(state, capsys, words, said):
    assert main(["cluster", *words, "--state-dir", str(state)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
