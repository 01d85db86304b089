# SPDX-License-Identifier: Apache-2.0
"""D23: what a watcher raises is logged once, counted, and never seen by the request that it watches."""

import pytest

from roost import best_effort as guard
from roost.best_effort import WATCHERS, SwallowedErrors, best_effort
from roost.services.metrics import Metrics


@pytest.fixture
def swallowed(monkeypatch):
    fresh = SwallowedErrors()
    for module in ("best_effort", "services.metrics"):
        monkeypatch.setattr(f"roost.{module}.SWALLOWED", fresh)
    return fresh


@best_effort("shadow")
def divide(by):
    """A watcher that fails at 0, and at what is no number."""
    return 12 / by


def test_a_function_answers_as_ever_while_it_does_not_fail(swallowed):
    assert divide(by=4) == 3
    assert swallowed.counts() == {}
    assert (divide.__name__, divide.__doc__) == ("divide", "A watcher that fails at 0, and at what is no number.")


def test_a_function_that_fails_answers_none(swallowed):
    assert divide(0) is None
    assert swallowed.counts() == {"shadow": 1}


def test_a_block_that_fails_ends_there(swallowed):
    reached = []
    with best_effort("metrics"):
        reached.append("before")
        divide.__wrapped__(0)
        reached.append("after")
    assert (reached, swallowed.counts()) == (["before"], {"metrics": 1})


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_process_passes(swallowed, stop):
    @best_effort("log")
    def interrupted():
        raise stop

    with pytest.raises(stop):
        interrupted()
    with pytest.raises(stop), best_effort("log"):
        raise stop
    assert swallowed.counts() == {}


def test_each_kind_of_error_at_each_place_is_logged_once_with_its_traceback(swallowed, caplog):
    for by in (0, 0, "x", 0, "x"):
        divide(by)
    with best_effort("shadow"):
        divide.__wrapped__(0)
    with best_effort("shadow"):
        raise ZeroDivisionError("elsewhere")
    first, second, third = caplog.records
    assert first.getMessage() == (
        "shadow: ZeroDivisionError is ignored, for it only watches; counted, and not logged again: division by zero"
    )
    assert first.exc_info[1].__traceback__.tb_next is not None or first.exc_info[1].__traceback__
    assert [each.exc_info[0] for each in (first, second, third)] == [ZeroDivisionError, TypeError, ZeroDivisionError]
    assert swallowed.counts() == {"shadow": 7}


def test_the_number_of_logged_errors_is_bounded(swallowed, caplog, monkeypatch):
    monkeypatch.setattr(guard, "MOST_LOGGED", 3)
    for number in range(10):
        with best_effort("log"):
            raise type(f"Error{number}", (Exception,), {})
    assert (len(caplog.records), swallowed.counts()) == (3, {"log": 10})


def test_an_error_that_cannot_be_logged_is_counted_all_the_same(swallowed, monkeypatch):
    monkeypatch.setattr(guard.LOG, "error", divide.__wrapped__)
    assert divide(0) is None
    assert swallowed.counts() == {"shadow": 1}


def test_metrics_count_what_was_swallowed_since_the_last_look(swallowed):
    metrics = Metrics()
    divide(0)
    swallowed.count("log", 5)
    for _ in range(2):
        metrics.watchers_checked()
    divide(0)
    metrics.watchers_checked()
    shown = [
        line for line in metrics.render().decode().splitlines() if line.startswith("roost_watcher_errors_total{")
    ]
    counts = dict.fromkeys(WATCHERS, 0.0) | {"shadow": 2.0, "log": 5.0}
    assert shown == [f'roost_watcher_errors_total{{watcher="{each}"}} {counts[each]}' for each in WATCHERS]
