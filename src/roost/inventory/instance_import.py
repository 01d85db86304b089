# SPDX-License-Identifier: Apache-2.0
"""Who holds what on the nodes of a fleet: the instances that the file lists, and others who were there before."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, select

from roost.errors import BadInput
from roost.hosts import Instance
from roost.hosts.record import is_bare_metal
from roost.inventory.bulk import Row, delete_rows, insert_rows, raw, update_rows
from roost.inventory.column_limits import check_rows
from roost.inventory.node_states import Held, NodeState, Pairs, is_same_json
from roost.inventory.row_encoder import (
    consumer_row,
    instance_details,
    server_row,
    unlisted_row,
    unlisted_uuid,
)
from roost.model.consumers import INSTANCE, use_of
from roost.store.bulk import rows_where
from roost.store.schema import consumers, servers

if TYPE_CHECKING:
    from roost.inventory.host_import import HostEntry, Pair

RAW_CONSUMERS = raw(consumers)
_KNOWN_OF_CONSUMERS = select(
    RAW_CONSUMERS.c.uuid, RAW_CONSUMERS.c.kind, RAW_CONSUMERS.c.project_id, RAW_CONSUMERS.c.details
)
_KNOWN_OF_SERVERS = select(servers.c.uuid, servers.c.host, servers.c.node, servers.c.project_id)


@dataclass(frozen=True)
class UnlistedUse:
    """Consumers on a node that the file does not list, and what they take as nova counts it."""

    held: Held = field(default_factory=dict)
    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0
    instances: int = 0

    def on_top_of(self, row: Row) -> Row:
        """The node's row with their use added to the one that the file reports. Bare metal is given out whole."""
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


NO_UNLISTED_USE = UnlistedUse()


class InstanceImport:
    """The instances that a fleet lists, by uuid."""

    def __init__(
        self, connection: Connection, entries: Sequence[HostEntry], flavor_ids: Mapping[Any, int], now: datetime
    ) -> None:
        self._connection = connection
        self._flavor_ids = flavor_ids
        self._now = now
        self._places = _places_of(entries)

    def find_others(self, chunk: Sequence[HostEntry], states: Mapping[Pair, NodeState]) -> dict[Pair, UnlistedUse]:
        """Those whom the file does not list anywhere, by the node they are on."""
        held: dict[Pair, Held] = {}
        for entry in chunk:
            if (state := states.get(entry.pair)) is not None:
                nobody = unlisted_uuid(state.row["uuid"])
                there = state.held.items()
                held[entry.pair] = {who: it for who, it in there if who != nobody and who not in self._places}
        known = _rows(self._connection, _KNOWN_OF_CONSUMERS, {who for each in held.values() for who in each})
        idle = self._idle_servers(held)
        return {pair: _others(each, idle.get(pair, set()), known) for pair, each in held.items()}

    def _idle_servers(self, held: Mapping[Pair, Held]) -> dict[Pair, set[str]]:
        """Servers on these nodes that the file does not list."""
        hosts = {host for host, _ in held}
        found: dict[Pair, set[str]] = defaultdict(set)
        for row in rows_where(self._connection, _KNOWN_OF_SERVERS, servers.c.host, hosts):
            if row.uuid not in self._places:
                found[row.host, row.node or row.host].add(row.uuid)
        return found

    def save_consumers(self, chunk: Sequence[HostEntry]) -> set[str]:
        """Those of the instances that were known, and of which something else is known now."""
        listed = {uuid: each for entry in chunk for uuid, each in entry.shared.instances.items()}
        known = _rows(self._connection, _KNOWN_OF_CONSUMERS, listed)
        new, changed = [], []
        for uuid, instance in listed.items():
            before = known.get(uuid)
            row = consumer_row(instance, self._details(instance, before))
            if before is None:
                new.append(row | {"created_at": self._now})
            elif before["project_id"] != row["project_id"] or not is_same_json(before["details"], row["details"]):
                changed.append(row | {"updated_at": self._now})
        check_rows(consumers, (*new, *changed), _place)
        insert_rows(self._connection, RAW_CONSUMERS, new)
        update_rows(self._connection, RAW_CONSUMERS, ("uuid",), changed)
        return {row["uuid"] for row in changed}

    def _details(self, instance: Instance, before: Row | None) -> dict[str, Any]:
        """What the file says, and what only the ledger knows."""
        if before is None:
            return instance_details(instance, self._flavor_ids)
        if before["kind"] != INSTANCE:
            raise BadInput(f"instance {instance.uuid}: the store knows it as a {before['kind']}", "give another uuid")
        kept = json.loads(before["details"] or "{}")
        rest = {name: value for name, value in kept.items() if name not in ("flavor_id", "image_props")}
        return rest | instance_details(instance, self._flavor_ids)

    def save_servers(self, chunk: Sequence[HostEntry]) -> set[str]:
        """The servers that were somewhere else before."""
        pairs = {(entry.pair, uuid): each for entry in chunk for uuid, each in entry.shared.instances.items()}
        known = _rows(self._connection, _KNOWN_OF_SERVERS, {uuid for _, uuid in pairs})
        new, changed = [], []
        for (pair, uuid), instance in pairs.items():
            before = known.get(uuid)
            if pair != self._home(uuid, before):
                continue
            row = server_row(instance, *pair)
            if before is None:
                new.append(row | {"created_at": self._now})
            elif any(before[name] != row[name] for name in before):
                changed.append({name: row[name] for name in before} | {"updated_at": self._now})
        check_rows(servers, (*new, *changed), _place)
        insert_rows(self._connection, servers, new)
        update_rows(self._connection, servers, ("uuid",), changed)
        return {row["uuid"] for row in changed}

    def _home(self, uuid: str, before: Row | None) -> Pair:
        """Where a server is. One that moves is on two nodes: it stays where it was known to be."""
        places = self._places[uuid]
        stored = (before["host"], before["node"]) if before else None
        if places.idle is None and stored in places.pairs:
            return stored
        return places.idle or places.pairs[0]


class _Places:
    """Where the file has an instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.pairs: list[Pair] = []
        self.idle: Pair | None = None
        """Where it holds nothing: only its server says that it is there."""

    def add(self, pair: Pair, instance: Instance, is_idle: bool) -> None:
        """One more."""
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
    """Instance -> where it is."""
    found: dict[str, _Places] = {}
    for entry in sorted((each for each in entries if each.shared.instances), key=lambda each: each.pair):
        for uuid, instance in entry.shared.instances.items():
            found.setdefault(uuid, _Places(instance)).add(entry.pair, instance, uuid not in entry.shared.held)
    return found


def _rows(connection: Connection, statement: Select[Any], uuids: Collection[str]) -> dict[str, Row]:
    """By uuid, which is the first column."""
    key = statement.selected_columns[0]
    return {row.uuid: dict(row._mapping) for row in rows_where(connection, statement, key, uuids)}


def _place(row: Row) -> str:
    return f"instance {row['uuid']:.60}"


def _others(held: Held, servers_there: set[str], known: Mapping[str, Row]) -> UnlistedUse:
    uses = [use_of(json.loads(known[who]["details"] or "{}"), amounts) for who, amounts in held.items()]
    instances = {who for who in held if known[who]["kind"] == INSTANCE} | servers_there
    memory_mb, disk_gb, vcpus = (sum(use[at] for use in uses) for at in range(3))
    return UnlistedUse(held, memory_mb, disk_gb, vcpus, len(instances))


# --- what nobody accounts for ------------------------------------------------------------------------


def save_unlisted(connection: Connection, wanted: Iterable[NodeState], now: datetime) -> None:
    """Make the consumers that stand for it, where they are missing."""
    uuids = {uuid for state in wanted if (uuid := unlisted_uuid(state.row["uuid"])) in state.held}
    known = _rows(connection, _KNOWN_OF_CONSUMERS, uuids)
    rows = [unlisted_row(uuid) | {"created_at": now} for uuid in sorted(uuids - known.keys())]
    insert_rows(connection, RAW_CONSUMERS, rows)


def drop_unlisted(connection: Connection, pairs: Pairs) -> None:
    """Delete those that stand for nothing any more."""
    uuids = [(unlisted_uuid(new.row["uuid"]), old, new) for old, new in pairs if old is not None]
    gone = [uuid for uuid, old, new in uuids if uuid in old.held and uuid not in new.held]
    delete_rows(connection, consumers, ("uuid",), [{"uuid": uuid} for uuid in gone])
