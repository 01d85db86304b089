# SPDX-License-Identifier: Apache-2.0
"""One worker process: what it prints, and what happens when it cannot start, falls silent or hangs."""

import sys

import pytest
from tests.unit.services.waiting import wait_for

from roost.clock import SystemClock
from roost.services import workers
from roost.services.workers import Worker


class TurnedClock(SystemClock):
    """Seconds pass when a test says so."""

    seconds = 0.0

    def monotonic(self):
        return self.seconds


def worker_that(does, clock=None):
    """A process that runs this Python."""
    return Worker(1, [sys.executable, "-c", does], clock or SystemClock())


def test_what_a_plugin_prints_does_not_make_the_parent_deaf():
    worker = worker_that(r"""
import sys
sys.stdout.buffer.write(b"\xff\xfe is no text\n[]\n")
sys.stdout.flush()
sys.stdin.read()
""")
    worker.start()
    wait_for(lambda: worker.unready == [])
    worker.process.kill()
    worker.wait(10)


def test_a_worker_that_cannot_be_started_is_tried_again_later(caplog):
    clock = TurnedClock()
    worker = Worker(1, ["/no/such/program"], clock)
    worker.check(lambda number: None)
    assert "worker 1 cannot be started" in caplog.text
    assert worker.unready == ["it died, and starts again soon"]
    caplog.clear()
    worker.check(lambda number: None)
    assert not caplog.records
    clock.seconds = 2 * workers.FIRST_BACKOFF_SECONDS
    worker.check(lambda number: None)
    assert "worker 1 cannot be started" in caplog.text


SPEAKS_ONCE = "print('[]', flush=True); import time; time.sleep(600)"


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
def started(clock):
    """Starts a worker that runs this Python, by the turned clock; it is ended after the test."""
    workers_made = []

    def start(does, is_ready=True):
        worker = worker_that(does, clock)
        workers_made.append(worker)
        worker.check(lambda number: None)
        if is_ready:
            wait_for(lambda: worker.unready == [])
        return worker

    yield start
    for worker in workers_made:
        worker.process.kill()
        worker.wait(10)


def check_every_second(worker, clock, seconds):
    ended = []
    for _ in range(seconds):
        clock.seconds += 1
        worker.check(ended.append)
    return ended


def test_a_worker_that_falls_silent_is_not_ready_and_in_the_end_another_takes_its_place(started, clock, caplog):
    worker = started(SPEAKS_ONCE)
    first = worker.process
    check_every_second(worker, clock, 11)
    assert worker.unready == ["it has said nothing for 11 s"]
    assert first.poll() is None
    ended = check_every_second(worker, clock, 50)
    assert first.wait(10) == -9
    assert ended + check_every_second(worker, clock, 2) == [worker.number]
    assert [each.getMessage() for each in caplog.records] == ["worker 1 hangs: nothing from it for 61 s; killed"]
    wait_for(lambda: worker.process not in (None, first) and worker.unready == [])


def test_a_worker_before_its_first_heartbeat_has_no_timeout(started, clock):
    worker = started("import time; time.sleep(600)", is_ready=False)
    check_every_second(worker, clock, 600)
    assert worker.process.poll() is None
    assert worker.unready == ["it has not started"]


def test_where_the_parent_itself_was_suspended_no_worker_counts_as_silent(started, clock):
    worker = started(SPEAKS_ONCE)
    clock.seconds += 3600
    check_every_second(worker, clock, 1)
    assert worker.unready == []
    assert worker.process.poll() is None


def test_one_heartbeat_in_between_is_enough(started, clock):
    worker = started("print('[]', flush=True); input(); print('[]', flush=True); input()")
    check_every_second(worker, clock, 40)
    assert worker.unready != []
    worker.process.stdin.write("\n")
    worker.process.stdin.flush()
    wait_for(lambda: worker.unready == [])
    check_every_second(worker, clock, 40)
    assert worker.process.poll() is None


HEARS = """
import signal, sys
signal.signal(signal.SIGHUP, lambda number, frame: print('["heard"]', flush=True))
sys.stdin.readline()
print('[]', flush=True)
sys.stdin.readline()
"""


def test_a_worker_that_is_starting_reloads_after_its_first_heartbeat(started, clock):
    worker = started(HEARS, is_ready=False)
    worker.reload()
    check_every_second(worker, clock, 3)
    assert worker.process.poll() is None
    worker.process.stdin.write("\n")
    worker.process.stdin.flush()
    wait_for(lambda: worker.unready == [])
    check_every_second(worker, clock, 1)
    wait_for(lambda: worker.unready == ["heard"])
    check_every_second(worker, clock, 1)
