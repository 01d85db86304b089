# SPDX-License-Identifier: Apache-2.0
"""`roost dev` as people and scripts start it."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from roost.cli.main import main
from roost.messages.loopback import VARIABLE
from roost.trial.state import StateDirectory

WAIT = threading.Event()


def start(*arguments):
    command = [sys.executable, "-m", "roost", "dev", "--hosts", "10", "--port", "0", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, umask=0o022)


def refused(capsys, *arguments):
    code = main(["dev", "--port", "0", *map(str, arguments)])
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1), err
    return code, err


def test_once_shows_the_demonstration_keeps_nothing_and_ends_with_0(tmp_path):
    process = start("--once")
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, ""), out
    assert "\x1b" not in out
    assert re.search(r"0 of 10 hosts fit: .*availability_zone", out)
    assert len(out.splitlines()) < 90


def test_quiet_runs_the_demonstration_without_a_word(capsys, monkeypatch):
    shown = []
    monkeypatch.setattr("roost.trial.demonstration.SCENES", ())
    monkeypatch.setattr(
        "roost.trial.demonstration.Demonstration._lose_a_host", lambda self: shown.append(self._out.print("1."))
    )
    monkeypatch.setattr("roost.cli.dev.set_up_logging", lambda *_: None)
    assert main(["-q", "dev", "--once", "--hosts", "10"]) == 0
    assert capsys.readouterr() == ("", "")
    assert len(shown) == 1


def test_once_ends_with_1_if_a_step_failed(capsys, monkeypatch):
    """D39"""
    from roost.trial import demonstration

    monkeypatch.setattr(demonstration, "SCENES", [demonstration.Scene("Nothing has it.", "lost", "gone")])
    monkeypatch.setattr("roost.cli.dev.set_up_logging", lambda *_: None)
    assert main(["dev", "--once", "--hosts", "10"]) == 1
    out, err = capsys.readouterr()
    assert "This step failed: " in out
    assert err == "roost: 1 step of the demonstration failed (run it without --once to look at what it left)\n"


def test_it_serves_until_ctrl_c_tells_scripts_when_it_is_ready_and_refuses_a_second_one(
    tmp_path, capsys, monkeypatch
):
    ready, state = tmp_path / "ready.json", tmp_path / "state"
    state.mkdir(mode=0o755)
    process = start("--state-dir", str(state), "--ready-file", str(ready))
    try:
        while not ready.exists() and process.poll() is None:
            WAIT.wait(0.05)
        facts = json.loads(ready.read_text())
        assert facts["pid"] == process.pid
        assert facts["hosts"] == 10
        monkeypatch.setenv(VARIABLE, str(state))
        assert main(["host", "list", "-f", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)) == 10
        code, line = refused(capsys, "--state-dir", state)
        assert code == 2
        assert f"process {process.pid}" in line
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert time.monotonic() - sent < 10  # two seconds, on a machine that does nothing else
        assert process.stderr.read() == ""
        assert f"Stopped. Its servers and its log are in {state}.\nThe same command goes on" in process.stdout.read()
        assert not ready.exists()
        open_to_others = [each.name for each in (state, *state.rglob("*")) if each.stat().st_mode & 0o077]
        assert open_to_others == []
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hosts", "3"], "--hosts"),
        (["--once", "--fresh"], "--once keeps no state"),
        (["--once", "--ready-file", "/nowhere/ready.json"], "/nowhere/ready.json: there is no folder /nowhere ("),
        (["--once", "--ready-file", "/proc/ready.json"], "/proc/ready.json: cannot be written: "),
        (["--once", "--ready-file", ""], "--ready-file: the path is empty"),
        (["--state-dir", ""], "--state-dir: the path is empty"),
        (["--state-dir", "/etc/passwd"], "/etc/passwd is not a folder"),
        (["--once", "--ready-file", os.devnull], "no regular file"),
        (["--state-dir", "/proc/roost"], "/proc/roost"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_2(capsys, arguments, words):
    code, line = refused(capsys, *arguments)
    assert code == 2
    assert words in line


def test_a_folder_of_something_else_is_not_removed(capsys, tmp_path):
    (tmp_path / "letter").write_text("dear")
    code, line = refused(capsys, "--state-dir", tmp_path, "--fresh")
    assert code == 2
    assert "not one of `roost dev`" in line
    assert (tmp_path / "letter").exists()


@pytest.fixture
def earlier(tmp_path):
    """A state directory that another run left, with a file that tells where that run was."""
    state = tmp_path / "s"
    with StateDirectory.open(state) as made:
        made.write_facts({"hosts": 12})
    made.log_file.write_text("the log of the earlier run")
    (tmp_path / "ready").write_text("{}")
    return state


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fresh", "--ready-file", "/nowhere/ready.json"], "there is no folder /nowhere"),
        (["--fresh", "--port", "{taken}"], "another program listens there"),
        (["--port", "{taken}", "--ready-file", "ready"], "another program listens there"),
        (["--hosts", "20", "--ready-file", "ready"], "the cloud there has 12 hosts, not 20"),
    ],
)
def test_what_is_refused_leaves_everything_as_it_was(capsys, monkeypatch, tmp_path, earlier, arguments, words):
    """D31: nothing of an earlier run is removed before all arguments are checked."""
    monkeypatch.chdir(tmp_path)
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = str(other.getsockname()[1])
        code, line = refused(capsys, "--state-dir", earlier, *(each.format(taken=taken) for each in arguments))
    assert code == 2
    assert words in line
    assert {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()} == before


def test_a_full_database_is_one_line_and_exit_code_4(tmp_path, capsys, monkeypatch):
    from roost.errors import DatabaseFull
    from roost.trial import dev_cloud

    def full(*_):
        raise DatabaseFull("database sqlite:///x is full", "make room")

    monkeypatch.setattr(dev_cloud, "import_fleet", full)
    monkeypatch.setattr("roost.cli.dev.set_up_logging", lambda *_: None)
    code, line = refused(capsys, "--state-dir", tmp_path / "s")
    assert code == 4
    assert "is full (make room)" in line
    StateDirectory.open(tmp_path / "s").close()
