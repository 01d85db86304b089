# SPDX-License-Identifier: Apache-2.0
"""The nearest miss of each obstacle: what was asked for, and the nearest that the fleet has, in one sentence.

Amounts are in `amount_misses.py`; names - zones, traits, hosts, groups - in `named_misses.py`. For all other checks
the sentence is the reason that the check gives for the host that comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable

from roost.scheduler.explain.amount_misses import Miss, amount_miss
from roost.scheduler.explain.named_misses import (
    affinity_miss,
    aggregate_key_miss,
    anti_affinity_miss,
    named_host_miss,
    service_miss,
    trait_miss,
    zone_miss,
)
from roost.scheduler.explain.obstacles import Obstacle, Obstacles
from roost.scheduler.explain.records import NearestMiss

_WRITERS: dict[str, Callable[[Obstacle], Miss | None]] = {
    "disabled": service_miss,
    "availability_zone": zone_miss,
    "traits": trait_miss,
    "requested_destination": named_host_miss,
    "force_hosts": named_host_miss,
    "AggregateInstanceExtraSpecsFilter": aggregate_key_miss,
    "ServerGroupAntiAffinityFilter": anti_affinity_miss,
    "ServerGroupAffinityFilter": affinity_miss,
}
"""Subject -> writer of its sentence, for those with more to say than the reason of a check."""
_LOWEST_WINS = {
    **dict.fromkeys(("IoOpsFilter", "AggregateIoOpsFilter"), "num_io_ops"),
    **dict.fromkeys(("NumInstancesFilter", "AggregateNumInstancesFilter"), "num_instances"),
}
"""Check of a limit -> the column in which the lowest number comes nearest."""


def find_misses(obstacles: Obstacles) -> tuple[NearestMiss, ...]:
    """One per obstacle, those that are the only obstacle of most hosts first."""
    return tuple(_nearest_miss(each) for each in obstacles.all())


def _nearest_miss(obstacle: Obstacle) -> NearestMiss:
    is_plugin = obstacle.check.rule is not None and not obstacle.check.rule.is_built_in
    writer = None if is_plugin else _WRITERS.get(obstacle.subject, amount_miss)
    text, row = (writer(obstacle) if writer else None) or _by_reason(obstacle)
    is_rejected = row is not None and bool(obstacle.among.masks[obstacle.subject][row])
    nearest = row if row is not None and is_rejected else int(obstacle.nearest[0])
    check = obstacle.among.check(obstacle.number_for(nearest))
    return NearestMiss(
        obstacle.subject,
        check.stage,
        check.name,
        text,
        len(obstacle.only),
        *(("", "") if row is None else obstacle.among.instance.table.names[row]),
        remedy=obstacle.among.remedy(nearest, obstacle.number_for(nearest)),
    )


def _by_reason(obstacle: Obstacle) -> Miss:
    """The reason of the check for the host that comes nearest."""
    rows = obstacle.nearest
    column = _LOWEST_WINS.get(obstacle.check.name)
    at = int(obstacle.hosts(rows).column(column).argmin()) if column else 0
    row = int(rows[at])
    reason = obstacle.among.reason(row, obstacle.number_for(row))
    return f"{obstacle.names(rows[at : at + 1])}: {reason}", row
