# SPDX-License-Identifier: Apache-2.0
"""Imports a fleet into the database, in one transaction; only differences are written.

| in the file | in the database |
| --- | --- |
| a new host | inserted with its service, traits, inventories and instances |
| a stored host, matched by (host, node) | updated where it differs |
| an instance | allocated on the nodes that the file has it on, and on no other node of the file; also a server |
| an instance without resources on any node | keeps its allocations; what the file reports counts it |
| a migration | allocated likewise; its use is part of what the file reports |
| not in the file: a consumer on a node of the file, from a claim | stays; its use is added to what the file reports |
| not in the file: a host, flavor, image, group or aggregate | stays unchanged |
| options | not stored: they belong into a configuration file |

The ledger (`roost.ledger`) owns `consumers`; an import writes them under the locks of the nodes they are on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine

from roost.errors import BadInput
from roost.hosts import Instance
from roost.hosts.instances import flavors_by_key
from roost.model import Service
from roost.model.resources import INSTANCE, MIGRATION, move_of
from roost.model.uuids import canonical_uuid
from roost.records.aggregates import aggregate_changes, check_aggregate_hosts, gather_aggregates, save_aggregates
from roost.records.catalogue import save_flavors, save_groups, save_images
from roost.records.fleet_export import NO_OTHER_USE, OtherUse, sum_use
from roost.records.import_summary import ImportCounts, ImportSummary
from roost.records.node_rows import (
    DETAILS_OF_FILE,
    HostEntry,
    SharedRows,
    consumer_row,
    entries_of,
    instance_details,
    migration_row,
    server_row,
    unlisted_row,
    unlisted_uuid,
    uuid_of_node,
)
from roost.records.node_writer import (
    LockedNodes,
    NodeAllocations,
    NodeKey,
    NodeNames,
    SavedNodes,
    WantedNode,
    check_uuid,
    lock_nodes,
    read_node_keys,
    save_nodes,
    space_columns,
    unchanged_space,
)
from roost.records.servers import find_servers_on, read_servers, save_servers
from roost.records.services import save_services
from roost.sources.documents import gc_paused
from roost.sources.fleet_file import Fleet
from roost.store.change_log import NODES, SERVERS, USAGE, Change, record_changes, usage_key
from roost.store.reconcile import Reconciler, RowKey
from roost.store.schema.fleet import consumers
from roost.store.statements import Row, delete_rows, in_chunks
from roost.store.store_clock import PresentTime, read_time
from roost.store.transactions import writing

HOSTS_PER_CHUNK = 1000
"""Hosts that are locked, compared and written by one round of statements."""
OPTIONS_NOTE = "the options of the file are not stored: put them into a configuration file"


def import_fleet(
    engine: Engine,
    fleet: Fleet,
    now: PresentTime,
    progress: Callable[[int], None] | None = None,
    is_dry_run: bool = False,
) -> ImportSummary:
    """Import the fleet: what was new and changed. A dry run executes everything and rolls it back.

    The fleet must have been loaded with its records (`Fleet.load(..., keeps_records=True)`). `progress` is called
    with the number of hosts saved since its last call.
    """
    if len(fleet.table) and not fleet.runs:
        raise ValueError("the fleet has no records: load it with keeps_records=True")
    entries = entries_of(fleet.runs)
    services = _services_of(entries)
    wanted_aggregates = gather_aggregates(fleet.table.known_aggregates, fleet.runs)
    with writing(engine, is_dry_run) as connection:
        now = read_time(now, connection)
        groups = save_groups(connection, fleet.server_groups, now)
        flavors = save_flavors(connection, fleet.flavors, now)
        images = save_images(connection, fleet.images, now)
        known = read_node_keys(connection)
        check_aggregate_hosts(wanted_aggregates, services.keys(), dict.fromkeys(host for host, _ in known))
        names = {id(each): name for name, each in fleet.flavors.items()}
        flavor_ids = {key: flavors.ids[names[id(each)]] for key, each in flavors_by_key(fleet.flavors).items()}
        hosts = HostImport(connection, entries, known, flavor_ids, now)
        for chunk in in_chunks(hosts.entries_in_lock_order(), HOSTS_PER_CHUNK):
            with gc_paused():  # tens of thousands of rows without reference cycles
                hosts.save(chunk)
            if progress:
                progress(len(chunk))
        service_changes = save_services(connection, services, now)
        aggregates = save_aggregates(connection, wanted_aggregates, now, services.keys())
        record_changes(connection, [*hosts.changes, *service_changes, *aggregate_changes(aggregates)])
    hosts.mark_changed(change.key for change in service_changes)
    left_alone = len(known.keys() - {entry.names for entry in entries})
    sections = (aggregates.counts, flavors.counts, images.counts, groups.counts)
    return ImportSummary(hosts.counts, *sections, left_alone, (OPTIONS_NOTE,) if fleet.options else ())


def _services_of(entries: list[HostEntry]) -> dict[str, Service]:
    """Host -> its service. BadInput if the nodes of a host describe it differently."""
    found: dict[str, Service] = {}
    for entry in entries:
        service = entry.record.service
        if found.setdefault(entry.host, service) != service:
            problem = f"host {entry.host}: its nodes say different things of its service"
            raise BadInput(problem, "a host has one service: give all of its nodes the same")
    return found


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
