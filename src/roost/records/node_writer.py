# SPDX-License-Identifier: Apache-2.0
"""Locks nodes with their traits, inventories and allocations, and makes them equal to wanted ones.

Start reading at `lock_nodes` and `save_nodes`. Allocations belong to the ledger (`roost.ledger`); they are written
here only under the lock of their node.

In NUMA cells and PCI devices what a node reports and what the ledger has booked meet (`space_columns`). The rule, for
a report of an agent and for a host of a fleet file:

1. The base is what was reported, without the bookings of the instances that the report lists: its figures count them.
2. What is left is the base, less all bookings of the ledger: those of listed instances and of those that the report
   does not know yet.

So a claim that was made while a report was under way is not lost, one that the report counts is not counted twice,
and where a node reports fewer devices than are booked, none is free until enough of them are released. On the source
of a move the migration's booking counts as that of the listed instance. A booking that was claimed after the report
was made is not in its figures, even if the report lists the instance: it had an earlier booking there. While an
instance is resized on its host, both have a booking there, and a report does not say whether its figures count the
old size, the new one, or both: then only what the two have in common is taken off, so that nothing is given out that
is in use; and the pinned CPUs of both, which no other guest has. A fleet file that lists the migration too says that
its figures count both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache, reduce
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, or_, select

from roost.errors import MOST_COMPARED, BadInput, DatabaseConflict
from roost.hosts.guests import GuestSpace, SpaceTexts, common_part, guest_from_text, space_texts
from roost.model.uuids import canonical_uuid
from roost.store.change_log import NODES, USAGE, Change, usage_key
from roost.store.reconcile import Reconciler, ReconcileResult, RowKey
from roost.store.schema.fleet import (
    allocations,
    compute_nodes,
    consumers,
    guest_allocations,
    inventories,
    node_traits,
)
from roost.store.statements import Row, read_rows

_NODE_ROWS = Reconciler(
    compute_nodes, ("host", "hypervisor_hostname"), quiet=("base_numa_topology", "base_pci_stats")
)
_TRAIT_ROWS = Reconciler(node_traits, ("node_id", "trait"))
_INVENTORY_ROWS = Reconciler(inventories, ("node_id", "resource_class"), quiet=("used",))
_ALLOCATION_ROWS = Reconciler(allocations, ("consumer_uuid", "node_id", "resource_class"))
_GUEST_ROWS = Reconciler(guest_allocations, ("consumer_uuid", "node_id"))

NodeNames = tuple[str, str]
"""Host and node."""
NodeAllocations = dict[str, dict[str, int]]
"""Allocations on one node: consumer uuid -> resource class -> amount."""


class NodeKey(NamedTuple):
    """Row id and uuid of a node in the database."""

    id: int
    uuid: str


@dataclass(frozen=True)
class WantedNode:
    """A node as it should be in the database."""

    names: NodeNames
    row: Row
    """Row of `compute_nodes`, with the uuid, without names, id and timestamps; JSON as its text."""
    traits: frozenset[str] = frozenset()
    inventories: Mapping[str, Row] = field(default_factory=dict)
    """Resource class -> row of `inventories`, without `node_id` and `used`."""
    allocations: NodeAllocations = field(default_factory=dict)

    def sum_allocations(self) -> dict[str, int]:
        """Resource class -> sum of the allocations: the `used` of its inventory."""
        sums = dict.fromkeys(self.inventories, 0)
        for amounts in self.allocations.values():
            for name, amount in amounts.items():
                if name in sums:
                    sums[name] += amount
        return sums


@dataclass(frozen=True)
class LockedNodes:
    """Nodes as they are in the database, locked until the transaction ends; all rows by their keys."""

    nodes: dict[RowKey, Row]
    """By host and node; the rows contain `id`."""
    traits: dict[RowKey, Row]
    inventories: dict[RowKey, Row]
    allocations: dict[RowKey, Row]
    guests: dict[RowKey, Row]

    @cached_property
    def allocations_by_node(self) -> dict[int, NodeAllocations]:
        """Node id -> allocations there; a node without allocations is left out."""
        found: dict[int, NodeAllocations] = defaultdict(dict)
        for (consumer, node_id, name), row in self.allocations.items():
            found[node_id].setdefault(consumer, {})[name] = row["used"]
        return dict(found)

    def guests_of(self, node_id: int, uuids: Collection[str]) -> dict[str, str]:
        """Consumer uuid -> text of its guest on the node, of these consumers."""
        found = {uuid: self.guests.get((uuid, node_id)) for uuid in uuids} if self.guests else {}
        return {uuid: row["guest"] for uuid, row in found.items() if row}


class SavedNodes(NamedTuple):
    """Result of `save_nodes`."""

    ids: dict[NodeNames, int]
    """Host and node -> row id, of every wanted node."""
    new: frozenset[NodeNames]
    """Nodes that were inserted."""
    changes: list[Change]
    """Entries of the change log, not recorded yet."""


# --- find and lock -----------------------------------------------------------------------------------


def read_node_keys(connection: Connection) -> dict[NodeNames, NodeKey]:
    """Host and node -> row id and uuid, of every node."""
    table = compute_nodes.c
    rows = connection.execute(select(table.id, table.uuid, table.host, table.hypervisor_hostname))
    return {(host, node): NodeKey(node_id, uuid) for node_id, uuid, host, node in rows}


def find_node(connection: Connection, names: NodeNames, uuid: str = "") -> NodeKey | None:
    """The node with these names; None if it is new. BadInput if its uuid differs, or another node has the uuid."""
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
    """BadInput if the node has another uuid, not just another spelling, or another node has it, as in nova.

    `before`: the stored uuid, None for a new node. `owner`: the node that has the uuid.
    """
    if owner != names:
        problem = f"{describe_node(names)}: uuid {uuid} belongs to {describe_node(owner)}"
        raise BadInput(problem, "give each node its own, or delete the other node first")
    if before is not None and canonical_uuid(before) != canonical_uuid(uuid):
        raise BadInput(f"{describe_node(names)}: its uuid is {before}, not {uuid}", "delete the old node first")


def find_node_ids(connection: Connection, hosts: Collection[str]) -> set[int]:
    """Row ids of all nodes of these hosts."""
    wanted = select(compute_nodes.c.id)
    return {row.id for row in read_rows(connection, wanted, compute_nodes.c.host, hosts)}


def find_host(connection: Connection, host: str | None = None, node: str | None = None) -> str | None:
    """The first host that has this name and a node of that name; None where there is none. None: any."""
    wanted = {compute_nodes.c.host: host, compute_nodes.c.hypervisor_hostname: node}
    found = select(compute_nodes.c.host).where(*(key == value for key, value in wanted.items() if value is not None))
    return connection.scalar(found.order_by(compute_nodes.c.id).limit(1))


def sample_host_names(connection: Connection) -> set[str]:
    """Hosts of up to 2,000 nodes, among which the hint of an error looks for the nearest name."""
    return set(connection.scalars(select(compute_nodes.c.host).limit(MOST_COMPARED)))


def lock_nodes(connection: Connection, ids: Collection[int]) -> LockedNodes:
    """Lock the nodes with these row ids, in the order of ids; DatabaseConflict if one was deleted."""
    nodes = _NODE_ROWS.read(connection, "id", ids, is_locked=True)
    if len(nodes) < len(ids):
        raise DatabaseConflict("a node was deleted meanwhile", "try again")
    parts = (_TRAIT_ROWS, _INVENTORY_ROWS, _ALLOCATION_ROWS, _GUEST_ROWS)
    return LockedNodes(nodes, *(each.read(connection, "node_id", ids) for each in parts))


def describe_node(names: NodeNames) -> str:
    """Host and node as text for errors."""
    return f"host {names[0]}, node {names[1]}"


# --- write -------------------------------------------------------------------------------------------


def save_nodes(
    connection: Connection, stored: LockedNodes, wanted: Sequence[WantedNode], now: datetime
) -> SavedNodes:
    """Make the stored nodes equal to the wanted ones; a wanted node that is not stored is inserted.

    Consumers of the allocations must exist. Changes: one of the node if it is new or its report changed; one for each
    consumer whose allocation on it changed, unless the node is new.
    """
    highest = _highest_id(connection) if len(wanted) > len(stored.nodes) else None
    rows = {each.names: each.row for each in wanted}
    nodes = _NODE_ROWS.apply(connection, stored.nodes, rows, _describe_node_row, now)
    ids = {names: row["id"] for names, row in stored.nodes.items()} | _ids_above(connection, highest)
    by_id = {ids[each.names]: each for each in wanted}

    def describe(row: Row) -> str:
        node = describe_node(by_id[row["node_id"]].names)
        return f"{node}: {row['resource_class']}" if "resource_class" in row else node

    traits = _TRAIT_ROWS.apply(connection, stored.traits, _wanted_traits(by_id), describe)
    amounts = _INVENTORY_ROWS.apply(connection, stored.inventories, _wanted_inventories(by_id), describe)
    allocated = _ALLOCATION_ROWS.apply(connection, stored.allocations, _wanted_allocations(by_id), describe)
    _GUEST_ROWS.apply(connection, stored.guests, _wanted_guests(by_id, stored), describe)
    new = {ids[names] for names in nodes.new}
    reported = new.union(
        (ids[names] for names in nodes.changed), (key[0] for key in traits.touched + amounts.touched)
    )
    return SavedNodes(ids, frozenset(nodes.new), list(_find_changes(by_id, reported, allocated, new)))


def _describe_node_row(row: Row) -> str:
    return describe_node((row["host"], row["hypervisor_hostname"]))


def _highest_id(connection: Connection) -> int:
    return connection.scalar(select(func.max(compute_nodes.c.id))) or 0


def _ids_above(connection: Connection, highest: int | None) -> dict[NodeNames, int]:
    """Host and node -> row id, of nodes that were inserted since `highest` was the highest id; None: none was."""
    if highest is None:
        return {}
    columns = compute_nodes.c.id, compute_nodes.c.host, compute_nodes.c.hypervisor_hostname
    rows = connection.execute(select(*columns).where(compute_nodes.c.id > highest))
    return {(host, node): node_id for node_id, host, node in rows}


_NodesById = Mapping[int, WantedNode]
"""Row id -> node."""


def _wanted_traits(nodes: _NodesById) -> dict[RowKey, Row]:
    row: Row = {}
    return {(node_id, trait): row for node_id, node in nodes.items() for trait in _sorted(node.traits)}


@lru_cache(maxsize=1024)
def _sorted(traits: frozenset[str]) -> tuple[str, ...]:
    """The traits in an order that is the same in every run; memoised, because nodes share sets of traits."""
    return tuple(sorted(traits))


def _wanted_inventories(nodes: _NodesById) -> dict[RowKey, Row]:
    found: dict[RowKey, Row] = {}
    for node_id, node in nodes.items():
        sums = node.sum_allocations()
        for name, row in node.inventories.items():
            found[node_id, name] = row | {"used": sums[name]}
    return found


def _wanted_allocations(nodes: _NodesById) -> dict[RowKey, Row]:
    return {
        (consumer, node_id, name): {"used": amount}
        for node_id, node in nodes.items()
        for consumer, amounts in node.allocations.items()
        for name, amount in amounts.items()
    }


def _wanted_guests(nodes: _NodesById, stored: LockedNodes) -> dict[RowKey, Row]:
    """The stored guests of consumers that keep their allocations on the node."""
    return {key: row for key, row in stored.guests.items() if key[0] in nodes[key[1]].allocations}


def _find_changes(
    nodes: _NodesById, reported: set[int], allocated: ReconcileResult, new: set[int]
) -> Iterator[Change]:
    """Entries of the change log. `reported`: ids of nodes that are new or changed; `new`: of new nodes."""
    consumers_by_node: dict[int, set[str]] = defaultdict(set)
    for consumer, node_id, _ in allocated.touched:
        consumers_by_node[node_id].add(consumer)
    for node_id in nodes:
        if node_id in reported:
            yield Change(NODES, str(node_id))
        for consumer in sorted(consumers_by_node.get(node_id, ())) if node_id not in new else ():
            yield Change(USAGE, usage_key(node_id, consumer))


def delete_node_rows(connection: Connection, node_id: int, consumer_uuids: Collection[str]) -> Change:
    """Delete a node, its allocations, and these consumers, which have no others: the entry of the change log."""
    connection.execute(delete(allocations).where(allocations.c.node_id == node_id))
    connection.execute(delete(consumers).where(consumers.c.uuid.in_(consumer_uuids)))
    connection.execute(delete(compute_nodes).where(compute_nodes.c.id == node_id))
    return Change(NODES, str(node_id))


def space_columns(
    reported: Row,
    booked: Mapping[str, str],
    listed: Collection[str],
    *,
    migrations: Collection[str] = (),
    too_young: Collection[str] = (),
) -> Row:
    """The columns of a node's row that say what is left, and what was without the ledger's bookings.

    `reported`: the row with `numa_topology` and `pci_stats` as reported. `booked`: consumer uuid -> text of the
    column `guest`, of all consumers on the node. `listed`, `migrations`: uuids of the instances, and of their
    migrations, that the report lists. `too_young`: consumers whose bookings were claimed after the report was made.
    """
    texts = SpaceTexts(reported["numa_topology"], reported["pci_stats"])
    if not booked:
        return _columns(texts, texts)
    guests = {uuid: guest_from_text(text) for uuid, text in booked.items()}
    base: GuestSpace = texts.decode()
    for uuid in guests.keys() & set(migrations):
        base = base.without_guest(guests[uuid])
    counted = {holder: guest for holder, guest in guests.items() if holder not in {*migrations, *too_young}}
    for uuid in listed:
        own = [guest for holder, guest in counted.items() if uuid in (holder, guest.instance_uuid)]
        if own:
            base = base.without_guest(reduce(common_part, own))
    return _columns(space_texts(base.with_guests(guests.values())), space_texts(base))


def unchanged_space(
    reported: Row, stored: Row, booked: Mapping[str, str], listed: Collection[str], migrations: Collection[str]
) -> Row | None:
    """The stored columns, if the report counts every booking and leaves just what is stored; else None.

    `stored`: the node's row. What is left does not say how much a node has of which more is booked than it has: an
    export that is imported again must not change that.
    """
    known = {*listed, *migrations}
    if any(uuid not in known and guest_from_text(text).instance_uuid not in known for uuid, text in booked.items()):
        return None
    left, before = (SpaceTexts(row["numa_topology"], row["pci_stats"]) for row in (reported, stored))
    if left != before and left.decode() != before.decode():
        return None
    return _columns(before, SpaceTexts(stored["base_numa_topology"], stored["base_pci_stats"]))


def _columns(left: SpaceTexts, base: SpaceTexts) -> Row:
    return {
        "numa_topology": left.numa,
        "pci_stats": left.pools,
        "base_numa_topology": base.numa,
        "base_pci_stats": base.pools,
    }
