# SPDX-License-Identifier: Apache-2.0
"""Hosts of a fleet file on their way into the store: what the file says, and what other consumers hold on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from roost.inventory.import_summary import ImportCounts
from roost.inventory.instance_import import NO_OTHER_USE, InstanceImport, OtherUse
from roost.inventory.node_writer import (
    NodeKey,
    NodeNames,
    SavedNodes,
    WantedNode,
    check_uuid,
    lock_nodes,
    save_nodes,
)
from roost.inventory.row_encoder import HostEntry, unlisted_uuid, uuid_of_node
from roost.store.change_log import NODES, SERVERS, USAGE, Change, usage_key


class HostImport:
    """Saves hosts, some at a time, and keeps account of what changed."""

    def __init__(
        self,
        connection: Connection,
        entries: Sequence[HostEntry],
        known: Mapping[NodeNames, NodeKey],
        flavor_ids: Mapping[Any, int],
        now: datetime,
    ) -> None:
        """`known`: every node in the store. `flavor_ids`: a flavor's id in the file -> its number in the store."""
        self._connection = connection
        self._entries = entries
        self._now = now
        self._known = known
        self._uuids = _uuids_of(entries, known)
        self._instances = InstanceImport(connection, entries, flavor_ids, now)
        self.changes: list[Change] = []
        self._new: set[NodeNames] = set()
        self._changed: set[NodeNames] = set()

    def in_order(self) -> Iterator[HostEntry]:
        """The hosts that the store has, by their numbers, as locks are taken; then those that are new."""
        there = [entry for entry in self._entries if entry.names in self._known]
        yield from sorted(there, key=lambda entry: self._known[entry.names].id)
        yield from (entry for entry in self._entries if entry.names not in self._known)

    def save(self, chunk: Sequence[HostEntry]) -> None:
        """Write what differs, for these hosts. Consumers come before what they hold, and go after it."""
        stored = lock_nodes(
            self._connection, [self._known[each.names].id for each in chunk if each.names in self._known]
        )
        others = self._instances.find_others(chunk, stored)
        wanted = [self._wanted(entry, others.get(entry.names, NO_OTHER_USE)) for entry in chunk]
        changed = self._instances.save_consumers(chunk, wanted)
        saved = save_nodes(self._connection, stored, wanted, self._now)
        self._instances.drop_unlisted(stored, wanted)
        moved = self._instances.save_servers(chunk)
        self._note(chunk, saved, [*saved.changes, *_instance_changes(chunk, saved, changed, moved)])

    def _wanted(self, entry: HostEntry, others: OtherUse) -> WantedNode:
        shared, uuid = entry.shared, self._uuids[entry.names]
        held = {**others.held, **shared.held}
        if shared.unlisted:
            held[unlisted_uuid(uuid)] = shared.unlisted
        row = others.on_top_of(shared.row) | {"uuid": uuid}
        return WantedNode(entry.names, row, entry.record.traits, shared.inventories, held)

    def _note(self, chunk: Sequence[HostEntry], saved: SavedNodes, changes: Iterable[Change]) -> None:
        """A node is changed if something on it is: its report, a consumer, a server."""
        self._new |= saved.new
        found = list(dict.fromkeys(changes))
        self.changes += found
        nodes = {each.key.partition("/")[0] for each in found if each.subject in (NODES, USAGE)}
        servers = {each.key for each in found if each.subject == SERVERS}
        for entry in chunk:
            if str(saved.ids[entry.names]) in nodes or not servers.isdisjoint(entry.shared.instances):
                self._changed.add(entry.names)

    def note_hosts(self, hosts: Iterable[str]) -> None:
        """The services of these hosts changed."""
        names = set(hosts)
        self._changed.update(entry.names for entry in self._entries if entry.host in names)

    @property
    def counts(self) -> ImportCounts:
        """The numbers of nodes that were new, changed and unchanged."""
        changed = len(self._changed - self._new)
        return ImportCounts(len(self._new), changed, len(self._entries) - len(self._new) - changed)


def _instance_changes(
    chunk: Sequence[HostEntry], saved: SavedNodes, changed: set[str], moved: set[str]
) -> Iterator[Change]:
    """Instances of which something else is known now, and servers that are on another node.

    What came with a node that is new is no change of its own, unless it was elsewhere before.
    """
    for entry in chunk:
        for uuid in entry.shared.instances:
            if uuid in changed:
                yield Change(USAGE, usage_key(saved.ids[entry.names], uuid))
            if uuid in moved or (uuid in changed and entry.names not in saved.new):
                yield Change(SERVERS, uuid)


def _uuids_of(entries: Sequence[HostEntry], known: Mapping[NodeNames, NodeKey]) -> dict[NodeNames, str]:
    """The uuid of each node: no two have the same, and none has another than it had."""
    owners = {there.uuid: names for names, there in known.items()}
    found: dict[NodeNames, str] = {}
    for entry in entries:
        there = known.get(entry.names)
        own = entry.record.uuid
        found[entry.names] = uuid = there.uuid if there and not own else uuid_of_node(entry.record, *entry.names)
        check_uuid(entry.names, uuid, there.uuid if there else None, owners.setdefault(uuid, entry.names))
    return found
