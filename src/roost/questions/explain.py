# SPDX-License-Identifier: Apache-2.0
"""Explanations of a request, and of one host. Pure: they change nothing, and read neither clock nor files.

Of hosts that can take a request they say the ranks, and what each weigher contributes. Of a request that no host can
take they say the nearest miss for each obstacle: what was asked for, and the nearest that the fleet has. Amounts name
the most that a host has free; zones, traits, hosts, keys of aggregates and groups name what there is; for all other
checks it is the reason that the check gives for the host that comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import starmap
from typing import NamedTuple

import numpy as np

from roost.errors import nearest
from roost.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.core import CoreFilter
from roost.filters.disk import DiskFilter
from roost.filters.extra_specs_ops import match
from roost.filters.ram import RamFilter
from roost.hosts import Hosts, HostTable, capacity
from roost.hosts.capacity import are_enabled
from roost.hosts.encoded import FloatArray, RowArray
from roost.model.decision import Score
from roost.model.group import split_values
from roost.model.remedy import counted, listed
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.questions.blockers import Obstacle, Obstacles, find_blockers, find_lifts
from roost.questions.funnel import (
    NONE,
    ExplainedInstance,
    Funnel,
    find_explained_instance,
    nearest_host,
    run_funnel,
    subject_of,
)
from roost.questions.records import (
    Blocker,
    Explanation,
    HostExplanation,
    HostScore,
    NearestMiss,
    RankedHost,
    Rejection,
    ScoreDifference,
)
from roost.scheduler.full_scan import Span, weigh
from roost.scheduler.pipeline import SHOWN_BEST, Pipeline
from roost.scheduler.search import Choice, Rules


class HostOrder:
    """Hosts in the order of their weights; equal ones in that of the table."""

    def __init__(self, hosts: Hosts, rules: Rules, spec: RequestSpec) -> None:
        self._hosts = hosts
        self._weighed = weigh(hosts, rules.weighers, spec)
        self._order = np.argsort(self._weighed.keys, kind="stable")

    def __len__(self) -> int:
        return len(self._order)

    def count_best(self) -> int:
        """How many hosts have the best weight."""
        return int(np.count_nonzero(self._weighed.keys == self._weighed.keys.min()))

    def best(self, count: int) -> tuple[RankedHost, ...]:
        """The `count` best hosts, best first."""
        return tuple(self._host(rank, int(position)) for rank, position in enumerate(self._order[:count], start=1))

    def of_row(self, row: int) -> RankedHost:
        """The host in this row of the table, which must be among the weighed ones."""
        position = int(np.flatnonzero(self._hosts.rows == row)[0])
        return self._host(int(np.flatnonzero(self._order == position)[0]) + 1, position)

    def next_of_cell(self, count: int) -> Iterator[str]:
        """The hosts after the best one that are in its nova cell: its alternates."""
        rows = self._hosts.rows[self._order]
        cells = self._hosts.table.encoded["cell"].codes[rows]
        for row in rows[1:][cells[1:] == cells[0]][:count].tolist():
            yield self._hosts.table.names[row][0]

    def _host(self, rank: int, position: int) -> RankedHost:
        ((host, node), weight, parts) = self._weighed.noted([position])[0]
        return RankedHost(host, node, rank, weight, tuple(starmap(_score, zip(*parts, strict=True))))


def _score(weigher: str, raw: float, span: Span, multiplier: float) -> HostScore:
    """What a weigher contributes, also one whose multiplier is 0 on this host: it may be another on others."""
    low, high = span
    score = Score(raw, 0.0 if low == high else (raw - low) / (high - low), multiplier)
    return HostScore(weigher, *score, score.contribution)


def explain_request(pipeline: Pipeline, table: HostTable, spec: RequestSpec, alternates: int = 0) -> Explanation:
    """Why the prepared request fits where it does, or nowhere. Raises the error of a plugin that fails.

    `alternates`: how many hosts to name that would be tried next.
    """
    instance = find_explained_instance(pipeline, table, spec)
    funnel = run_funnel(instance)
    fitting, wanted = len(funnel.left), instance.wanted
    fits = bool(fitting) and (wanted == 1 or instance.placed == wanted)
    blockers = find_blockers(instance)
    obstacles = None if fits else Obstacles(blockers, funnel)
    ranking = HostOrder(funnel.left, instance.rules, instance.spec) if fits else None
    best = ranking.best(SHOWN_BEST) if ranking else ()
    return Explanation(
        fits=fits,
        hosts=len(table.names),
        wanted=wanted,
        placed=wanted if fits else instance.placed,
        fitting=fitting,
        steps=funnel.steps,
        reasons=funnel.reasons(blockers.masks),
        lifts=find_lifts(obstacles) if obstacles else (),
        misses=find_misses(obstacles) if obstacles else (),
        best=best,
        margin=best[0].weight - best[1].weight if len(best) > 1 else None,
        alternates=tuple(ranking.next_of_cell(alternates)) if ranking else (),
        picks_among=_picks_among(pipeline.choice, ranking) if ranking else 1,
        rejections=funnel.rejections(),
    )


def _picks_among(choice: Choice, ranking: HostOrder) -> int:
    """Among how many of the best chance picks: a number that is set, or those of equal weight that are shuffled."""
    return max(min(choice.host_subset_size, len(ranking)), ranking.count_best() if choice.shuffles_best else 1)


def list_rejections(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> tuple[Rejection, ...]:
    """Every host that cannot take one instance of the request, with the first check that rejects it."""
    return run_funnel(find_explained_instance(pipeline, table, spec.changed(num_instances=1))).rejections()


def explain_host(pipeline: Pipeline, table: HostTable, spec: RequestSpec, row: int) -> HostExplanation:
    """Everything that rejects the host in this row, or why another host won. Raises what a plugin raises."""
    instance = find_explained_instance(pipeline, table, spec)
    funnel = run_funnel(instance)
    ranking = HostOrder(funnel.left, instance.rules, instance.spec) if len(funnel.left) else None
    is_left = funnel.first[row] == NONE
    own = ranking.of_row(row) if ranking and is_left else None
    winner = ranking.best(1)[0] if ranking else None
    differences = _differences(own, winner) if own and winner and own != winner else ()
    host, node = table.names[row]
    return HostExplanation(
        host=host,
        node=node,
        hosts=len(table.names),
        wanted=instance.wanted,
        placed=instance.placed,
        blockers=() if is_left else _blockers(instance, funnel, row),
        fitting=len(funnel.left),
        own=own,
        winner=winner,
        differences=differences,
        decided_by=_decided_by(own, winner, differences),
    )


def _blockers(instance: ExplainedInstance, funnel: Funnel, row: int) -> tuple[Blocker, ...]:
    """Every check that rejects the row, in the order of the checks."""
    found, first = find_blockers(instance), int(funnel.first[row])
    obstacles = Obstacles(found, funnel)
    numbers = sorted({*found.of_row(row), first})
    return tuple(
        Blocker(
            check.stage,
            check.name,
            subject_of(check),
            obstacles.reason(row, number),
            is_first=number == first,
            is_plugin=check.rule is not None and not check.rule.is_built_in,
            remedy=obstacles.remedy(row, number),
        )
        for number in numbers
        for check in [instance.checks[number].check]
    )


def _differences(own: RankedHost, winner: RankedHost) -> tuple[ScoreDifference, ...]:
    beside = {each.weigher: each for each in winner.scores}
    found = [ScoreDifference(each.weigher, each, beside[each.weigher]) for each in own.scores]
    return tuple(sorted(found, key=lambda each: -each.lead))


def _decided_by(own: RankedHost | None, winner: RankedHost | None, differences: tuple[ScoreDifference, ...]) -> str:
    """The weigher through which the winner leads most; empty if there is no winner ahead of the host."""
    if own is None or winner is None or own.weight == winner.weight or not differences:
        return ""
    return differences[0].weigher


_UNITS = {VCPU: "CPUs", MEMORY_MB: "MiB of memory", DISK_GB: "GB of disk"}
Miss = tuple[str, int | None]
"""The sentence, and the row of the host that it is about; None if it is about none."""


class _Room(NamedTuple):
    """What one instance asks for, and what each of some rows has for it."""

    asked: float
    unit: str
    free: FloatArray
    most_of_one: FloatArray
    """The most that one instance may take there, however much is free."""


def amount_miss(obstacle: Obstacle) -> Miss | None:
    """What was asked for, and the host that has most of it free; None if the check is about something else."""
    rows = obstacle.only if len(obstacle.only) else obstacle.rejected
    resource_class = _resource_class(obstacle)
    if resource_class is None:
        room = _room_by_filter(obstacle, rows)
    elif not _is_anywhere(obstacle, resource_class):
        return _missing_class(obstacle, resource_class), None
    else:
        room = _room_by_capacity(obstacle, rows, resource_class)
    return None if room is None else _sentence(obstacle, rows, room)


def _resource_class(obstacle: Obstacle) -> str | None:
    if not obstacle.check.is_about_room:
        return None
    short_names = {capacity.short_name(each): each for each in obstacle.spec.amounts}
    return short_names.get(obstacle.check.name)


def _is_anywhere(obstacle: Obstacle, resource_class: str) -> bool:
    """Whether a host has the resource class at all."""
    numbers = obstacle.among.instance.table.numbers
    return f"limit:{resource_class}" in numbers and bool((numbers[f"max_unit:{resource_class}"] > 0).any())


def _missing_class(obstacle: Obstacle, resource_class: str) -> str:
    known = set(obstacle.among.instance.table.resource_classes())
    hint = nearest(resource_class, known - {resource_class})
    asked = f"needs {obstacle.spec.amounts[resource_class]:,} {_UNITS.get(resource_class, resource_class)}"
    return f"{asked}; no host has any" + (f"; {hint}" if hint.startswith("did you mean") else "")


def _room_by_capacity(obstacle: Obstacle, rows: RowArray, resource_class: str) -> _Room:
    hosts, name = obstacle.hosts(rows), resource_class
    free = np.maximum(0, hosts.column(f"limit:{name}") - hosts.column(f"allocated:{name}"))
    return _Room(obstacle.spec.amounts[name], _UNITS.get(name, name), free, hosts.column(f"max_unit:{name}"))


def _room_by_filter(obstacle: Obstacle, rows: RowArray) -> _Room | None:
    """As the older filters count it; they matter where capacity is not checked."""
    hosts, flavor, rule = obstacle.hosts(rows), obstacle.spec.flavor, obstacle.check.rule
    if isinstance(rule, RamFilter):
        return _Room(flavor.memory_mb, "MiB of memory", rule.usable_mb(hosts), hosts.total_usable_ram_mb)
    if isinstance(rule, DiskFilter):
        return _Room(flavor.disk_mb, "MiB of disk", rule.usable_mb(hosts), 1024 * hosts.total_usable_disk_gb)
    if isinstance(rule, CoreFilter):
        free = hosts.vcpus_total * rule.ratios(hosts) - hosts.vcpus_used
        return _Room(flavor.vcpus, "CPUs", free, hosts.vcpus_total)
    return None


def _sentence(obstacle: Obstacle, rows: RowArray, room: _Room) -> Miss | None:
    usable = np.minimum(room.free, room.most_of_one)
    at = int(np.nanargmax(usable)) if not np.isnan(usable).all() else 0
    if not usable[at] < room.asked:
        return None  # it is given out in steps, or not in such small amounts: the reason of the check says it
    row, name = int(rows[at]), obstacle.names(rows[at : at + 1])
    found = f"most free is {room.free[at]:,.0f} on {name}"
    if room.free[at] >= room.asked:
        found = f"the most that one instance may take is {room.most_of_one[at]:,.0f}, on {name}"
    passes = "passes everything else" if len(obstacle.only) else "fails other checks, too"
    return f"needs {room.asked:,.0f} {room.unit}; {found}, which {passes}", row


"""The sentence, and the row of the host that it is about; None if it is about none."""


def zone_miss(obstacle: Obstacle) -> Miss:
    """Whether the zone exists, and why its hosts cannot take the request."""
    zone = obstacle.spec.availability_zone or ""
    instance = obstacle.among.instance
    known = split_values(instance.table.known_aggregates, "availability_zone")
    filters = (each for each in instance.rules.filters if isinstance(each, AvailabilityZoneFilter))
    known |= {each.options.default_availability_zone for each in filters}
    if zone not in known:
        return f"zone {zone} does not exist; {nearest(zone, known)}", None
    return _there(obstacle, f"zone {zone} has"), None


def _there(obstacle: Obstacle, subject: str) -> str:
    """How many hosts have what was asked for, and what rejects those."""
    rows = obstacle.passing
    if not len(rows):
        return f"{subject} no hosts"
    return f"{subject} {counted(len(rows), 'host')}, rejected by {obstacle.others(rows)}"


def trait_miss(obstacle: Obstacle) -> Miss:
    """Traits that no host has, or how many hosts have all of them."""
    required, forbidden = obstacle.spec.traits
    column = obstacle.among.instance.table.encoded["traits"]
    known: set[str] = set().union(*(column.values[code] for code in column.used()))
    if unknown := sorted(required - known):
        return f"no host has the trait {listed(unknown)}; {_nearest_of_kind(unknown[0], known)}", None
    wanted = [listed(sorted(required), most=5)] if required else []
    wanted += [f"not {listed(sorted(forbidden), most=5)}"] if forbidden else []
    return _there(obstacle, f"asked: {', '.join(wanted)}; found on"), None


def _nearest_of_kind(name: str, known: Collection[str]) -> str:
    return nearest(name, known) if known else "the hosts report no traits at all"


def named_host_miss(obstacle: Obstacle) -> Miss:
    """Whether the hosts that the request names exist, and what rejects them."""
    names, rows = _named_hosts(obstacle), obstacle.passing
    if not len(rows):
        hint = nearest_host(obstacle.among.instance.table, names[0])
        return f"the request is for {listed(names)}, which is no host here; {hint}", None
    return f"the request is for {listed(names)}, which {_rejectors(obstacle, rows)}", int(rows[0])


def _named_hosts(obstacle: Obstacle) -> list[str]:
    spec = obstacle.spec
    if spec.force_hosts or spec.force_nodes:
        return [*(spec.force_hosts or ()), *(spec.force_nodes or ())]
    destination = spec.requested_destination
    return [destination.host] if destination and destination.host else [""]


def _rejectors(obstacle: Obstacle, rows: Iterable[int]) -> str:
    """What rejects a host: `ram and disk reject`."""
    subjects = list(dict.fromkeys(name for row in rows for name in obstacle.among.of_row(int(row))))
    return f"{listed(subjects)} {'rejects' if len(subjects) == 1 else 'reject'}"


def service_miss(obstacle: Obstacle) -> Miss:
    """How many hosts are disabled or down, whatever rejects them first, and why the nearest one is."""
    rows = obstacle.rejected
    disabled = int(np.count_nonzero(~are_enabled(obstacle.hosts(rows))))
    parts = [f"{counted(disabled, 'host')} disabled"] if disabled else []
    if down := len(rows) - disabled:
        parts.append(f"{counted(down, 'host')} down")
    row = int(obstacle.nearest[0])
    name, reason = obstacle.names(obstacle.nearest[:1]), obstacle.among.reason(row, obstacle.number_for(row))
    return f"{' and '.join(parts)} in all; of {name}: {reason}", row


def aggregate_key_miss(obstacle: Obstacle) -> Miss | None:
    """A metadata key that no aggregate has, or the values that aggregates have under it."""
    rule, table = obstacle.check.rule, obstacle.among.instance.table
    assert isinstance(rule, AggregateInstanceExtraSpecsFilter)  # noqa: S101 - writers go by the name of a built-in
    for key, requirement in rule.requirements(obstacle.spec):
        if key not in table.metadata_keys:
            return f"no aggregate with hosts has the key {key}; {nearest(key, table.metadata_keys)}", None
        values = split_values(table.known_aggregates, key)
        if not any(match(value, requirement) for value in values):
            return f"asked: {key} {requirement}; the aggregates say {listed(sorted(values), most=5)}", None
    return None


def anti_affinity_miss(obstacle: Obstacle) -> Miss | None:
    """How many hosts the members of the group need, and how many pass everything else."""
    instance, group = obstacle.among.instance, obstacle.spec.instance_group
    if group is None:
        return None
    running = int(instance.table.count_instances(group.member_set).sum())
    size = running + instance.wanted - instance.placed
    rule = "one member" if group.max_server_per_host == 1 else f"{group.max_server_per_host} members"
    hosts = "1 host passes" if len(obstacle.only) == 1 else f"{len(obstacle.only):,} hosts pass"
    name = f" {group.name}" if group.name else ""
    return f"anti-affinity group{name} of {size:,}, with {rule} per host, but only {hosts} the rest", None


def affinity_miss(obstacle: Obstacle) -> Miss | None:
    """Where the group is, and what rejects that host."""
    group, rows = obstacle.spec.instance_group, obstacle.passing
    if group is None:
        return None
    where = listed(group.hosts)
    name = f" {group.name}" if group.name else ""
    if not len(rows):
        return f"the group{name} is on {where}, which is no host here", None
    return f"the group{name} is on {where}, which {_rejectors(obstacle, rows)}", int(rows[0])


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
