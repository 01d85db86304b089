# SPDX-License-Identifier: Apache-2.0
"""Instances of a fleet file on their way into the store, and consumers that were on its nodes before.

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
from roost.inventory.node_writer import Holdings, LockedNodes, NodeNames, WantedNode
from roost.inventory.row_encoder import (
    HostEntry,
    consumer_row,
    instance_details,
    server_row,
    unlisted_row,
    unlisted_uuid,
)
from roost.inventory.servers import find_servers_on, read_servers, save_servers
from roost.model.consumers import INSTANCE, use_of
from roost.store.bulk import Row, delete_rows
from roost.store.reconcile import Key, KeyedRows, Reconciler
from roost.store.schema import consumers

_CONSUMERS = Reconciler(consumers, ("uuid",), columns=("kind", "project_id", "details"))


@dataclass(frozen=True)
class OtherUse:
    """What consumers that the file does not list hold on a node, and what they take as nova counts it."""

    held: Holdings = field(default_factory=dict)
    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0
    instances: int = 0

    def on_top_of(self, row: Row) -> Row:
        """The node's row with this use added to the one that the file reports. Bare metal is given out whole."""
        if not self.held and not self.instances:
            return row
        if self.held and is_bare_metal(row["hypervisor_type"]):
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
    """Saves the instances that a fleet lists, as consumers and as servers."""

    def __init__(
        self, connection: Connection, entries: Sequence[HostEntry], flavor_ids: Mapping[Any, int], now: datetime
    ) -> None:
        """`flavor_ids`: a flavor's id in the file -> its number in the store."""
        self._connection = connection
        self._flavor_ids = flavor_ids
        self._now = now
        self._places = _places_of(entries)

    def find_others(self, chunk: Sequence[HostEntry], stored: LockedNodes) -> dict[NodeNames, OtherUse]:
        """Node -> the use of consumers there that the file lists nowhere; new nodes are left out."""
        held = {
            entry.names: self._find_others_on(entry.names, stored) for entry in chunk if entry.names in stored.nodes
        }
        known = _CONSUMERS.read(self._connection, "uuid", {uuid for each in held.values() for uuid in each})
        servers = find_servers_on(self._connection, {host for host, _ in held})
        found = {}
        for names, each in held.items():
            instances = {uuid for uuid in servers.get(names, ()) if uuid not in self._places}
            found[names] = _other_use(each, instances, known) if each or instances else NO_OTHER_USE
        return found

    def _find_others_on(self, names: NodeNames, stored: LockedNodes) -> Holdings:
        row = stored.nodes[names]
        held = stored.held.get(row["id"])
        if not held:
            return {}
        unlisted = unlisted_uuid(row["uuid"])
        return {uuid: it for uuid, it in held.items() if uuid != unlisted and uuid not in self._places}

    def save_consumers(self, chunk: Sequence[HostEntry], wanted: Iterable[WantedNode]) -> set[str]:
        """Save consumers for listed instances and unlisted use: the uuids of those that were there and changed."""
        listed = {uuid: each for entry in chunk for uuid, each in entry.shared.instances.items()}
        unlisted = {uuid for node in wanted if node.held and (uuid := unlisted_uuid(node.row["uuid"])) in node.held}
        stored = _CONSUMERS.read(self._connection, "uuid", {*listed, *unlisted})
        rows = {(uuid,): stored.get((uuid,), unlisted_row()) for uuid in sorted(unlisted)}
        for uuid, instance in listed.items():
            rows[uuid,] = consumer_row(instance, self._details(instance, stored.get((uuid,))))
        saved = _CONSUMERS.apply(self._connection, stored, rows, _place, self._now)
        return {uuid for (uuid,) in saved.changed}

    def _details(self, instance: Instance, before: Row | None) -> dict[str, Any]:
        """What the file says, and what only the ledger knows."""
        if before is None:
            return instance_details(instance, self._flavor_ids)
        if before["kind"] != INSTANCE:
            raise BadInput(f"instance {instance.uuid}: the store knows it as a {before['kind']}", "give another uuid")
        kept = json.loads(before["details"] or "{}")
        rest = {name: value for name, value in kept.items() if name not in ("flavor_id", "image_props")}
        return rest | instance_details(instance, self._flavor_ids)

    def drop_unlisted(self, stored: LockedNodes, wanted: Iterable[WantedNode]) -> None:
        """Delete the consumers of unlisted use that is no more; to be called when they hold nothing."""
        gone = []
        for node in wanted:
            before = stored.held.get(stored.nodes[node.names]["id"], {}) if node.names in stored.nodes else {}
            if before and (uuid := unlisted_uuid(node.row["uuid"])) in before and uuid not in node.held:
                gone.append((uuid,))
        delete_rows(self._connection, consumers, ("uuid",), gone)

    def save_servers(self, chunk: Sequence[HostEntry]) -> set[str]:
        """Save servers for listed instances: the uuids of those that were there and changed."""
        pairs = [(entry.names, each) for entry in chunk for each in entry.shared.instances.values()]
        stored = read_servers(self._connection, {instance.uuid for _, instance in pairs})
        rows: dict[Key, Row] = {}
        for names, instance in pairs:
            if names == self._home(instance.uuid, stored.get((instance.uuid,))):
                rows[instance.uuid,] = server_row(instance, *names)
        return save_servers(self._connection, stored, rows, self._now)

    def _home(self, uuid: str, before: Row | None) -> NodeNames:
        """Where a server is. One that moves is on two nodes: it stays where it was known to be."""
        places = self._places[uuid]
        stored = (before["host"], before["node"]) if before else None
        if places.idle is None and stored in places.pairs:
            return stored
        return places.idle or places.pairs[0]


class _Places:
    """The nodes on which the file has an instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.pairs: list[NodeNames] = []
        self.idle: NodeNames | None = None
        """The node on which it holds nothing: only its server says that it is there."""

    def add(self, pair: NodeNames, instance: Instance, is_idle: bool) -> None:
        """The file has it on one more node; BadInput where the entries contradict each other."""
        if _identity(instance) != _identity(self.instance):
            problem = f"instance {instance.uuid}: host {self.pairs[0][0]} and host {pair[0]} describe it differently"
            raise BadInput(problem, "give both the same project, flavor and image")
        if is_idle and self.idle:
            problem = f"instance {instance.uuid}: it is on host {self.idle[0]} and on host {pair[0]}"
            raise BadInput(problem, "say with `resources` what it holds there, or leave it out of one of them")
        self.pairs.append(pair)
        self.idle = pair if is_idle else self.idle


def _identity(instance: Instance) -> tuple[Any, ...]:
    return instance.project_id, instance.flavor_id, dict(instance.image_props)


def _places_of(entries: Sequence[HostEntry]) -> dict[str, _Places]:
    """Instance uuid -> the nodes it is on, in the order of their names."""
    found: dict[str, _Places] = {}
    for entry in sorted((each for each in entries if each.shared.instances), key=lambda each: each.names):
        for uuid, instance in entry.shared.instances.items():
            found.setdefault(uuid, _Places(instance)).add(entry.names, instance, uuid not in entry.shared.held)
    return found


def _place(row: Row) -> str:
    return f"instance {row['uuid']:.60}"


def _other_use(held: Holdings, servers_there: set[str], known: KeyedRows) -> OtherUse:
    uses = [use_of(json.loads(known[uuid,]["details"] or "{}"), amounts) for uuid, amounts in held.items()]
    instances = {uuid for uuid in held if known[uuid,]["kind"] == INSTANCE} | servers_there
    memory_mb, disk_gb, vcpus = (sum(use[at] for use in uses) for at in range(3))
    return OtherUse(held, memory_mb, disk_gb, vcpus, len(instances))
