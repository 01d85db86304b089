# SPDX-License-Identifier: Apache-2.0
"""Several workers as one service: how long their stop may take, and what a reload sends them."""

import signal
import socket
import sys
import time

import pytest
from tests.unit.services.waiting import wait_for

from roost.clock import SystemClock
from roost.errors import BadInput, DatabaseError, OptionError
from roost.services import workers
from roost.services.workers import Supervisor, Worker

DEAF = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('[]', flush=True); time.sleep(60)"


def test_workers_that_do_not_end_are_killed_together_and_not_one_after_the_other(monkeypatch):
    monkeypatch.setattr(workers, "STOP_MARGIN_SECONDS", 0.1)
    three = Supervisor(3, [sys.executable, "-c", DEAF], SystemClock(), seconds_to_end=1)
    three.start()
    wait_for(lambda: not three.unready())
    started = time.monotonic()
    three.stop(is_hurried=False)
    assert time.monotonic() - started < 2.2
    assert all(each.process.returncode == -9 for each in three.workers)


def test_what_workers_are_given_to_end_is_read_again(monkeypatch):
    monkeypatch.setattr(workers, "STOP_MARGIN_SECONDS", 0.1)
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


CANNOT = """print('{"cannot_work": {"code": "CODE", "message": "a database of nova", "hint": "give it its own"}}')"""
DATABASE = CANNOT.replace("CODE", "roost.database.schema")


def look_after_until_all_have_ended(service):
    wait_for(lambda: service.look_after() or all(each.process is None for each in service.workers))


@pytest.mark.parametrize(("code", "kind"), [("roost.database.schema", DatabaseError), ("roost.bad_input", BadInput)])
def test_where_no_restart_helps_any_worker_the_service_ends_with_their_reason(code, kind):
    """D35: they were restarted for ever."""
    two = Supervisor(2, [sys.executable, "-c", CANNOT.replace("CODE", code)], SystemClock(), seconds_to_end=1)
    two.start()
    with pytest.raises(kind, match=r"a database of nova \(give it its own\)"):
        look_after_until_all_have_ended(two)


FAILS_AT_FIRST = f"import sys; worker = int(sys.argv[-1])\n{DATABASE} if worker == 1 else print('[]', flush=True)"


def test_while_a_worker_works_another_is_tried_again():
    """D35: the operator may give the rights back, and what works goes on."""
    command = [sys.executable, "-c", f"{FAILS_AT_FIRST}; sys.stdin.read()"]
    two = Supervisor(2, command, SystemClock(), seconds_to_end=1)
    two.start()
    wait_for(lambda: not two.workers[1].unready)
    two.workers[0].process.stdin.close()
    wait_for(lambda: two.look_after() or two.workers[0].process is None)
    wait_for(lambda: two.look_after() or two.workers[0].process is not None)
    two.stop(is_hurried=True)


def test_a_worker_that_died_for_another_reason_since_is_tried_again():
    """D35: the last end counts, not an earlier one."""
    one = Supervisor(2, [sys.executable, "-c", DATABASE], SystemClock(), seconds_to_end=1)
    one.workers[1] = Worker(2, [sys.executable, "-c", "raise SystemExit(1)"], SystemClock())
    one.start()
    look_after_until_all_have_ended(one)
