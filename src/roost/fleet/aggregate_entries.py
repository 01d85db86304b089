# SPDX-License-Identifier: Apache-2.0
"""Parser of the section `aggregates` of a fleet file, and the membership of hosts."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from roost.errors import FieldError, nearest
from roost.fleet.name_ranges import expand_name
from roost.fleet.sections import AGGREGATES
from roost.model import Aggregate

MAX_MEMBERS = 10_000_000
"""Limit of the members of all aggregates in total: a few short patterns could expand to billions."""
_MOST_SUGGESTIONS_COMPARED = 2000


def parse_aggregates(section: Any, fleet_size: int) -> list[Aggregate]:
    """All aggregates, with expanded host names; aggregates without an id are numbered from 1.

    `fleet_size`: number of hosts in the fleet; a pattern that expands to more is a FieldError.
    """
    found: dict[str, Aggregate] = {}
    members = 0
    for at, aggregate in enumerate(AGGREGATES.strict(section, "aggregates")):
        where = f"aggregates[{at}]"
        if aggregate.name in found:
            raise FieldError(f"{where}.name", f"aggregate {aggregate.name} is there twice", "give each its own name")
        hosts: list[str] = []
        for pattern in aggregate.hosts:
            hosts += expand_name(pattern, f"{where}.hosts", fleet_size)
            if members + len(hosts) > MAX_MEMBERS:
                raise FieldError(f"{where}.hosts", f"aggregates name more than {MAX_MEMBERS} hosts in all")
        members += len(hosts)
        number = at + 1 if aggregate.id is None else aggregate.id
        found[aggregate.name] = expanded = copy.copy(aggregate)
        vars(expanded).update(hosts=tuple(hosts), id=number)  # `replace` would validate all names again
    return list(found.values())


Membership = tuple[str, tuple[Aggregate, ...]]
"""A host name (the string object that the aggregates hold, to save memory), and the aggregates that name it."""


def by_host(aggregates: Sequence[Aggregate]) -> dict[str, Membership]:
    """Host name -> its membership. Hosts in the same aggregates share one tuple."""
    found: dict[str, Membership] = {}
    shared: dict[tuple[int, ...], tuple[Aggregate, ...]] = {}
    for aggregate in aggregates:
        for host in dict.fromkeys(aggregate.hosts):
            name, others = found.get(host, (host, ()))
            joined = (*others, aggregate)
            found[host] = name, shared.setdefault(tuple(map(id, joined)), joined)
    return found


def check_hosts_exist(aggregates: Sequence[Aggregate], hosts: Collection[str]) -> None:
    """Raise FieldError for the first host that an aggregate names and the fleet does not have."""
    for at, aggregate in enumerate(aggregates):
        for host in aggregate.hosts:
            if host not in hosts:
                candidates = islice(
                    (name for name in hosts if abs(len(name) - len(host)) < 3), _MOST_SUGGESTIONS_COMPARED
                )
                hint = nearest(host, candidates)
                remedy = hint if "did you mean" in hint else "list it under hosts, or take it out here"
                raise FieldError(f"aggregates[{at}].hosts", f"there is no host {host}", remedy)
