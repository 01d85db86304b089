# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet on their way into the store: each with what the file says, and what others hold on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from roost.errors import BadInput
from roost.hosts import HostRecord, Instance
from roost.hosts.table import Run
from roost.inventory.catalogue import ImportCounts
from roost.inventory.instance_import import NO_UNLISTED_USE, InstanceImport, UnlistedUse, drop_unlisted, save_unlisted
from roost.inventory.node_states import NodeState, Pairs, read_states, save_states
from roost.inventory.row_encoder import (
    held_by_instances,
    held_by_nobody,
    instances_of,
    inventory_rows,
    node_row,
    unlisted_uuid,
    uuid_of_node,
)
from roost.store.change_log import NODES, SERVERS, USAGE, Change, usage_key
from roost.store.schema import compute_nodes

Pair = tuple[str, str]
"""Host and node."""


class SharedRows:
    """What hosts that are alike have in common, worked out once."""

    def __init__(self, record: HostRecord) -> None:
        self.record = record
        self.row = node_row(record)
        self.inventories = inventory_rows(record)
        self.instances: Mapping[str, Instance] = instances_of(record)
        self.held = held_by_instances(record)
        self.unlisted = held_by_nobody(record)


class HostEntry(NamedTuple):
    """One host of the fleet."""

    host: str
    node: str
    shared: SharedRows

    @property
    def pair(self) -> Pair:
        """Host and node."""
        return self.host, self.node

    @property
    def record(self) -> HostRecord:
        """What the file says; its names may stand for many."""
        return self.shared.record


def entries_of(runs: Iterable[Run]) -> list[HostEntry]:
    """Every host of the fleet."""
    return [
        HostEntry(host, node, shared)
        for shared, pairs in ((SharedRows(r), p) for r, p in runs)
        for host, node in pairs
    ]


class StoredNodeKey(NamedTuple):
    """A node that is in the store."""

    id: int
    uuid: str


class HostImport:
    """Saves hosts, a few at a time, and keeps account of what changed."""

    def __init__(
        self, connection: Connection, entries: Sequence[HostEntry], flavor_ids: Mapping[Any, int], now: datetime
    ) -> None:
        self._connection = connection
        self._entries = entries
        self._now = now
        self._known = _known_nodes(connection)
        self._uuids = _uuids_of(entries, self._known)
        self._instances = InstanceImport(connection, entries, flavor_ids, now)
        self.changes: list[Change] = []
        self._new: set[Pair] = set()
        self._changed: set[Pair] = set()

    def in_order(self) -> Iterator[HostEntry]:
        """Those that the store has, by their numbers, as locks are taken; then those that are new."""
        there = [entry for entry in self._entries if entry.pair in self._known]
        yield from sorted(there, key=lambda entry: self._known[entry.pair].id)
        yield from (entry for entry in self._entries if entry.pair not in self._known)

    def save(self, chunk: Sequence[HostEntry]) -> None:
        """Write what differs, for these. Consumers come before what they hold, and go after it."""
        ids = [self._known[entry.pair].id for entry in chunk if entry.pair in self._known]
        states = {state.pair: state for state in read_states(self._connection, ids).values()}
        others = self._instances.find_others(chunk, states)
        wanted = [
            self._wanted(entry, states.get(entry.pair), others.get(entry.pair, NO_UNLISTED_USE)) for entry in chunk
        ]
        pairs = [(states.get(new.pair), new) for new in wanted]
        changed = self._instances.save_consumers(chunk)
        save_unlisted(self._connection, wanted, self._now)
        changes = save_states(self._connection, pairs, self._now)
        drop_unlisted(self._connection, pairs)
        moved = self._instances.save_servers(chunk)
        self._note(chunk, pairs, [*changes, *_changes_of(chunk, pairs, changed, moved)])

    def _wanted(self, entry: HostEntry, state: NodeState | None, others: UnlistedUse) -> NodeState:
        shared, uuid = entry.shared, self._uuids[entry.pair]
        names = {"host": entry.host, "hypervisor_hostname": entry.node, "uuid": uuid}
        held = {**others.held, **shared.held}
        if shared.unlisted:
            held[unlisted_uuid(uuid)] = shared.unlisted
        row = others.on_top_of(shared.row) | names
        return NodeState(row, entry.record.traits, shared.inventories, held, state.id if state else None)

    def _note(self, chunk: Sequence[HostEntry], pairs: Pairs, changes: Iterable[Change]) -> None:
        """A node is changed if something on it is: its report, a consumer, a server."""
        self._new.update(new.pair for old, new in pairs if old is None)
        found = list(dict.fromkeys(changes))
        self.changes += found
        nodes = {each.key.partition("/")[0] for each in found if each.subject in (NODES, USAGE)}
        servers = {each.key for each in found if each.subject == SERVERS}
        for entry, (_, new) in zip(chunk, pairs, strict=True):
            if str(new.id) in nodes or not servers.isdisjoint(entry.shared.instances):
                self._changed.add(entry.pair)

    def note_hosts(self, hosts: Iterable[str]) -> None:
        """The services of these hosts changed."""
        names = set(hosts)
        self._changed.update(entry.pair for entry in self._entries if entry.host in names)

    @property
    def tally(self) -> ImportCounts:
        """How many nodes were new, changed, or as they were."""
        changed = len(self._changed - self._new)
        return ImportCounts(len(self._new), changed, len(self._entries) - len(self._new) - changed)


def _changes_of(chunk: Sequence[HostEntry], pairs: Pairs, changed: set[str], moved: set[str]) -> Iterator[Change]:
    """Instances of which something else is known now, and servers that are somewhere else.

    What came with a node that is new is no change of its own, unless it was elsewhere before.
    """
    for entry, (old, new) in zip(chunk, pairs, strict=True):
        for uuid in entry.shared.instances:
            if uuid in changed:
                yield Change(USAGE, usage_key(new.number, uuid))
            if uuid in moved or (uuid in changed and old is not None):
                yield Change(SERVERS, uuid)


def _known_nodes(connection: Connection) -> dict[Pair, StoredNodeKey]:
    table = compute_nodes.c
    rows = connection.execute(select(table.id, table.uuid, table.host, table.hypervisor_hostname))
    return {(host, node): StoredNodeKey(number, uuid) for number, uuid, host, node in rows}


def _uuids_of(entries: Sequence[HostEntry], known: Mapping[Pair, StoredNodeKey]) -> dict[Pair, str]:
    """The uuid of each node: no two have the same, and none has another than it had."""
    owners = {there.uuid: pair for pair, there in known.items()}
    found: dict[Pair, str] = {}
    for entry in entries:
        there = known.get(entry.pair)
        own = entry.record.uuid
        found[entry.pair] = uuid = there.uuid if there and not own else uuid_of_node(entry.record, *entry.pair)
        check_uuid(entry.pair, uuid, there.uuid if there else None, owners.setdefault(uuid, entry.pair))
    return found


def check_uuid(pair: Pair, uuid: str, before: str | None, owner: Pair) -> None:
    """A node keeps its uuid, and has it alone: nova refuses anything else, too."""
    what = f"host {pair[0]}, node {pair[1]}"
    if owner != pair:
        problem = f"{what}: uuid {uuid} belongs to host {owner[0]}, node {owner[1]}"
        raise BadInput(problem, "give each node its own, or delete the other node first")
    if before is not None and before != uuid:
        raise BadInput(f"{what}: its uuid is {before}, not {uuid}", "delete the old node first")
