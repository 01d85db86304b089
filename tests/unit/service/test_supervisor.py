# SPDX-License-Identifier: Apache-2.0
"""Several workers as one service: how long their stop may take, and what a reload sends them."""

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


def test_where_the_configuration_is_wrong_no_worker_reloads():
    def wrong():
        raise OptionError("no such option")

    one = Supervisor(1, ["/no/such/program"], SystemClock(), seconds_to_end=1, read_again=wrong)
    one.workers[0].reload = lambda: pytest.fail("it was told")
    with pytest.raises(OptionError):
        one.reload()
