# SPDX-License-Identifier: Apache-2.0
"""How many more servers fit, as `roost capacity` counts them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from roost.api.bounded_work import Deadline
from roost.api.call import CurrentCall, answer
from roost.api.roost.snapshots import snapshot_for
from roost.inspection.capacity import count_each, headroom_record
from roost.library import Scheduler
from roost.model import RequestSpec
from roost.scheduler.headroom import AVAILABILITY_ZONE, MOST_PLACED, Headroom

MOST_SECONDS = 20.0
USUAL_MOST = 100_000


def show(
    call: CurrentCall,
    flavor: Annotated[str | None, Query(min_length=1, max_length=255, description="name or id; all if none")] = None,
    by: Annotated[str, Query(min_length=1, max_length=255, description="key of aggregates")] = AVAILABILITY_ZONE,
    most: Annotated[int, Query(ge=1, le=MOST_PLACED, description="counting stops there")] = USUAL_MOST,
    n_plus_one: Annotated[bool, Query(description="also find the host whose loss costs most")] = False,
) -> Response:
    """How many more servers of a flavor fit, or of each as if all room were for it, and what runs out first."""
    with call.parts.fleet_work.share():
        deadline = Deadline(call.parts.clock, MOST_SECONDS)
        fleet = snapshot_for(call).fleet
        scheduler = Scheduler(fleet, config_files=call.parts.config_files)
        flavors = {flavor: fleet.flavor(flavor)} if flavor else fleet.flavors

        def count(name: str, spec: RequestSpec) -> Headroom:
            deadline.check()
            return scheduler.headroom(
                spec, by, loses_a_host=n_plus_one, most=most, progress=lambda *_: deadline.check()
            )

        counted = count_each({name: RequestSpec(flavor=each) for name, each in flavors.items()}, count)
        return answer({"capacity": [headroom_record(name, each) for name, each in counted.items()]})
