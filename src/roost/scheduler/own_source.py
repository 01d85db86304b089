# SPDX-License-Identifier: Apache-2.0
"""Reads from Roost's own database what changed since the last refresh; `replica.py` patches the table with it.

Nodes whose usage alone changed, which is what a claim changes, are read without the rest of the node. Heartbeats are
read apart: the change log does not have them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from roost.hosts import HostTable, Instance
from roost.hosts.guests import GuestSpace, SpaceTexts
from roost.hosts.record import Pair, is_bare_metal
from roost.hosts.updates import Usage
from roost.model import Aggregate
from roost.records.aggregates import HostAggregates, aggregates_of_hosts, read_aggregates
from roost.records.node_reader import INSTANCE_CONSUMERS, ReadWarnings, StoredNode, make_instance, read_nodes
from roost.records.node_rows import JsonCache, free_disk_gb, undecoded
from roost.records.node_writer import find_node_ids
from roost.records.outages import HeartbeatRule, microseconds
from roost.records.servers import PLACED_SERVERS, find_server_places
from roost.records.services import read_last_heartbeats
from roost.store.change_log import AGGREGATES, GUESTS, NODES, SERVERS, SERVICES, USAGE, Change, split_usage_key
from roost.store.schema.fleet import allocations, compute_nodes, consumers, inventories
from roost.store.schema.servers import servers
from roost.store.statements import KeyedSelect, read_in_one_trip

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Heartbeat(NamedTuple):
    """The last heartbeat of an agent."""

    host: str
    seen_us: int | None
    """Microseconds since 1970 of the heartbeat; before the first one, of the creation of the service. None: never."""
    is_static: bool
    """There is no agent, and the host counts as up."""


def moment(seen_us: int) -> datetime:
    """The moment that is so many microseconds after 1970."""
    return _EPOCH + seen_us * _MICROSECOND


def read_heartbeats(
    connection: Connection, hosts: Collection[str] | None = None, since: datetime | None = None
) -> list[Heartbeat]:
    """The last heartbeats of these hosts, or of all; `since`: only heartbeats after that."""
    return [
        Heartbeat(each.host, None if each.seen_at is None else microseconds(each.seen_at), each.is_static)
        for each in read_last_heartbeats(connection, hosts, since)
    ]


UsageKey = tuple[int, str]
"""Node id and consumer uuid."""

_NODES = select(
    compute_nodes.c.id,
    compute_nodes.c.host,
    compute_nodes.c.hypervisor_hostname,
    compute_nodes.c.hypervisor_type,
    compute_nodes.c.free_ram_mb,
    compute_nodes.c.free_disk_gb,
    compute_nodes.c.disk_available_least,
    compute_nodes.c.local_gb_used,
    compute_nodes.c.vcpus_used,
    compute_nodes.c.running_vms,
    compute_nodes.c.current_workload,
)
_SPACES = select(compute_nodes.c.id, undecoded(compute_nodes.c.numa_topology), undecoded(compute_nodes.c.pci_stats))
_USED = select(inventories.c.node_id, inventories.c.resource_class, inventories.c.used)
_HELD = select(allocations.c.node_id, allocations.c.consumer_uuid, allocations.c.resource_class, allocations.c.used)


class UsageFound(NamedTuple):
    """What `read_usage` found."""

    usage: dict[int, Usage]
    """Node -> what is used of it. Nodes that are not there any more are left out."""
    unclear: set[int]
    """Nodes that lack a figure, which then follows from the rest of their record: they have to be read whole."""


def read_usage(
    connection: Connection, keys: Collection[UsageKey], with_space: Collection[int] = (), *, bare_metal: bool = False
) -> UsageFound:
    """The usage of each node that a key names, and for each consumer that it names whether it is on that node.

    `with_space`: ids of nodes of which NUMA cells and free PCI devices are read too.
    """
    ids, uuids = {node_id for node_id, _ in keys} | {*with_space}, {uuid for _, uuid in keys}
    spaces = (KeyedSelect(_SPACES, compute_nodes.c.id, with_space),) if with_space else ()
    node_rows, used_rows, *instance_rows = read_in_one_trip(
        connection,
        (
            KeyedSelect(_NODES, compute_nodes.c.id, ids),
            KeyedSelect(_USED, inventories.c.node_id, ids),
            KeyedSelect(_HELD, allocations.c.consumer_uuid, uuids),
            KeyedSelect(INSTANCE_CONSUMERS, consumers.c.uuid, uuids),
            KeyedSelect(PLACED_SERVERS, servers.c.uuid, uuids),
            *spaces,
        ),
    )
    space_of = _spaces(instance_rows.pop() if with_space else ())
    nodes = {node.id: node for node in node_rows}
    unclear = {node.id for node in nodes.values() if None in (node.free_disk_gb, node.free_ram_mb, *_counters(node))}
    used, there = _used(used_rows), _find_instances(nodes, *instance_rows)
    asked: dict[int, list[str]] = defaultdict(list)
    for node_id, uuid in keys:
        asked[node_id].append(uuid)
    found = {}
    for node_id in nodes.keys() - unclear:
        is_whole = bare_metal and is_bare_metal(nodes[node_id].hypervisor_type)
        here = {} if is_whole else {uuid: there.get((node_id, uuid)) for uuid in asked[node_id]}
        space = None if is_whole else space_of.get(node_id)
        found[node_id] = _usage(nodes[node_id], used.get(node_id, {}), here, is_whole, space)
    return UsageFound(found, unclear)


def _counters(node: Any) -> tuple[int | None, int | None]:
    return node.running_vms, node.current_workload


def _usage(
    node: Any,
    used: Mapping[str, int],
    here: Mapping[str, Instance | None],
    is_whole: bool,
    space: GuestSpace | None,
) -> Usage:
    num_instances, num_io_ops = (0, 0) if is_whole else _counters(node)
    return Usage(
        free_ram_mb=node.free_ram_mb,
        free_disk_mb=1024 * free_disk_gb(node, is_whole),
        disk_mb_used=1024 * node.local_gb_used,
        vcpus_used=node.vcpus_used,
        num_instances=num_instances or 0,
        num_io_ops=num_io_ops or 0,
        allocated=used,
        added=[each for each in here.values() if each is not None],
        removed=[uuid for uuid, each in here.items() if each is None],
        space=space,
    )


def _spaces(rows: Iterable[Any]) -> dict[int, GuestSpace]:
    return {row.id: SpaceTexts(row.numa_topology, row.pci_stats).decode() for row in rows}


def _used(rows: Iterable[Any]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for node_id, name, used in rows:
        found[node_id][name] = used
    return found


def _find_instances(
    nodes: Mapping[int, Any], allocated: Iterable[Any], consumer_rows: Iterable[Any], server_rows: Iterable[Any]
) -> dict[UsageKey, Instance]:
    """Node and uuid -> instance, of all that are on one of the nodes: with what they hold there, if anything."""
    texts, found = JsonCache(), {}
    held: dict[UsageKey, dict[str, int]] = defaultdict(dict)
    for node_id, uuid, name, used in allocated:
        held[node_id, uuid][name] = used
    known = {row.uuid: row for row in consumer_rows}
    node_of = {(node.host, node.hypervisor_hostname): node.id for node in nodes.values()}
    for row in server_rows:
        place = node_of.get((row.host, row.node or row.host))
        if place is not None:
            found[place, row.uuid] = make_instance(row, {}, texts)
    for (node_id, uuid), amounts in held.items():
        if uuid in known:
            found[node_id, uuid] = make_instance(known[uuid], amounts, texts)
    return found


def pair_of(node: StoredNode) -> Pair:
    """The names of a node."""
    return node.record.host, node.record.nodename


class NodeIndex:
    """Database ids of the nodes in the table, and the aggregates as they were read last."""

    def __init__(self) -> None:
        self.pairs: dict[int, Pair] = {}
        """Node id -> host and node, by which a row of the table is found."""
        self.ids: dict[Pair, int] = {}
        self.aggregates: dict[int, Aggregate] = {}
        self.of_host: HostAggregates = {}

    def put(self, nodes: Collection[StoredNode]) -> None:
        """Add nodes that are in the table now."""
        for node in nodes:
            pair = pair_of(node)
            self.pairs.pop(self.ids.get(pair, node.id), None)  # it may have had another id
            self.pairs[node.id] = pair
            self.ids[pair] = node.id

    def find_gone(self, asked: Collection[int], there: Collection[StoredNode]) -> set[Pair]:
        """The pairs that no node has any more: `asked` are the ids that were read, `there` the nodes found."""
        before = {self.pairs[number] for number in asked if number in self.pairs}
        return before - {pair_of(node) for node in there}

    def drop(self, pairs: Collection[Pair]) -> None:
        """Remove nodes that are not in the table any more."""
        for pair in pairs:
            node_id = self.ids.pop(pair, None)
            if node_id is not None and self.pairs.get(node_id) == pair:
                del self.pairs[node_id]

    def put_aggregates(self, found: Mapping[int, Aggregate | None]) -> set[str]:
        """Update aggregates, None for a deleted one; returns the hosts that this concerns.

        An aggregate that is equal stays the same object, so that its hosts need no update.
        """
        hosts: set[str] = set()
        for number, now in found.items():
            before = self.aggregates.get(number)
            if before != now:
                hosts.update(before.hosts if before else (), now.hosts if now else ())
                self.aggregates.pop(number, None)
                if now is not None:
                    self.aggregates[number] = now
        self.aggregates = dict(sorted(self.aggregates.items()))
        if hosts:
            self.of_host = aggregates_of_hosts(list(self.aggregates.values()))
        return hosts


class ReadOptions(NamedTuple):
    """How nodes are read: which agents are alive, and whether bare metal is read as nova's IronicHostManager did."""

    rule: HeartbeatRule
    bare_metal: bool


@dataclass
class ChangedNodes:
    """What was read from the database."""

    nodes: list[StoredNode] = field(default_factory=list)
    """Nodes whose rows are replaced."""
    asked: set[int] = field(default_factory=set)
    """Ids of the nodes that were read: one that is not in `nodes` is deleted, or has no service."""
    usage: dict[int, Usage] = field(default_factory=dict)
    aggregates: dict[int, Aggregate | None] = field(default_factory=dict)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    notes: ReadWarnings = field(default_factory=ReadWarnings)


class PendingReads:
    """Changes that are still to be read, by subject."""

    def __init__(self, changes: Collection[Change]) -> None:
        keys: dict[str, set[str]] = {name: set() for name in (NODES, USAGE, GUESTS, SERVICES, AGGREGATES, SERVERS)}
        for each in changes:
            keys.get(each.subject, set()).add(each.key)
        self.nodes = set(map(int, keys[NODES]))
        self.usage = set(map(split_usage_key, keys[USAGE]))
        self.spaces = set(map(int, keys[GUESTS]))
        self.hosts = keys[SERVICES]
        self.aggregates = set(map(int, keys[AGGREGATES]))
        self.servers = keys[SERVERS]

    def resolve(self, connection: Connection, known: NodeIndex, table: HostTable) -> None:
        """Find the nodes that changes of services and servers concern."""
        if self.hosts:
            self.nodes |= find_node_ids(connection, self.hosts)
        if self.servers:
            places = find_server_places(connection, self.servers)
            self.usage |= {(known.ids[pair], uuid) for uuid, pair in places.items() if pair in known.ids}
            for uuid in self.servers:
                self.usage |= {(known.ids[table.names[row]], uuid) for row in table.rows_of_instance(uuid)}
        self.usage = {key for key in self.usage if key[0] in known.pairs and key[0] not in self.nodes}
        self.spaces = {number for number in self.spaces if number in known.pairs and number not in self.nodes}

    def read(self, connection: Connection, known: NodeIndex, how: ReadOptions) -> ChangedNodes:
        """Read all changes; what is written meanwhile is in later ones."""
        found = ChangedNodes(asked=set(self.nodes))
        if self.aggregates:
            there = {int(each.id): each for each in read_aggregates(connection, self.aggregates)}
            found.aggregates = {number: there.get(number) for number in self.aggregates}
        if self.usage or self.spaces:
            used = read_usage(connection, self.usage, self.spaces, bare_metal=how.bare_metal)
            found.usage, found.asked = used.usage, found.asked | used.unclear
        if found.asked:
            found.nodes = _read(connection, found.asked, known.of_host, how, found.notes)
        hosts = self.hosts | {node.record.host for node in found.nodes}
        if hosts:
            found.heartbeats = read_heartbeats(connection, hosts)
        return found


def read_all(connection: Connection, how: ReadOptions) -> ChangedNodes:
    """Read all nodes, aggregates and heartbeats."""
    aggregates = read_aggregates(connection)
    found = ChangedNodes(aggregates={int(each.id): each for each in aggregates})
    found.nodes = _read(connection, None, aggregates_of_hosts(aggregates), how, found.notes)
    found.heartbeats = read_heartbeats(connection)
    return found


def _read(
    connection: Connection, ids: Collection[int] | None, known: HostAggregates, how: ReadOptions, notes: ReadWarnings
) -> list[StoredNode]:
    nodes = read_nodes(
        connection,
        ids,
        rule=how.rule,
        known=known,
        notes=notes,
        bare_metal=how.bare_metal,
    )
    return list(nodes)
