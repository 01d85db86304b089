# SPDX-License-Identifier: Apache-2.0
"""Nodes in the tables, with their traits, inventories and allocations: read under their locks, and made equal to what
they should be. Start reading at `lock_nodes` and `save_nodes`.

What consumers hold is the ledger's to change (`roost.claims`); here it is written under the node's lock alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, or_, select

from roost.errors import BadInput, DatabaseConflict
from roost.store.bulk import Row, rows_where
from roost.store.change_log import NODES, USAGE, Change, usage_key
from roost.store.reconcile import Key, Reconciler, ReconcileResult
from roost.store.schema import allocations, compute_nodes, consumers, inventories, node_traits

_NODES = Reconciler(compute_nodes, ("host", "hypervisor_hostname"))
_TRAITS = Reconciler(node_traits, ("node_id", "trait"))
_INVENTORIES = Reconciler(inventories, ("node_id", "resource_class"), quiet=("used",))
_ALLOCATIONS = Reconciler(allocations, ("consumer_uuid", "node_id", "resource_class"))
_MOST_COMPARED = 2000

NodeNames = tuple[str, str]
"""Host and node."""
Holdings = dict[str, dict[str, int]]
"""Consumer uuid -> resource class -> amount, on one node."""


class NodeKey(NamedTuple):
    """What identifies a node in the tables: the number of its row, and its uuid."""

    id: int
    uuid: str


@dataclass(frozen=True)
class WantedNode:
    """A node as the tables should have it."""

    names: NodeNames
    row: Row
    """Of `compute_nodes`, with the uuid, without names, number and times; JSON as its text."""
    traits: frozenset[str] = frozenset()
    inventories: Mapping[str, Row] = field(default_factory=dict)
    """Resource class -> its row, without the node and what is used."""
    held: Holdings = field(default_factory=dict)

    def sum_held(self) -> dict[str, int]:
        """Resource class -> what all consumers hold of it: the `used` of its inventory."""
        sums = dict.fromkeys(self.inventories, 0)
        for amounts in self.held.values():
            for name, amount in amounts.items():
                if name in sums:
                    sums[name] += amount
        return sums


@dataclass(frozen=True)
class LockedNodes:
    """Some nodes as the tables have them, locked until the transaction ends; all rows by their keys."""

    nodes: dict[Key, Row]
    """By host and node; with the row's `id`."""
    traits: dict[Key, Row]
    inventories: dict[Key, Row]
    allocations: dict[Key, Row]

    @cached_property
    def held(self) -> dict[int, Holdings]:
        """Node id -> what consumers hold there; a node on which nothing is held is left out."""
        found: dict[int, Holdings] = defaultdict(dict)
        for (consumer, node_id, name), row in self.allocations.items():
            found[node_id].setdefault(consumer, {})[name] = row["used"]
        return dict(found)


class SavedNodes(NamedTuple):
    """What `save_nodes` did."""

    ids: dict[NodeNames, int]
    """Of every node that was wanted."""
    new: frozenset[NodeNames]
    changes: list[Change]


# --- found and locked --------------------------------------------------------------------------------


def read_node_keys(connection: Connection) -> dict[NodeNames, NodeKey]:
    """Host and node -> number and uuid, of every node there is."""
    table = compute_nodes.c
    rows = connection.execute(select(table.id, table.uuid, table.host, table.hypervisor_hostname))
    return {(host, node): NodeKey(number, uuid) for number, uuid, host, node in rows}


def find_node(connection: Connection, names: NodeNames, uuid: str = "") -> NodeKey | None:
    """The node of these names; None where it is new. BadInput where it has another uuid, or another node has this."""
    table = compute_nodes.c
    has_names = (table.host == names[0]) & (table.hypervisor_hostname == names[1])
    columns = table.id, table.uuid, table.host, table.hypervisor_hostname
    found = None
    for row in connection.execute(select(*columns).where(or_(has_names, table.uuid == uuid))):
        owner = row.host, row.hypervisor_hostname
        is_this = owner == names
        check_uuid(names, uuid or row.uuid, row.uuid if is_this else None, owner if row.uuid == uuid else names)
        found = NodeKey(row.id, row.uuid) if is_this else found
    return found


def check_uuid(names: NodeNames, uuid: str, before: str | None, owner: NodeNames) -> None:
    """BadInput unless the node keeps the uuid it had before, and has it alone: nova refuses anything else, too."""
    if owner != names:
        problem = f"{describe_node(names)}: uuid {uuid} belongs to {describe_node(owner)}"
        raise BadInput(problem, "give each node its own, or delete the other node first")
    if before is not None and before != uuid:
        raise BadInput(f"{describe_node(names)}: its uuid is {before}, not {uuid}", "delete the old node first")


def find_node_ids(connection: Connection, hosts: Collection[str]) -> set[int]:
    """The numbers of all nodes of these hosts."""
    wanted = select(compute_nodes.c.id)
    return {row.id for row in rows_where(connection, wanted, compute_nodes.c.host, hosts)}


def sample_hosts(connection: Connection) -> set[str]:
    """The hosts of up to 2,000 nodes, among which a hint may find the nearest name."""
    return set(connection.scalars(select(compute_nodes.c.host).limit(_MOST_COMPARED)))


def has_nodes(connection: Connection, host: str) -> bool:
    """Whether a host has a node."""
    return connection.scalar(select(compute_nodes.c.id).where(compute_nodes.c.host == host).limit(1)) is not None


def lock_nodes(connection: Connection, ids: Collection[int]) -> LockedNodes:
    """The nodes of these numbers, locked in the order of their numbers; DatabaseConflict where one is gone."""
    nodes = _NODES.read(connection, "id", ids, is_locked=True)
    if len(nodes) < len(ids):
        raise DatabaseConflict("a node was deleted meanwhile", "try again")
    return LockedNodes(
        nodes, *(each.read(connection, "node_id", ids) for each in (_TRAITS, _INVENTORIES, _ALLOCATIONS))
    )


def describe_node(names: NodeNames) -> str:
    """Host and node as errors name them."""
    return f"host {names[0]}, node {names[1]}"


# --- written -----------------------------------------------------------------------------------------


def save_nodes(
    connection: Connection, stored: LockedNodes, wanted: Sequence[WantedNode], now: datetime
) -> SavedNodes:
    """Make the stored nodes equal to the wanted ones; one that is not among them is new. Consumers must be there.

    What changed: a node, with all that is on it, where it is new or has another report; else each consumer that came
    to it, left it, or holds something else there.
    """
    highest = _highest_id(connection) if len(wanted) > len(stored.nodes) else None
    rows = {each.names: each.row for each in wanted}
    nodes = _NODES.apply(connection, stored.nodes, rows, _place_of_node, now)
    ids = {names: row["id"] for names, row in stored.nodes.items()} | _ids_above(connection, highest)
    by_id = {ids[each.names]: each for each in wanted}

    def place(row: Row) -> str:
        where = describe_node(by_id[row["node_id"]].names)
        return f"{where}: {row['resource_class']}" if "resource_class" in row else where

    traits = _TRAITS.apply(connection, stored.traits, _trait_rows(by_id), place)
    amounts = _INVENTORIES.apply(connection, stored.inventories, _inventory_rows(by_id), place)
    held = _ALLOCATIONS.apply(connection, stored.allocations, _allocation_rows(by_id), place)
    new = {ids[names] for names in nodes.new}
    reported = new.union(
        (ids[names] for names in nodes.changed), (key[0] for key in traits.touched + amounts.touched)
    )
    return SavedNodes(ids, frozenset(nodes.new), list(_changes(by_id, reported, held, new)))


def _place_of_node(row: Row) -> str:
    return describe_node((row["host"], row["hypervisor_hostname"]))


def _highest_id(connection: Connection) -> int:
    return connection.scalar(select(func.max(compute_nodes.c.id))) or 0


def _ids_above(connection: Connection, highest: int | None) -> dict[NodeNames, int]:
    """The numbers of nodes that came after `highest` was the highest; None: none came."""
    if highest is None:
        return {}
    columns = compute_nodes.c.id, compute_nodes.c.host, compute_nodes.c.hypervisor_hostname
    rows = connection.execute(select(*columns).where(compute_nodes.c.id > highest))
    return {(host, node): number for number, host, node in rows}


_NodesById = Mapping[int, WantedNode]


def _trait_rows(nodes: _NodesById) -> dict[Key, Row]:
    row: Row = {}
    return {(number, trait): row for number, node in nodes.items() for trait in _sorted(node.traits)}


@lru_cache(maxsize=1024)
def _sorted(traits: frozenset[str]) -> tuple[str, ...]:
    """The traits in an order that is the same in every run."""
    return tuple(sorted(traits))


def _inventory_rows(nodes: _NodesById) -> dict[Key, Row]:
    found: dict[Key, Row] = {}
    for number, node in nodes.items():
        sums = node.sum_held()
        for name, row in node.inventories.items():
            found[number, name] = row | {"used": sums[name]}
    return found


def _allocation_rows(nodes: _NodesById) -> dict[Key, Row]:
    return {
        (consumer, number, name): {"used": amount}
        for number, node in nodes.items()
        for consumer, amounts in node.held.items()
        for name, amount in amounts.items()
    }


def _changes(nodes: _NodesById, reported: set[int], held: ReconcileResult, new: set[int]) -> Iterator[Change]:
    moved: dict[int, set[str]] = defaultdict(set)
    for consumer, node_id, _ in held.touched:
        moved[node_id].add(consumer)
    for number in nodes:
        if number in reported:
            yield Change(NODES, str(number))
        for consumer in sorted(moved[number]) if number in moved and number not in new else ():
            yield Change(USAGE, usage_key(number, consumer))


def drop_node(connection: Connection, node_id: int, consumer_uuids: Collection[str]) -> Change:
    """Delete a node and what these consumers, of which there is nothing else, hold on it: what changed."""
    connection.execute(delete(allocations).where(allocations.c.node_id == node_id))
    connection.execute(delete(consumers).where(consumers.c.uuid.in_(consumer_uuids)))
    connection.execute(delete(compute_nodes).where(compute_nodes.c.id == node_id))
    return Change(NODES, str(node_id))
