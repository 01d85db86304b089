# SPDX-License-Identifier: Apache-2.0
"""Import of hosts: what the file says of a node, plus the allocations of consumers that the file does not list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from roost.inventory.import_summary import ImportCounts
from roost.inventory.instance_import import InstanceImport
from roost.inventory.node_writer import (
    LockedNodes,
    NodeKey,
    NodeNames,
    SavedNodes,
    WantedNode,
    check_uuid,
    lock_nodes,
    save_nodes,
)
from roost.inventory.other_use import NO_OTHER_USE, OtherUse
from roost.inventory.reported_space import space_columns, unchanged_space
from roost.inventory.row_encoder import HostEntry, unlisted_uuid, uuid_of_node
from roost.model.uuids import canonical_uuid
from roost.store.change_log import NODES, SERVERS, USAGE, Change, usage_key
from roost.store.statements import Row


class HostImport:
    """Saves the hosts of a fleet file in chunks, and collects what changed."""

    def __init__(
        self,
        connection: Connection,
        entries: Sequence[HostEntry],
        known: Mapping[NodeNames, NodeKey],
        flavor_ids: Mapping[Any, int],
        now: datetime,
    ) -> None:
        """`known`: every node in the database. `flavor_ids`: id of a flavor in the file -> its row id."""
        self._connection = connection
        self._entries = entries
        self._now = now
        self._known = known
        self._uuids = _assign_uuids(entries, known)
        self._instances = InstanceImport(connection, entries, flavor_ids, now)
        self.changes: list[Change] = []
        self._new: set[NodeNames] = set()
        self._changed: set[NodeNames] = set()

    def entries_in_lock_order(self) -> Iterator[HostEntry]:
        """Entries of stored nodes by node id, the order in which nodes are locked; then those of new nodes."""
        stored = [entry for entry in self._entries if entry.names in self._known]
        yield from sorted(stored, key=lambda entry: self._known[entry.names].id)
        yield from (entry for entry in self._entries if entry.names not in self._known)

    def save(self, chunk: Sequence[HostEntry]) -> None:
        """Write what differs for a chunk of hosts; consumers are inserted before allocations and deleted after."""
        stored = lock_nodes(
            self._connection, [self._known[each.names].id for each in chunk if each.names in self._known]
        )
        others, kept = (
            [found.get(entry.names, NO_OTHER_USE) for entry in chunk]
            for found in self._instances.find_other_use(chunk, stored)
        )
        wanted = [self._wanted_node(*each, stored) for each in zip(chunk, others, kept, strict=True)]
        changed = self._instances.save_consumers(chunk, wanted)
        saved = save_nodes(self._connection, stored, wanted, self._now)
        self._instances.delete_unlisted_consumers(stored, wanted)
        moved = self._instances.save_servers(chunk)
        self._collect(chunk, saved, [*saved.changes, *_instance_changes(chunk, saved, changed, moved)])

    def _wanted_node(self, entry: HostEntry, others: OtherUse, kept: OtherUse, stored: LockedNodes) -> WantedNode:
        """The node as the file says. `others`: of consumers that it does not list on it; `kept`: of instances that it
        lists without resources, so that its figures count them.
        """
        shared, uuid = entry.shared, self._uuids[entry.names]
        wanted = {**others.allocations, **kept.allocations, **shared.allocations}
        if unlisted := kept.subtract_from(shared.unlisted):
            wanted[unlisted_uuid(uuid)] = unlisted
        row = others.add_to(kept.unreported(entry.record).add_to(shared.row)) | {"uuid": uuid}
        if stored.guests and entry.names in self._known:
            booked = stored.guests_of(self._known[entry.names].id, wanted)
            row |= _space_columns(entry, row, stored.nodes[entry.names], booked)
        return WantedNode(entry.names, row, entry.record.traits, shared.inventories, wanted)

    def _collect(self, chunk: Sequence[HostEntry], saved: SavedNodes, changes: Iterable[Change]) -> None:
        """Record new and changed nodes. A node is changed if its report, a consumer or a server on it is."""
        self._new |= saved.new
        found = list(dict.fromkeys(changes))
        self.changes += found
        nodes = {each.key.partition("/")[0] for each in found if each.subject in (NODES, USAGE)}
        servers = {each.key for each in found if each.subject == SERVERS}
        for entry in chunk:
            if str(saved.ids[entry.names]) in nodes or not servers.isdisjoint(entry.shared.instances):
                self._changed.add(entry.names)

    def mark_changed(self, hosts: Iterable[str]) -> None:
        """Count the nodes of these hosts as changed, because their services changed."""
        names = set(hosts)
        self._changed.update(entry.names for entry in self._entries if entry.host in names)

    @property
    def counts(self) -> ImportCounts:
        """How many nodes were new, changed and unchanged."""
        changed = len(self._changed - self._new)
        return ImportCounts(len(self._new), changed, len(self._entries) - len(self._new) - changed)


def _space_columns(entry: HostEntry, row: Row, stored: Row, booked: Mapping[str, str]) -> Row:
    """NUMA cells and PCI devices of a stored node; `row`: with what the file says, `booked`: as in the ledger."""
    listed, migrations = entry.shared.instances, entry.shared.migrations
    unchanged = unchanged_space(row, stored, booked, listed, migrations) if booked else None
    return unchanged or space_columns(row, booked, listed, migrations=migrations)


def _instance_changes(
    chunk: Sequence[HostEntry], saved: SavedNodes, changed: set[str], moved: set[str]
) -> Iterator[Change]:
    """Entries of the change log for instances whose details changed and servers that are on another node.

    `changed`, `moved`: their uuids. Instances on a new node are covered by its own entry, unless they moved there.
    """
    for entry in chunk:
        for uuid in entry.shared.instances:
            if uuid in changed:
                yield Change(USAGE, usage_key(saved.ids[entry.names], uuid))
            if uuid in moved or (uuid in changed and entry.names not in saved.new):
                yield Change(SERVERS, uuid)


def _assign_uuids(entries: Sequence[HostEntry], known: Mapping[NodeNames, NodeKey]) -> dict[NodeNames, str]:
    """Host and node -> uuid: of the record, of the database, or derived. BadInput if one changed or is not unique."""
    owners = {canonical_uuid(stored.uuid): names for names, stored in known.items()}
    found: dict[NodeNames, str] = {}
    for entry in entries:
        stored = known.get(entry.names)
        own = entry.record.uuid
        uuid = stored.uuid if stored and not own else uuid_of_node(entry.record, *entry.names)
        owner = owners.setdefault(canonical_uuid(uuid), entry.names)
        check_uuid(entry.names, uuid, stored.uuid if stored else None, owner)
        found[entry.names] = stored.uuid if stored else uuid
    return found
