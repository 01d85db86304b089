# SPDX-License-Identifier: Apache-2.0
"""What changed in the store since the last look, read but not yet in the table: see `host_manager.py`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from roost.hosts import HostTable
from roost.hosts.row_updates import Usage
from roost.inventory import (
    HostAggregates,
    ReadWarnings,
    StoredNode,
    aggregates_of_hosts,
    find_node_ids,
    find_server_places,
    read_aggregates,
    read_nodes,
)
from roost.model import Aggregate
from roost.scheduler.replica.heartbeats import Heartbeat, read_heartbeats
from roost.scheduler.replica.usage_reader import read_usage
from roost.store.change_log import AGGREGATES, NODES, SERVERS, SERVICES, USAGE, Change, split_usage_key

Pair = tuple[str, str]
"""Host and node."""


def pair_of(node: StoredNode) -> Pair:
    """The names of a node."""
    return node.record.host, node.record.nodename


class NodeIndex:
    """Which row of the store each row of the table is, and the aggregates as they were read last."""

    def __init__(self) -> None:
        self.pairs: dict[int, Pair] = {}
        """Node id -> host and node; the table's rows are found by these."""
        self.ids: dict[Pair, int] = {}
        self.aggregates: dict[int, Aggregate] = {}
        self.of_host: HostAggregates = {}

    def put(self, nodes: Collection[StoredNode]) -> None:
        """These nodes are in the table now."""
        for node in nodes:
            pair = pair_of(node)
            self.pairs.pop(self.ids.get(pair, node.id), None)  # it may have had another number
            self.pairs[node.id] = pair
            self.ids[pair] = node.id

    def find_gone(self, asked: Collection[int], there: Collection[StoredNode]) -> set[Pair]:
        """Names that nobody bears any more, after these nodes were asked for and those were there."""
        before = {self.pairs[number] for number in asked if number in self.pairs}
        return before - {pair_of(node) for node in there}

    def drop(self, pairs: Collection[Pair]) -> None:
        """These are not."""
        for pair in pairs:
            node_id = self.ids.pop(pair, None)
            if node_id is not None and self.pairs.get(node_id) == pair:
                del self.pairs[node_id]

    def put_aggregates(self, found: Mapping[int, Aggregate | None]) -> set[str]:
        """These are as they are now, or gone: the hosts to which that makes a difference.

        One that is equal stays the same object, so that nobody has to look at its hosts again.
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
    """How to read hosts: the moment, and what a host manager makes of it."""

    now: datetime
    seconds_until_down: float
    bare_metal: bool


@dataclass
class ChangedNodes:
    """What was read."""

    nodes: list[StoredNode] = field(default_factory=list)
    """Nodes to be taken over whole."""
    asked: set[int] = field(default_factory=set)
    """Those asked for: what is not among `nodes` is not there, or has no service."""
    usage: dict[int, Usage] = field(default_factory=dict)
    aggregates: dict[int, Aggregate | None] = field(default_factory=dict)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    notes: ReadWarnings = field(default_factory=ReadWarnings)


class PendingReads:
    """The changes that are still to be read, by what they are about."""

    def __init__(self, changes: Collection[Change]) -> None:
        keys: dict[str, set[str]] = {name: set() for name in (NODES, USAGE, SERVICES, AGGREGATES, SERVERS)}
        for each in changes:
            keys.get(each.subject, set()).add(each.key)
        self.nodes = set(map(int, keys[NODES]))
        self.usage = set(map(split_usage_key, keys[USAGE]))
        self.hosts = keys[SERVICES]
        self.aggregates = set(map(int, keys[AGGREGATES]))
        self.servers = keys[SERVERS]

    def resolve(self, connection: Connection, known: NodeIndex, table: HostTable) -> None:
        """Services and servers stand for nodes: which ones, the table and the store know."""
        if self.hosts:
            self.nodes |= find_node_ids(connection, self.hosts)
        if self.servers:
            places = find_server_places(connection, self.servers)
            self.usage |= {(known.ids[pair], uuid) for uuid, pair in places.items() if pair in known.ids}
            for uuid in self.servers:
                self.usage |= {(known.ids[table.names[row]], uuid) for row in table.rows_of_instance(uuid)}
        self.usage = {key for key in self.usage if key[0] in known.pairs and key[0] not in self.nodes}

    def read(self, connection: Connection, known: NodeIndex, how: ReadOptions) -> ChangedNodes:
        """All of it. What others change meanwhile is in later changes."""
        news = ChangedNodes(asked=set(self.nodes))
        if self.aggregates:
            there = {int(each.id): each for each in read_aggregates(connection, self.aggregates)}
            news.aggregates = {number: there.get(number) for number in self.aggregates}
        if self.usage:
            found = read_usage(connection, self.usage, bare_metal=how.bare_metal)
            news.usage, news.asked = found.usage, news.asked | found.unclear
        if news.asked:
            news.nodes = _read(connection, news.asked, known.of_host, how, news.notes)
        hosts = self.hosts | {node.record.host for node in news.nodes}
        if hosts:
            news.heartbeats = read_heartbeats(connection, hosts)
        return news


def read_all(connection: Connection, how: ReadOptions) -> ChangedNodes:
    """Everything there is."""
    found = read_aggregates(connection)
    news = ChangedNodes(aggregates={int(each.id): each for each in found})
    news.nodes = _read(connection, None, aggregates_of_hosts(found), how, news.notes)
    news.heartbeats = read_heartbeats(connection)
    return news


def _read(
    connection: Connection, ids: Collection[int] | None, known: HostAggregates, how: ReadOptions, notes: ReadWarnings
) -> list[StoredNode]:
    nodes = read_nodes(
        connection,
        ids,
        now=how.now,
        service_down_time=how.seconds_until_down,
        known=known,
        notes=notes,
        bare_metal=how.bare_metal,
    )
    return list(nodes)
