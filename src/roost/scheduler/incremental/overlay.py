# SPDX-License-Identifier: Apache-2.0
"""Requests like those of a class, but for checks of their own: hosts to ignore, or on which a build failed before."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from roost.model.decision import Step
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, with_details
from roost.scheduler.incremental.request_class import RequestClass
from roost.scheduler.incremental.survivors import SurvivorsOfOneRequest
from roost.scheduler.search import Order

BOUND_TO_HOSTS = ("affinity", "legacy")
"""Group policies by which the host of one member decides about all hosts for the next."""
_OWN_HINTS = ("same_host", "different_host")
_FEW_LEFT = 64
"""Up to so many survivors, weighing all of them is faster than asking the ranking of the class."""


class RequestOverlay:
    """The cached answers of a class, with one request's own checks on top."""

    def __init__(self, shared: RequestClass, checks: Sequence[Check]) -> None:
        """`checks`: all checks of the request, those that it shares with the class included."""
        self._shared = shared
        self.survivors = SurvivorsOfOneRequest(shared.survivors, checks)
        self.ranking = shared.ranking

    def best(self, count: int) -> Order:
        """The `count` best hosts, best first; of equal ones the first rows."""
        found = None
        if self.survivors.left > _FEW_LEFT:
            found = self.ranking.best(count, self.survivors)
        return self.ranking.best_of_all(count, self.survivors) if found is None else found

    def refusal(self) -> tuple[Step, ...]:
        """The steps with what the rejected hosts lacked, where no host passed."""
        return tuple(with_details(self.survivors.steps, self.survivors.fallen(), self._shared.family.table))


def shared_part(spec: RequestSpec) -> RequestSpec:
    """The request without its own checks: hosts it failed on, ignores, or is bound to. Itself if it has none."""
    if spec.retry is None and not (spec.ignore_hosts or spec.scheduler_hints or spec.instance_group):
        return spec
    changed: dict[str, Any] = {}
    if spec.retry is not None or spec.ignore_hosts:
        changed = {"retry": None, "ignore_hosts": None}
    if spec.instance_group is not None and spec.instance_group.policy in BOUND_TO_HOSTS:
        changed["instance_group"] = None
    if any(hint in spec.scheduler_hints for hint in _OWN_HINTS):
        hints = spec.scheduler_hints.items()
        changed["scheduler_hints"] = MappingProxyType({key: value for key, value in hints if key not in _OWN_HINTS})
    return spec.changed(**changed) if changed else spec
