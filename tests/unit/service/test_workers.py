# SPDX-License-Identifier: Apache-2.0
"""Worker processes: what they print, what happens when one cannot be started, and how long their end may take."""

import sys
import time

from roost.clock import SystemClock
from roost.service import workers
from roost.service.workers import Worker, Workers


class TurnedClock(SystemClock):
    """Seconds pass when a test says so."""

    seconds = 0.0

    def monotonic(self):
        return self.seconds


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
    worker.look(lambda process: None)
    assert "worker 1 cannot be started" in caplog.text
    assert worker.unready == ["it died, and starts again soon"]
    caplog.clear()
    worker.look(lambda process: None)
    assert not caplog.records
    clock.seconds = 2 * workers.FIRST_PAUSE_SECONDS
    worker.look(lambda process: None)
    assert "worker 1 cannot be started" in caplog.text


def test_workers_that_do_not_end_are_killed_together_and_not_one_after_the_other(monkeypatch):
    monkeypatch.setattr(workers, "MARGIN_SECONDS", 0.1)
    deaf = "from signal import *; import time; signal(SIGTERM, SIG_IGN); print('[]', flush=True); time.sleep(60)"
    three = Workers(3, [sys.executable, "-c", deaf], SystemClock(), seconds_to_end=1)
    three.start()
    wait_for(lambda: not three.unready())
    started = time.monotonic()
    three.stop(is_hurried=False)
    assert time.monotonic() - started < 2.2
    assert all(each.process.returncode == -9 for each in three.workers)
