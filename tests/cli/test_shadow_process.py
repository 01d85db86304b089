# SPDX-License-Identifier: Apache-2.0
"""`roost service scheduler` in shadow mode, as a process of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from roost.trial.private_servers import free_port

CONF = """
[DEFAULT]
transport_url = in-process://
host = blue
[database]
connection = sqlite:///roost.db
[scheduler]
workers = 4
[roost]
health_port = {port}
shadow = true
shadow_report = {report}
"""


@pytest.fixture
def folder(roost, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert roost("db", "upgrade", "--connection", "sqlite:///roost.db").code == 0
    return tmp_path


def start(folder, report, port):
    (folder / "roost.conf").write_text(CONF.format(port=port, report=report))
    command = [sys.executable, "-m", "roost", "service", "scheduler", "--config-file", "roost.conf"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ, cwd=folder)


def test_it_is_one_process_that_gets_ready_and_ends(folder):
    port = free_port()
    process = start(folder, "shadow.jsonl", port)
    give_up = time.monotonic() + 60
    try:
        while True:
            assert process.poll() is None
            assert time.monotonic() < give_up
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
                break
            time.sleep(0.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"roost_workers 1.0" in answer.read()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "shadow mode: nothing is claimed topic=scheduler_shadow notifications=roost_shadow" in log
    assert (folder / "shadow.jsonl").read_text() == ""


def test_a_report_that_cannot_be_written_is_one_line(folder):
    process = start(folder, "missing/shadow.jsonl", free_port())
    _, log = process.communicate(timeout=60)
    assert process.returncode == 2
    assert log.splitlines()[-1].startswith("roost: [roost] shadow_report: missing/shadow.jsonl cannot be written: ")
