# SPDX-License-Identifier: Apache-2.0
"""One instance, as almost always, whose class is known: the shortest way through the same steps.

Several instances go by way of `KeptPlacing`; what that keeps between them would be a fifth of the time of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from roost.errors import NoValidHost
from roost.hosts import HostTable
from roost.model.decision import Candidate, Decision, Ranked, Scores, Selection, Standings, Step, build_unchecked
from roost.model.request import RequestSpec
from roost.scheduler.incremental.request_classes import RequestClass, RequestOverlay
from roost.scheduler.placing import KEPT_BEST, Given

Order = list[tuple[float, int]]
"""(Weight turned round, row) of the best, the chosen one first."""


def place_single(given: Given, kept: RequestClass | RequestOverlay, uuid: str | None, alternates: int) -> Decision:
    """Choose a host for the instance and consume it there; NoValidHost, and no change, if it has none."""
    table, clock, started = given.table, given.clock, given.started
    steps, spec, asked = kept.survivors.steps, given.spec.for_instance(uuid), clock()
    if not kept.survivors.left:
        raise NoValidHost(_decide(given, kept.refusal(), (), (), (asked - started, 0, 0), failed_at=0))
    order = _choose(given, kept, alternates)
    best, ranked = _show(order[:KEPT_BEST], kept, table)
    row, weighed = order[0][1], clock()
    placed = table.consume(row, spec)
    try:
        selection = _select(given, kept, order, alternates, placed, ranked)
    except BaseException:
        table.release(row, placed)
        raise
    return _decide(given, steps, best, (selection,), (asked - started, weighed - asked, clock() - weighed))


def _choose(given: Given, kept: RequestClass | RequestOverlay, alternates: int) -> Order:
    """The best hosts, or one of the best first where chance decides; enough for all alternates."""
    subset, left, cells = given.pipeline.choice.host_subset_size, kept.survivors.left, given.table.encoded["cell"]
    order = kept.best(max(KEPT_BEST, alternates + 1, subset))
    pick = given.randomness.randrange(min(subset, left)) if subset > 1 else 0
    if alternates and len(cells.values) > 1:
        cell = cells.codes[order[pick][1]]
        while len(order) < left and sum(cells.codes[row] == cell for _, row in order) <= alternates:
            order = kept.best(min(left, 4 * len(order)))
    if pick:
        order.insert(0, order.pop(pick))
    return order


def _show(order: Order, kept: RequestClass | RequestOverlay, table: HostTable) -> tuple[Sequence[Ranked], Ranked]:
    """The best hosts with their scores, and the first of them; where it is the only one left, nobody was weighed."""
    if kept.survivors.left == 1:
        alone = Ranked(*table.names[order[0][1]], 0.0, {})
        return (alone,), alone
    noted = kept.ranking.noted_of(order)
    (host, node), weight, parts = noted[0]
    return Standings(noted), Ranked(host, node, weight, Scores(*parts))


def _select(
    given: Given,
    kept: RequestClass | RequestOverlay,
    order: Order,
    alternates: int,
    placed: RequestSpec,
    ranked: Ranked,
) -> Selection:
    """The chosen host and the next best of its cell, all with their limits."""
    table, (_, row) = given.table, order[0]
    others = _others_of_cell(order, alternates, table)
    if kept.has_limits:
        own, *limits = given.pipeline.limits(table.in_the_running(), [row, *others], placed)
    else:
        own, limits = {}, [{} for _ in others]
    candidates = []
    for other, limit in zip(others, limits, strict=True):
        host, node = table.names[other]
        candidates.append(build_unchecked(Candidate, {"host": host, "node": node, "limits": limit, "row": other}))
    return build_unchecked(
        Selection,
        {
            "host": ranked.host,
            "node": ranked.node,
            "limits": own,
            "instance_uuid": placed.instance_uuid,
            "ranked": ranked,
            "alternates": tuple(candidates),
            "placed": placed,
            "row": row,
        },
    )


def _others_of_cell(order: Order, count: int, table: HostTable) -> list[int]:
    """The hosts after the chosen one, in the same cell."""
    cells = table.encoded["cell"]
    if len(cells.values) == 1:
        return [row for _, row in order[1 : count + 1]]
    cell = cells.codes[order[0][1]]
    return [row for _, row in order[1:] if cells.codes[row] == cell][:count]


def _decide(
    given: Given,
    steps: tuple[Step, ...],
    best: Sequence[Ranked],
    selections: tuple[Selection, ...],
    nanoseconds: tuple[int, int, int],
    failed_at: int | None = None,
) -> Decision:
    """The record of it all. What is kept answers for prefilter and capacity: their time is that of filter."""
    asking, weighing, choosing = nanoseconds
    return build_unchecked(
        Decision,
        {
            "hosts": len(given.table.names),
            "wanted": 1,
            "steps": steps,
            "weighers": given.pipeline.weigher_names,
            "best": best,
            "selections": selections,
            "time_us": {
                "prefilter": 0.0,
                "capacity": 0.0,
                "filter": asking / 1000,
                "weigh": weighing / 1000,
                "choose": choosing / 1000,
                "total": (asking + weighing + choosing) / 1000,
            },
            "failed_at": failed_at,
        },
    )
