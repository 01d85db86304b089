# SPDX-License-Identifier: Apache-2.0
"""How many more servers fit, as `roost capacity` counts them.

| what could be too much | what bounds it |
| --- | --- |
| flavors | pages: `limit` flavors, PAGE_SECONDS, MOST_ENTRIES |
| the servers that fit of one flavor | `most`, MOST_SECONDS |
| clients that ask at once | `ApiParts.fleet_work` |
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fastapi import Query, Response
from pydantic import BaseModel, Field

from roost.api.bounded_work import Deadline, Overloaded
from roost.api.call import CurrentCall, answer
from roost.api.compute.paging import next_links
from roost.api.roost.snapshots import snapshot_for
from roost.errors import BadInput
from roost.library import Scheduler
from roost.model import RequestSpec
from roost.questions.headroom import AVAILABILITY_ZONE, MOST_PLACED, check_group_key
from roost.questions.plan import Counted, count_in_turn, headroom_record
from roost.questions.records import Headroom

MOST_SECONDS = 20.0
"""For an answer: a flavor that is not counted by then is left to the next page, or refused where it is the first."""
PAGE_SECONDS = 5.0
"""After that no further flavor is begun."""
MOST_ENTRIES = 50_000
"""Hosts and groups of hosts in a page, which are some megabytes: no flavor comes after so many."""
USUAL_MOST = 100_000


class CapacityQuery(BaseModel):
    """What is counted, and which page of it is wanted."""

    flavor: str | None = Field(None, min_length=1, max_length=255, description="name or id; all if none")
    by: str = Field(AVAILABILITY_ZONE, min_length=1, max_length=255, description="key of aggregates")
    most: int = Field(USUAL_MOST, ge=1, le=MOST_PLACED, description="counting stops there")
    n_plus_one: bool = Field(False, description="also find the host whose loss costs most")
    limit: int = Field(100, ge=1, le=1000, description="flavors at most; fewer where they take long")
    marker: str | None = Field(None, min_length=1, max_length=255, description="name of the last flavor seen")


def show(query: Annotated[CapacityQuery, Query()], call: CurrentCall) -> Response:
    """How many more servers of a flavor fit, or of each as if all room were for it, and what runs out first.

    All flavors come in pages, by name. A page ends where counting took long, too: as long as there are more, there is
    a link to the next.
    """
    if query.flavor and query.marker:
        raise BadInput("marker: is for pages of all flavors, and flavor names one", "leave out one of them")
    with call.parts.fleet_work.share():
        end, page_end = (Deadline(call.parts.clock, seconds) for seconds in (MOST_SECONDS, PAGE_SECONDS))
        fleet = snapshot_for(call).fleet
        scheduler = Scheduler(fleet, config_files=call.parts.config_files)
        check_group_key(scheduler.table, query.by)

        def count(name: str, spec: RequestSpec) -> Headroom:
            return scheduler.headroom(
                spec, query.by, loses_a_host=query.n_plus_one, most=query.most, progress=lambda *_: end.check()
            )

        if query.flavor:
            one = count(query.flavor, RequestSpec(flavor=fleet.flavor(query.flavor)))
            return answer({"capacity": [headroom_record(query.flavor, one)]})
        left = sorted(name for name in fleet.flavors if name > (query.marker or ""))
        names = left[: min(query.limit, call.parts.options.max_limit)]
        specs = {name: RequestSpec(flavor=fleet.flavors[name]) for name in names}
        page = _fill_page(count_in_turn(specs, count, scheduler.headroom_key), page_end)
        records = [headroom_record(name, each) for name, each in page.items()]
        links = next_links(call, "capacity", list(page), len(page)) if len(page) < len(left) else {}
        return answer({"capacity": records} | links)


def _fill_page(found: Iterable[tuple[str, Counted]], page_end: Deadline) -> dict[str, Counted]:
    """As many flavors as there is time and room for, and one at least; Overloaded where the first takes too long."""
    page: dict[str, Counted] = {}
    entries = 0
    try:
        for name, counted in found:
            page[name] = counted
            entries += len(counted.placed) + len(counted.groups) if isinstance(counted, Headroom) else 0
            if page_end.is_over or entries > MOST_ENTRIES:
                break
    except Overloaded:
        if not page:
            raise
    return page
