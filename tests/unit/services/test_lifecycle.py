# SPDX-License-Identifier: Apache-2.0
"""The life of a service: what a reload may not end, and what a hurried stop may not wait for."""

import gc
import logging
import threading

import pytest

from roost.clock import SystemClock
from roost.errors import OptionError
from roost.services.lifecycle import YOUNG_OBJECTS, Signals, run_service


class Service:
    """Ready at once; does at its first look what a test says."""

    def __init__(self, at_first_look=lambda: None):
        self.at_first_look, self.reload_error, self.looks, self.stops = at_first_look, None, 0, []
        self.gate = threading.Event()
        self.gate.set()

    def start(self):
        pass

    def unready(self):
        return []

    def look_after(self):
        self.looks += 1
        if self.looks == 1:
            self.at_first_look()

    def is_alive(self):
        return True

    def reload(self):
        if self.reload_error:
            raise self.reload_error

    def seconds_to_end(self):
        return 0.0

    def stop(self, is_hurried):
        self.stops.append(is_hurried)
        if not is_hurried:
            self.gate.wait(10)


@pytest.fixture(autouse=True)
def _collector():
    """The garbage collector of this process is left as it was."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def ask_for_reload(signals, service, then_looks=3):
    """As SIGHUP, and after some looks SIGTERM."""
    signals._on_reload(0, None)
    usual = service.look_after

    def look_after():
        usual()
        if service.looks >= then_looks:
            signals.end()

    service.look_after = look_after


@pytest.mark.parametrize("error", [OptionError("no such filter"), ZeroDivisionError("in a plugin"), None])
def test_a_reload_that_fails_leaves_the_service_running(error, caplog, monkeypatch):
    monkeypatch.setattr("roost.services.lifecycle.CHECK_INTERVAL_SECONDS", 0.01)
    service, signals = Service(), Signals()
    service.reload_error = error
    service.at_first_look = lambda: ask_for_reload(signals, service)
    assert run_service(service, SystemClock(), signals) is True
    assert (service.looks, service.stops) == (3, [False])
    assert ("was not taken up" in caplog.text) == bool(error)


def test_an_unexpected_error_is_logged_with_its_traceback(caplog):
    def fail():
        raise ZeroDivisionError("of ours")

    service = Service(fail)
    with pytest.raises(ZeroDivisionError):
        run_service(service, SystemClock(), Signals())
    (record,) = [each for each in caplog.records if each.levelno == logging.CRITICAL]
    assert record.exc_info
    assert service.stops == [False]


def test_a_second_signal_does_not_wait_and_says_that_requests_were_given_up():
    signals = Signals()

    def end_twice():
        signals.end()
        signals.end()

    service = Service(end_twice)
    service.gate.clear()
    assert run_service(service, SystemClock(), signals) is False
    assert service.stops == [False, True]
    service.gate.set()


def test_what_a_service_has_once_it_is_started_is_left_out_of_garbage_collections():
    signals, seen = Signals(), []

    def look():
        seen.append((gc.get_freeze_count() > 1000, gc.get_threshold()[0]))
        signals.end()

    run_service(Service(look), SystemClock(), signals)
    assert seen == [(True, YOUNG_OBJECTS)]
