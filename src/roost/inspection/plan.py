# SPDX-License-Identifier: Apache-2.0
"""Requests placed one after the other on a copy of a cloud, as records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from roost.errors import NoValidHost
from roost.inspection.planned_requests import PlannedRequest
from roost.library import Scheduler
from roost.model import Decision, RequestSpec
from roost.model.json_records import to_json


class PlannedPlacement(NamedTuple):
    """A request of a plan, and what was decided."""

    request: PlannedRequest
    decision: Decision
    fits: bool

    @property
    def hosts(self) -> list[str]:
        """The host of each instance; empty where the request does not fit."""
        return [each.host for each in self.decision.selections] if self.fits else []


def place(scheduler: Scheduler, request: PlannedRequest, spec: RequestSpec) -> PlannedPlacement:
    """Place a request on the scheduler's copy of the fleet, with what earlier ones took."""
    try:
        return PlannedPlacement(request, scheduler.place(spec, alternates=0), True)
    except NoValidHost as failure:
        return PlannedPlacement(request, failure.decision, False)


def plan_record(found: Sequence[PlannedPlacement]) -> dict[str, Any]:
    """Whether all requests fit, and what was decided of each."""
    requests = [
        {
            "name": each.request.name,
            "count": each.request.count,
            "fits": each.fits,
            "hosts": each.hosts,
            **to_json(each.decision),
        }
        for each in found
    ]
    return {"fits": all(each.fits for each in found), "requests": requests}
