# SPDX-License-Identifier: Apache-2.0
"""The `aggregates` of a fleet file, and which hosts are in them."""

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
"""Hosts in all aggregates together: a few short patterns could stand for billions."""
_COMPARED = 2000


def parse_aggregates(section: Any, hosts_there_are: int) -> list[Aggregate]:
    """All aggregates, with their hosts by name; those without an id are numbered from 1."""
    found: dict[str, Aggregate] = {}
    members = 0
    for at, aggregate in enumerate(AGGREGATES.strict(section, "aggregates")):
        where = f"aggregates[{at}]"
        if aggregate.name in found:
            raise FieldError(f"{where}.name", f"aggregate {aggregate.name} is there twice", "give each its own name")
        hosts: list[str] = []
        for pattern in aggregate.hosts:
            hosts += expand_name(pattern, f"{where}.hosts", hosts_there_are)
            if members + len(hosts) > MAX_MEMBERS:
                raise FieldError(f"{where}.hosts", f"aggregates name more than {MAX_MEMBERS} hosts in all")
        members += len(hosts)
        number = at + 1 if aggregate.id is None else aggregate.id
        found[aggregate.name] = expanded = copy.copy(aggregate)
        vars(expanded).update(hosts=tuple(hosts), id=number)  # valid names: `replace` would check them all again
    return list(found.values())


Membership = tuple[str, tuple[Aggregate, ...]]
"""A host's name, the very object that the aggregates hold, and the aggregates that name it."""


def by_host(aggregates: Sequence[Aggregate]) -> dict[str, Membership]:
    """Host name -> its membership. Sets of aggregates that many hosts share are kept once."""
    found: dict[str, Membership] = {}
    shared: dict[tuple[int, ...], tuple[Aggregate, ...]] = {}
    for aggregate in aggregates:
        for host in dict.fromkeys(aggregate.hosts):
            name, others = found.get(host, (host, ()))
            together = (*others, aggregate)
            found[host] = name, shared.setdefault(tuple(map(id, together)), together)
    return found


def check_hosts_exist(aggregates: Sequence[Aggregate], hosts: Collection[str]) -> None:
    """FieldError for the first host that an aggregate names and the fleet does not have: a typo."""
    for at, aggregate in enumerate(aggregates):
        for host in aggregate.hosts:
            if host not in hosts:
                alike = islice((name for name in hosts if abs(len(name) - len(host)) < 3), _COMPARED)
                hint = nearest(host, alike)
                remedy = hint if "did you mean" in hint else "list it under hosts, or take it out here"
                raise FieldError(f"aggregates[{at}].hosts", f"there is no host {host}", remedy)
