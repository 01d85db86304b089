# SPDX-License-Identifier: Apache-2.0
"""RPC methods that are counted and timed, and whose log lines have the request's id."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from roost.clock import Clock
from roost.messages.context import RequestContext
from roost.messages.dispatcher import is_expected
from roost.messages.interface import Method
from roost.observe.logs import bound
from roost.observe.metrics import Metrics


def measure_all(methods: Mapping[str, Method], clock: Clock, metrics: Metrics) -> dict[str, Method]:
    """Name -> the method, which counts each of its calls, whether it failed, and how long it took."""
    return {name: measured(name, method, clock, metrics) for name, method in methods.items()}


def measured(
    name: str,
    method: Method,
    clock: Clock,
    metrics: Metrics,
    is_answer: Callable[[Exception], bool] = is_expected,
) -> Method:
    """A method that counts calls, failures and time of this one, after the answer was sent.

    `is_answer`: whether an exception is an answer to the caller; it is counted as expected_error, any other as error.
    """

    @functools.wraps(method)
    def measuring(context: RequestContext, **arguments: Any) -> Any:
        started, result, seconds = clock.monotonic(), "error", 0.0
        # Before what the method defers, which may take long.
        context.when_answered(lambda: metrics.rpc_handled(name, result, seconds))
        try:
            with bound(request_id=context.request_id):
                answer = method(context, **arguments)
            result = "ok"
            return answer
        except Exception as error:
            result = "expected_error" if is_answer(error) else "error"
            raise
        finally:
            seconds = clock.monotonic() - started

    return measuring
