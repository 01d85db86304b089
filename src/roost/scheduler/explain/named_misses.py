# SPDX-License-Identifier: Apache-2.0
"""The nearest miss of what is asked for by name: a zone, traits, hosts, an aggregate's key, a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from roost.errors import nearest
from roost.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.extra_specs_ops import match
from roost.hosts.capacity import are_enabled
from roost.model.aggregate import split_values
from roost.model.remedy import counted, listed
from roost.scheduler.explain.host_names import nearest_host
from roost.scheduler.explain.obstacles import Obstacle

Miss = tuple[str, int | None]
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
