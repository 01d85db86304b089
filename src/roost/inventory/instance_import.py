# SPDX-License-Identifier: Apache-2.0
"""Import of instances and migrations: as consumers, and instances as servers too; finds the use of other consumers.

The ledger (`roost.claims`) owns `consumers`; an import writes them under the locks of the nodes they are on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from roost.errors import BadInput
from roost.hosts import Instance
from roost.inventory.node_writer import LockedNodes, NodeAllocations, NodeNames, WantedNode
from roost.inventory.other_use import OtherUse, sum_use
from roost.inventory.row_encoder import (
    DETAILS_OF_FILE,
    HostEntry,
    SharedRows,
    consumer_row,
    instance_details,
    migration_row,
    server_row,
    unlisted_row,
    unlisted_uuid,
)
from roost.inventory.servers import find_servers_on, read_servers, save_servers
from roost.model.resources import INSTANCE, MIGRATION, move_of
from roost.store.reconcile import Reconciler, RowKey
from roost.store.schema import consumers
from roost.store.statements import Row, delete_rows

_CONSUMER_ROWS = Reconciler(consumers, ("uuid",), columns=("kind", "project_id", "details"))


class InstanceImport:
    """Saves the instances of a fleet file, as consumers and as servers."""

    def __init__(
        self, connection: Connection, entries: Sequence[HostEntry], flavor_ids: Mapping[Any, int], now: datetime
    ) -> None:
        """`flavor_ids`: id of a flavor in the file -> its row id."""
        self._connection = connection
        self._flavor_ids = flavor_ids
        self._now = now
        self._places = _find_places(entries)
        self._migrations = _find_migrations(entries, self._places)

    def find_other_use(
        self, chunk: Sequence[HostEntry], stored: LockedNodes
    ) -> tuple[dict[NodeNames, OtherUse], dict[NodeNames, OtherUse]]:
        """Host and node -> use by consumers of which the file does not say what they hold: unlisted and listed ones.

        Nodes without such use are left out. The listed ones are instances that the file has on the node.
        """
        pairs = {
            entry.names: self._unsized_allocations(entry, stored) for entry in chunk if entry.names in stored.nodes
        }
        known = _CONSUMER_ROWS.read(
            self._connection, "uuid", {uuid for pair in pairs.values() for each in pair for uuid in each}
        )
        servers = find_servers_on(self._connection, {host for host, _ in pairs})
        others, kept = {}, {}
        for names, (elsewhere, here) in pairs.items():
            node_id = stored.nodes[names]["id"]
            instances = {uuid for uuid in servers.get(names, ()) if uuid not in self._places}
            if elsewhere or instances:
                others[names] = sum_use(node_id, elsewhere, instances, known)
            if here:
                kept[names] = sum_use(node_id, here, set(), known)
        return others, kept

    def _unsized_allocations(self, entry: HostEntry, stored: LockedNodes) -> tuple[NodeAllocations, NodeAllocations]:
        """Stored allocations on a node of which the file does not say the amounts: not listed on it, and listed.

        On the source of a move, the migration holds what the listed instance uses.
        """
        row = stored.nodes[entry.names]
        unlisted = unlisted_uuid(row["uuid"])
        others: NodeAllocations = {}
        kept: NodeAllocations = {}
        for uuid, amounts in stored.allocations_by_node.get(row["id"], {}).items():
            if uuid != unlisted and not self._has_amounts(uuid):
                (kept if uuid in entry.shared.instances else others)[uuid] = amounts
        for uuid in _migrations_away(entry.shared) & others.keys() if others else ():
            kept[uuid] = others.pop(uuid)
        return others, kept

    def _has_amounts(self, uuid: str) -> bool:
        """Whether the file says what a consumer holds: it lists its resources, on whichever node."""
        places = self._places.get(uuid)
        return uuid in self._migrations or (places is not None and places.is_sized)

    def save_consumers(self, chunk: Sequence[HostEntry], wanted: Iterable[WantedNode]) -> set[str]:
        """Save consumers for listed instances and migrations, and unlisted use: uuids of stored ones that changed."""
        listed = {uuid: each for entry in chunk for uuid, each in entry.shared.instances.items()}
        migrations = sorted(uuid for entry in chunk for uuid in entry.shared.migrations)
        unlisted = {
            uuid
            for node in wanted
            if node.allocations and (uuid := unlisted_uuid(node.row["uuid"])) in node.allocations
        }
        stored = _CONSUMER_ROWS.read(self._connection, "uuid", {*listed, *migrations, *unlisted})
        rows = {(uuid,): stored.get((uuid,), unlisted_row()) for uuid in sorted(unlisted)}
        for uuid in migrations:
            rows[uuid,] = stored.get((uuid,), migration_row())
            if rows[uuid,]["kind"] != MIGRATION:
                problem = f"migration {uuid}: the store knows it as an {rows[uuid,]['kind']}"
                raise BadInput(problem, "give another uuid")
        for uuid, instance in listed.items():
            rows[uuid,] = consumer_row(instance, self._details(instance, stored.get((uuid,))))
        saved = _CONSUMER_ROWS.apply(self._connection, stored, rows, _describe_consumer, self._now)
        return {uuid for (uuid,) in saved.changed}

    def _details(self, instance: Instance, before: Row | None) -> dict[str, Any]:
        """What the file says of an instance, and details that the ledger stored with the consumer."""
        details = instance_details(instance, self._flavor_ids)
        if before is None:
            return details
        if before["kind"] != INSTANCE:
            raise BadInput(f"instance {instance.uuid}: the store knows it as a {before['kind']}", "give another uuid")
        stored = json.loads(before["details"] or "{}")
        if "flavor" not in details and details.get("flavor_id") == stored.get("flavor_id") and "flavor" in stored:
            details["flavor"] = stored["flavor"]  # as it was when the instance was placed
        return {name: value for name, value in stored.items() if name not in DETAILS_OF_FILE} | details

    def delete_unlisted_consumers(self, stored: LockedNodes, wanted: Iterable[WantedNode]) -> None:
        """Delete consumers of unlisted use that nodes do not have any more. Their allocations are deleted before."""
        gone = []
        for node in wanted:
            row = stored.nodes.get(node.names)
            before = stored.allocations_by_node.get(row["id"], {}) if row else {}
            if before and (uuid := unlisted_uuid(node.row["uuid"])) in before and uuid not in node.allocations:
                gone.append((uuid,))
        delete_rows(self._connection, consumers, ("uuid",), gone)

    def save_servers(self, chunk: Sequence[HostEntry]) -> set[str]:
        """Save servers for listed instances: uuids of servers that were stored and changed."""
        pairs = [(entry.names, each) for entry in chunk for each in entry.shared.instances.values()]
        stored = read_servers(self._connection, {instance.uuid for _, instance in pairs})
        rows: dict[RowKey, Row] = {}
        for names, instance in pairs:
            if names == self._server_node(instance.uuid, stored.get((instance.uuid,))):
                rows[instance.uuid,] = server_row(instance, *names)
        return save_servers(self._connection, stored, rows, self._now)

    def _server_node(self, uuid: str, before: Row | None) -> NodeNames:
        """Host and node that the server is on. A moving one has allocations on two: it stays on the stored one."""
        places = self._places[uuid]
        stored = (before["host"], before["node"]) if before else None
        if places.unallocated is None and stored in places.nodes:
            return stored
        return places.unallocated or places.nodes[0]


class _InstancePlaces:
    """The nodes on which the file lists an instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.nodes: list[NodeNames] = []
        self.unallocated: NodeNames | None = None
        """The node on which it is listed without resources: its server is there."""
        self.is_sized = False
        """Whether a node lists its resources; otherwise it keeps what the ledger has booked for it."""

    def add(self, names: NodeNames, instance: Instance, is_allocated: bool) -> None:
        """Add a node that lists the instance; BadInput if the entries contradict each other."""
        if _identity_of(instance) != _identity_of(self.instance):
            problem = f"instance {instance.uuid}: host {self.nodes[0][0]} and host {names[0]} describe it differently"
            raise BadInput(problem, "give both the same project, flavor and image")
        if not is_allocated and self.unallocated:
            problem = f"instance {instance.uuid}: it is on host {self.unallocated[0]} and on host {names[0]}"
            raise BadInput(problem, "say with `resources` what it holds there, or leave it out of one of them")
        self.nodes.append(names)
        self.is_sized = self.is_sized or is_allocated
        self.unallocated = self.unallocated if is_allocated else names


def _identity_of(instance: Instance) -> tuple[Any, ...]:
    """Fields that must be equal in all entries of an instance."""
    return instance.project_id, instance.flavor_id, instance.flavor, dict(instance.image_props)


def _find_places(entries: Sequence[HostEntry]) -> dict[str, _InstancePlaces]:
    """Instance uuid -> the nodes that list it, ordered by name."""
    found: dict[str, _InstancePlaces] = {}
    for entry in sorted((each for each in entries if each.shared.instances), key=lambda each: each.names):
        for uuid, instance in entry.shared.instances.items():
            places = found.setdefault(uuid, _InstancePlaces(instance))
            places.add(entry.names, instance, uuid in entry.shared.allocations)
    return found


def _find_migrations(entries: Sequence[HostEntry], instances: Mapping[str, _InstancePlaces]) -> frozenset[str]:
    """Uuids of all migrations that the file lists; BadInput if it lists one as an instance, too."""
    found = {uuid: entry.host for entry in entries for uuid in entry.shared.migrations}
    for uuid, host in found.items():
        if uuid in instances:
            problem = f"migration {uuid} of host {host}: it is an instance on host {instances[uuid].nodes[0][0]}"
            raise BadInput(problem, "a migration has a uuid of its own")
    return frozenset(found)


def _migrations_away(shared: SharedRows) -> set[str]:
    """Uuids of the migrations that instances may have which a node lists without resources."""
    return {move_of(uuid) for uuid in shared.instances if uuid not in shared.allocations}


def _describe_consumer(row: Row) -> str:
    return f"{row['kind']} {row['uuid']:.60}"
