# SPDX-License-Identifier: Apache-2.0
"""Worker processes: what they print, what happens when one cannot start or hangs, how long their end may take."""

import sys
import time

import pytest

from roost.clock import SystemClock
from roost.errors import OptionError
from roost.service import supervisor as workers
from roost.service.supervisor import Supervisor, Worker


class TurnedClock(SystemClock):
    """Seconds pass when a test says so."""

    seconds = 0.0

    def monotonic(self):
        return self.seconds


DEAF = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('[]', flush=True); time.sleep(60)"


def worker_that(does, clock=None):
    """A process that runs this Python."""
    return Worker(1, [sys.executable, "-c", does], clock or SystemClock())


def wait_for(is_so):
    give_up = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)


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
    worker.look(lambda number: None)
    assert "worker 1 cannot be started" in caplog.text
    assert worker.unready == ["it died, and starts again soon"]
    caplog.clear()
    worker.look(lambda number: None)
    assert not caplog.records
    clock.seconds = 2 * workers.FIRST_PAUSE_SECONDS
    worker.look(lambda number: None)
    assert "worker 1 cannot be started" in caplog.text


def test_workers_that_do_not_end_are_killed_together_and_not_one_after_the_other(monkeypatch):
    monkeypatch.setattr(workers, "MARGIN_SECONDS", 0.1)
    three = Supervisor(3, [sys.executable, "-c", DEAF], SystemClock(), seconds_to_end=1)
    three.start()
    wait_for(lambda: not three.unready())
    started = time.monotonic()
    three.stop(is_hurried=False)
    assert time.monotonic() - started < 2.2
    assert all(each.process.returncode == -9 for each in three.workers)


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
        worker.look(lambda number: None)
        if is_ready:
            wait_for(lambda: worker.unready == [])
        return worker

    yield start
    for worker in workers_made:
        worker.process.kill()
        worker.wait(10)


def look_every_second(worker, clock, seconds):
    ended = []
    for _ in range(seconds):
        clock.seconds += 1
        worker.look(ended.append)
    return ended


def test_a_worker_that_falls_silent_is_not_ready_and_in_the_end_another_takes_its_place(started, clock, caplog):
    worker = started(SPEAKS_ONCE)
    first = worker.process
    look_every_second(worker, clock, 11)
    assert worker.unready == ["it has said nothing for 11 s"]
    assert first.poll() is None
    ended = look_every_second(worker, clock, 50)
    assert first.wait(10) == -9
    assert ended + look_every_second(worker, clock, 2) == [worker.number]
    assert [each.getMessage() for each in caplog.records] == ["worker 1 hangs: nothing from it for 61 s; killed"]
    wait_for(lambda: worker.process not in (None, first) and worker.unready == [])


def test_one_that_has_not_begun_to_speak_is_given_its_time(started, clock):
    worker = started("import time; time.sleep(600)", is_ready=False)
    look_every_second(worker, clock, 600)
    assert worker.process.poll() is None
    assert worker.unready == ["it has not started"]


def test_where_the_parent_stood_still_itself_nobody_is_to_blame(started, clock):
    worker = started(SPEAKS_ONCE)
    clock.seconds += 3600
    look_every_second(worker, clock, 1)
    assert worker.unready == []
    assert worker.process.poll() is None


def test_a_word_in_between_is_enough(started, clock):
    worker = started("print('[]', flush=True); input(); print('[]', flush=True); input()")
    look_every_second(worker, clock, 40)
    assert worker.unready != []
    worker.process.stdin.write("\n")
    worker.process.stdin.flush()
    wait_for(lambda: worker.unready == [])
    look_every_second(worker, clock, 40)
    assert worker.process.poll() is None


HEARS = """
import signal, sys
signal.signal(signal.SIGHUP, lambda number, frame: print('["heard"]', flush=True))
sys.stdin.readline()
print('[]', flush=True)
sys.stdin.readline()
"""


def test_a_worker_that_is_starting_is_told_to_reload_when_it_has_begun_to_speak(started, clock):
    worker = started(HEARS, is_ready=False)
    worker.reload()
    look_every_second(worker, clock, 3)
    assert worker.process.poll() is None
    worker.process.stdin.write("\n")
    worker.process.stdin.flush()
    wait_for(lambda: worker.unready == [])
    look_every_second(worker, clock, 1)
    wait_for(lambda: worker.unready == ["heard"])
    look_every_second(worker, clock, 1)


def test_what_workers_are_given_to_end_is_read_again(monkeypatch):
    monkeypatch.setattr(workers, "MARGIN_SECONDS", 0.1)
    one = Supervisor(1, [sys.executable, "-c", DEAF], SystemClock(), seconds_to_end=50, read_again=lambda: 0.2)
    one.start()
    wait_for(lambda: not one.unready())
    monkeypatch.setattr(one.workers[0], "reload", lambda: None)
    one.reload()
    started = time.monotonic()
    one.stop(is_hurried=False)
    assert time.monotonic() - started < 5


def test_where_the_configuration_is_wrong_no_worker_is_told():
    def wrong():
        raise OptionError("no such option")

    one = Supervisor(1, ["/no/such/program"], SystemClock(), seconds_to_end=1, read_again=wrong)
    one.workers[0].reload = lambda: pytest.fail("it was told")
    with pytest.raises(OptionError):
        one.reload()
