# SPDX-License-Identifier: Apache-2.0
"""Import of instances, as consumers and servers; finds the use of consumers that the file does not list.

The ledger (`roost.claims`) owns `consumers`; an import writes them under the locks of the nodes they are on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from roost.errors import BadInput
from roost.hosts import Instance
from roost.hosts.record import is_bare_metal
from roost.inventory.node_writer import LockedNodes, NodeAllocations, NodeNames, WantedNode
from roost.inventory.row_encoder import (
    DETAILS_OF_FILE,
    HostEntry,
    consumer_row,
    instance_details,
    server_row,
    unlisted_row,
    unlisted_uuid,
)
from roost.inventory.servers import find_servers_on, read_servers, save_servers
from roost.model.consumers import INSTANCE, UNLISTED, use_on
from roost.store.bulk import Row, delete_rows
from roost.store.reconcile import KeyedRows, Reconciler, RowKey
from roost.store.schema import consumers

_CONSUMER_ROWS = Reconciler(consumers, ("uuid",), columns=("kind", "project_id", "details"))


@dataclass(frozen=True)
class OtherUse:
    """Use of a node by consumers that the file does not list."""

    allocations: NodeAllocations = field(default_factory=dict)
    memory_mb: int = 0
    """Used memory as nova counts it."""
    disk_gb: int = 0
    vcpus: int = 0
    instances: int = 0
    """How many consumers are instances or migrations, as the ledger counts; servers without allocations too."""

    def add_to(self, row: Row) -> Row:
        """A node's row with this use added to what the file reports. A bare-metal node is then used whole."""
        if not self.allocations and not self.instances:
            return row
        if self.allocations and is_bare_metal(row["hypervisor_type"]):
            whole = {"memory_mb_used": row["memory_mb"], "local_gb_used": row["local_gb"], "vcpus_used": row["vcpus"]}
            return row | whole | {"free_ram_mb": 0, "free_disk_gb": 0}
        return row | {
            "vcpus_used": row["vcpus_used"] + self.vcpus,
            "memory_mb_used": row["memory_mb_used"] + self.memory_mb,
            "free_ram_mb": row["free_ram_mb"] - self.memory_mb,
            "local_gb_used": row["local_gb_used"] + self.disk_gb,
            "free_disk_gb": row["free_disk_gb"] - self.disk_gb,
            "running_vms": row["running_vms"] + self.instances,
        }


NO_OTHER_USE = OtherUse()


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

    def find_other_use(self, chunk: Sequence[HostEntry], stored: LockedNodes) -> dict[NodeNames, OtherUse]:
        """Host and node -> use by consumers that the file lists on no node; new nodes are left out."""
        allocated = {
            entry.names: self._other_allocations(entry.names, stored)
            for entry in chunk
            if entry.names in stored.nodes
        }
        uuids = {uuid for each in allocated.values() for uuid in each}
        known = _CONSUMER_ROWS.read(self._connection, "uuid", uuids)
        servers = find_servers_on(self._connection, {host for host, _ in allocated})
        found = {}
        for names, each in allocated.items():
            instances = {uuid for uuid in servers.get(names, ()) if uuid not in self._places}
            node_id = stored.nodes[names]["id"]
            found[names] = _other_use(node_id, each, instances, known) if each or instances else NO_OTHER_USE
        return found

    def _other_allocations(self, names: NodeNames, stored: LockedNodes) -> NodeAllocations:
        row = stored.nodes[names]
        allocated = stored.allocations_by_node.get(row["id"])
        if not allocated:
            return {}
        unlisted = unlisted_uuid(row["uuid"])
        return {uuid: each for uuid, each in allocated.items() if uuid != unlisted and uuid not in self._places}

    def save_consumers(self, chunk: Sequence[HostEntry], wanted: Iterable[WantedNode]) -> set[str]:
        """Save consumers for listed instances and unlisted use: uuids of consumers that were stored and changed."""
        listed = {uuid: each for entry in chunk for uuid, each in entry.shared.instances.items()}
        unlisted = {
            uuid
            for node in wanted
            if node.allocations and (uuid := unlisted_uuid(node.row["uuid"])) in node.allocations
        }
        stored = _CONSUMER_ROWS.read(self._connection, "uuid", {*listed, *unlisted})
        rows = {(uuid,): stored.get((uuid,), unlisted_row()) for uuid in sorted(unlisted)}
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

    def add(self, names: NodeNames, instance: Instance, is_allocated: bool) -> None:
        """Add a node that lists the instance; BadInput if the entries contradict each other."""
        if _identity_of(instance) != _identity_of(self.instance):
            problem = f"instance {instance.uuid}: host {self.nodes[0][0]} and host {names[0]} describe it differently"
            raise BadInput(problem, "give both the same project, flavor and image")
        if not is_allocated and self.unallocated:
            problem = f"instance {instance.uuid}: it is on host {self.unallocated[0]} and on host {names[0]}"
            raise BadInput(problem, "say with `resources` what it holds there, or leave it out of one of them")
        self.nodes.append(names)
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


def _describe_consumer(row: Row) -> str:
    return f"instance {row['uuid']:.60}"


def _other_use(node_id: int, allocated: NodeAllocations, server_uuids: set[str], known: KeyedRows) -> OtherUse:
    """The use of these consumers. `server_uuids`: servers on the node; `known`: rows of the consumers, by uuid."""
    uses = [
        use_on(json.loads(known[uuid,]["details"] or "{}"), node_id, amounts) for uuid, amounts in allocated.items()
    ]
    counted = {uuid for uuid in allocated if known[uuid,]["kind"] != UNLISTED} | server_uuids
    memory_mb, disk_gb, vcpus = (sum(use[at] for use in uses) for at in range(3))
    return OtherUse(allocated, memory_mb, disk_gb, vcpus, len(counted))
