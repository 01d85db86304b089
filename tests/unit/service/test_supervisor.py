# SPDX-License-Identifier: Apache-2.0
"""Several workers as one service: how long their stop may take, and what a reload sends them."""

import signal
import socket
import sys
import time

import pytest
from tests.unit.service.waiting import wait_for

from roost.clock import SystemClock
from roost.errors import OptionError
from roost.service import supervisor
from roost.service.supervisor import Supervisor

DEAF = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('[]', flush=True); time.sleep(60)"


def test_workers_that_do_not_end_are_killed_together_and_not_one_after_the_other(monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_MARGIN_SECONDS", 0.1)
    three = Supervisor(3, [sys.executable, "-c", DEAF], SystemClock(), seconds_to_end=1)
    three.start()
    wait_for(lambda: not three.unready())
    started = time.monotonic()
    three.stop(is_hurried=False)
    assert time.monotonic() - started < 2.2
    assert all(each.process.returncode == -9 for each in three.workers)


def test_what_workers_are_given_to_end_is_read_again(monkeypatch):
    monkeypatch.setattr(supervisor, "STOP_MARGIN_SECONDS", 0.1)
    one = Supervisor(1, [sys.executable, "-c", DEAF], SystemClock(), seconds_to_end=50, read_again=lambda: 0.2)
    one.start()
    wait_for(lambda: not one.unready())
    monkeypatch.setattr(one.workers[0], "reload", lambda: None)
    one.reload()
    started = time.monotonic()
    one.stop(is_hurried=False)
    assert time.monotonic() - started < 5


SECOND_TAKES = """
import os, socket, sys, time
listener = socket.socket(fileno=int(sys.argv[1]))
print("[]", flush=True)
if not os.path.exists(sys.argv[2]):
    open(sys.argv[2], "w").close()
    time.sleep(60)
client, _ = listener.accept()
client.sendall(b"second")
"""


def test_a_connection_waits_where_a_worker_dies_before_it_has_taken_it(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = tmp_path / "first"
        command = [sys.executable, "-c", SECOND_TAKES, str(listener.fileno()), str(first)]
        one = Supervisor(1, command, SystemClock(), seconds_to_end=1, listener=listener)
        one.start()
        wait_for(first.exists)
        with socket.create_connection(listener.getsockname(), timeout=20) as client:
            one.workers[0].send_signal(signal.SIGKILL)
            wait_for(lambda: one.look_after() or one.workers[0].process is None)
            wait_for(lambda: one.look_after() or one.workers[0].process is not None)
            assert client.recv(20) == b"second"
        one.stop(is_hurried=False)
        assert listener.fileno() == -1


def test_where_the_configuration_is_wrong_no_worker_reloads():
    def wrong():
        raise OptionError("no such option")

    one = Supervisor(1, ["/no/such/program"], SystemClock(), seconds_to_end=1, read_again=wrong)
    one.workers[0].reload = lambda: pytest.fail("it was told")
    with pytest.raises(OptionError):
        one.reload()
