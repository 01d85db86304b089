# SPDX-License-Identifier: Apache-2.0
"""Reads what changed in the database since the last refresh; `host_manager.py` patches the table with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection

from roost.hosts import HostTable
from roost.hosts.record import Pair
from roost.hosts.updates import Usage
from roost.model import Aggregate
from roost.records.aggregates import HostAggregates, aggregates_of_hosts, read_aggregates
from roost.records.node_reader import ReadWarnings, StoredNode, read_nodes
from roost.records.node_writer import find_node_ids
from roost.records.outages import HeartbeatRule
from roost.records.servers import find_server_places
from roost.scheduler.replica.heartbeats import Heartbeat, read_heartbeats
from roost.scheduler.replica.usage_reader import read_usage
from roost.store.change_log import AGGREGATES, GUESTS, NODES, SERVERS, SERVICES, USAGE, Change, split_usage_key


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
