# SPDX-License-Identifier: Apache-2.0
"""Which queries find every provider with room.

`GET /allocation_candidates` for one unit of a resource class lists all providers that have a unit left, with the use
of all their classes. VCPU alone would miss hosts with dedicated CPUs only (PCPU) and bare metal (CUSTOM_...), and one
unit is too little where an inventory is allocated in larger steps. So there is a query per class and unit; usually
that is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from roost.hosts.record import Inventory
from roost.model.resources import VCPU

PCPU = "PCPU"
_CUSTOM = "CUSTOM_"
MOST_QUERIES = 16
"""Providers that need yet another query are read one by one."""


class RoomQuery(NamedTuple):
    """A resource class, and the least amount of it that can be allocated."""

    resource_class: str
    amount: int

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The parameters of the GET."""
        return [("resources", f"{self.resource_class}:{self.amount}")]


class QueryPlan(NamedTuple):
    """The queries to make, and the uuids of providers that none of them can list."""

    queries: tuple[RoomQuery, ...]
    unlisted: frozenset[str]


def plan_queries(inventories: Mapping[str, Mapping[str, Inventory]]) -> QueryPlan:
    """The queries for these providers: uuid -> resource class -> inventory."""
    wanted = {uuid: _queries_of(own) for uuid, own in inventories.items()}
    counts = Counter(query for queries in wanted.values() for query in queries)
    chosen = {query for query, _ in sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:MOST_QUERIES]}
    # A provider is known to be full only if every query that could list it was made.
    unlisted = {uuid for uuid, queries in wanted.items() if not chosen.issuperset(queries)}
    return QueryPlan(tuple(sorted(chosen)), frozenset(unlisted))


def _queries_of(inventories: Mapping[str, Inventory]) -> list[RoomQuery]:
    """Each CPU class of a host; the first custom class of what has no CPUs; none for what is no host."""
    classes = [name for name in (VCPU, PCPU) if name in inventories]
    classes = classes or _first(sorted(name for name in inventories if name.startswith(_CUSTOM)))
    return [RoomQuery(name, _least_amount(inventories[name])) for name in classes]


def _first(names: Iterable[str]) -> list[str]:
    return list(names)[:1]


def _least_amount(inventory: Inventory) -> int:
    step = max(1, inventory.step_size)
    return max(1, -(-inventory.min_unit // step)) * step
