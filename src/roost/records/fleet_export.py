# SPDX-License-Identifier: Apache-2.0
"""Exports the database as a fleet file, which imports to the same fleet, or as a snapshot with options and servers.

Default values are left out. A migration in progress is not an instance: what it holds is listed under `migrations`,
and part of the use that the node reports. Schedulers need no migrations, an export does. `OtherUse` is use that the
file does not give: of consumers that it does not list, or lists without resources. Of two images or groups with the
same name the second is identified by its id, because names in a file are unique.

A snapshot (`take_snapshot`) has everything as one transaction sees it.
"""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, select

from roost.hosts import HostRecord, Instance, Inventory, MigrationHolding
from roost.hosts.guests import topology_json
from roost.hosts.record import PERCENTAGES, default_node_uuid, is_bare_metal
from roost.model import Flavor
from roost.model.json_records import to_json
from roost.model.resources import DISK_GB, MEMORY_MB, MIGRATION, UNLISTED, VCPU, move_of, use_on
from roost.options.files import Sections
from roost.records.aggregates import read_aggregate_entries
from roost.records.catalogue import Entry, read_flavor_entries, read_group_entries, read_image_entries
from roost.records.decisions import read_latest_options
from roost.records.node_reader import read_nodes
from roost.records.node_writer import NodeAllocations
from roost.records.outages import HeartbeatRule
from roost.records.server_views import describe_fully, read_server_records
from roost.records.services import read_service_entries
from roost.sources.documents import gc_paused
from roost.sources.snapshot import Snapshot
from roost.store.reconcile import KeyedRows
from roost.store.schema.fleet import allocations, consumers
from roost.store.schema.servers import migrations
from roost.store.statements import Row
from roost.store.store_clock import PresentTime, StoreClock, read_time
from roost.store.transactions import reading

_COPIED_FIELDS = (
    *("cell", "total_usable_ram_mb", "total_usable_disk_gb", "vcpus_total"),
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    *("failed_builds", "hypervisor_type", "hypervisor_version", "host_ip", "trust_level"),
)
"""Fields of a host record that are exported unchanged, unless they are the default."""
_RESERVED = {VCPU: "reserved_vcpus", MEMORY_MB: "reserved_ram_mb", DISK_GB: "reserved_disk_gb"}
_DEFAULT_RECORD = HostRecord("")


def export_fleet(engine: Engine, now: PresentTime) -> Entry:
    """The fleet in the database, in the form of a fleet file; empty sections are left out."""
    with reading(engine) as connection:
        return read_fleet_document(connection, read_time(now, connection))


def read_fleet_document(connection: Connection, now: datetime) -> Entry:
    """The fleet that a transaction sees, in the form of a fleet file; empty sections are left out."""
    services = read_service_entries(connection, now)
    nodes = list(read_nodes(connection, rule=HeartbeatRule(now, 0)))
    moving = read_migrations(connection, (each.uuid for node in nodes for each in node.record.instances))
    records = [dataclasses.replace(node.record, migrations=tuple(moving.get(node.id, ()))) for node in nodes]
    hosts = {record.host for record in records}
    return fleet_document(
        records,
        services,
        aggregates=read_aggregate_entries(connection, hosts),
        flavors=list(read_flavor_entries(connection)),
        images=list(read_image_entries(connection)),
        server_groups=list(read_group_entries(connection)),
    )


def fleet_document(
    records: Iterable[HostRecord],
    services: Mapping[str, Entry],
    *,
    aggregates: Sequence[Entry] = (),
    flavors: Sequence[Entry] = (),
    images: Sequence[Entry] = (),
    server_groups: Sequence[Entry] = (),
) -> Entry:
    """The form of a fleet file, from host records and the entries of the other sections; empty ones are left out.

    `services`: host -> the entry of its service; empty if all its values are the default.
    """
    catalogue = {each.get("id"): _flavor_details(Flavor(**each)) for each in flavors}
    ordered = sorted(records, key=lambda record: (record.host, record.nodename))
    sections = {
        "hosts": [host_entry(record, services[record.host], catalogue) for record in ordered],
        "aggregates": list(aggregates),
        "flavors": list(flavors),
        "images": list(images),
        "server_groups": list(server_groups),
    }
    return {name: entries for name, entries in sections.items() if entries}


def host_entry(record: HostRecord, service: Entry, flavors: Mapping[Any, Entry]) -> Entry:
    """A node as an entry of a fleet file. `service`: the entry of its host's service; empty if all is default.

    `flavors`: id -> details of the flavors in the file. An instance that has another flavor is exported with it.
    """
    entry: Entry = {"host": record.host}
    if record.nodename != record.host:
        entry["node"] = record.nodename
    if record.uuid != default_node_uuid(record.host, record.nodename):
        entry["uuid"] = record.uuid
    entry |= {
        name: value for name in _COPIED_FIELDS if (value := getattr(record, name)) != getattr(_DEFAULT_RECORD, name)
    }
    entry |= _amount_fields(record) | _collection_fields(record)
    instances = [_instance_entry(each, flavors) for each in sorted(record.instances, key=lambda each: each.uuid)]
    migrations = [_migration_entry(each) for each in sorted(record.migrations, key=lambda each: each.uuid)]
    lists = {"instances": instances, "migrations": migrations, "service": service}
    return entry | {name: value for name, value in lists.items() if value}


def _amount_fields(record: HostRecord) -> Entry:
    """Free, used and counted amounts that cannot be derived from other fields, and resources."""
    derived = dataclasses.replace(
        record, free_ram_mb=None, free_disk_mb=None, vcpus_used=None, num_instances=None, num_io_ops=None
    )
    found = {
        "vcpus_used": (record.vcpus_taken, derived.vcpus_taken),
        "free_ram_mb": (record.ram_mb_left, derived.ram_mb_left),
        "free_disk_mb": (record.disk_mb_left, derived.disk_mb_left),
        "disk_mb_used": (record.disk_mb_taken, dataclasses.replace(record, disk_mb_used=None).disk_mb_taken),
        "num_instances": (record.instance_count, derived.instance_count),
        "num_io_ops": tuple(each.counter("num_io_ops", "io_workload") for each in (record, derived)),
    }
    entry: Entry = {name: reported for name, (reported, derivable) in found.items() if reported != derivable}
    usual = dataclasses.replace(record, resources={}).inventories
    resources = {}
    for name, inventory in record.inventories.items():
        if name in usual and inventory == dataclasses.replace(usual[name], reserved=inventory.reserved):
            entry |= {_RESERVED[name]: inventory.reserved} if inventory.reserved else {}
        else:
            resources[name] = _without_defaults(inventory)
    reserved: dict[str, Any] = {name: entry.get(name, 0) for name in _RESERVED.values()}
    if record.allocated != dataclasses.replace(record, allocations=None, **reserved).allocated:
        entry["allocations"] = {name: amount for name, amount in sorted(record.allocated.items()) if amount}
    return entry | ({"resources": resources} if resources else {})


def _without_defaults(inventory: Inventory) -> Entry:
    defaults = Inventory(inventory.total)
    fields = dataclasses.asdict(inventory)
    return {name: value for name, value in fields.items() if name == "total" or value != getattr(defaults, name)}


def _collection_fields(record: HostRecord) -> Entry:
    """Lists and mappings that are not empty."""
    found = {
        "traits": sorted(record.traits),
        "supported_instances": to_json(record.supported_instances),
        "cpu_info": to_json(record.cpu_info),
        "cpu_info_is_dict": isinstance(record.cpu_info, Mapping),
        "stats": to_json(record.stats),
        "metrics": [_metric_entry(each) for each in record.metrics or ()],
        "pci_pools": [_pool_entry(pool.to_dict()) for pool in record.pci_pools],
        "numa": topology_json(record.numa),
    }
    entry = {name: value for name, value in found.items() if value}
    if record.cpu_info is not None:  # an empty text differs from none
        entry["cpu_info"] = found["cpu_info"]
    if record.metrics is None:
        entry["metrics"] = None
    if record.allocation_candidates != _DEFAULT_RECORD.allocation_candidates:
        entry["allocation_candidates"] = to_json(record.allocation_candidates)
    return entry


def _metric_entry(metric: Mapping[str, Any]) -> Entry:
    """A metric as an agent reports it: a percentage, stored in hundredths, as a fraction that imports to the same."""
    if metric["name"] not in PERCENTAGES:
        return dict(metric)
    value = metric["value"]
    fraction = value / 100
    if int(fraction * 100) != value:  # 29 / 100 * 100 is less than 29
        fraction = (value + (0.5 if value > 0 else -0.5)) / 100
    return {**metric, "value": fraction}


def _pool_entry(pool: Entry) -> Entry:
    return {name: value for name, value in pool.items() if value is not None}


def _flavor_details(flavor: Flavor) -> Entry:
    """The stored form of a flavor; a flavorid that is not given is the name, as in the database."""
    return {"flavorid": flavor.name} | flavor.to_details()


def _instance_entry(instance: Instance, flavors: Mapping[Any, Entry]) -> str | Entry:
    """An instance as an entry of a fleet file; its uuid alone if nothing else is known of it."""
    flavor = instance.flavor
    is_listed = flavor is None or _flavor_details(flavor) == flavors.get(instance.flavor_id)
    fields = {
        "project_id": instance.project_id,
        "flavor_id": instance.flavor_id,
        "flavor": None if flavor is None or is_listed else {"vcpus": 0, "memory_mb": 0} | flavor.to_details(),
        "image_props": dict(instance.image_props) or None,
        "resources": dict(sorted(instance.resources.items())) or None,
        "system_metadata": dict(instance.system_metadata) or None,
        "created_at": instance.created_at.isoformat() if instance.created_at else None,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return {"uuid": instance.uuid} | known if known else instance.uuid


def _migration_entry(migration: MigrationHolding) -> Entry:
    instance = {} if migration.instance is None else {"instance": migration.instance}
    return {"uuid": migration.uuid, **instance, "resources": dict(sorted(migration.resources.items()))}


def read_migrations(connection: Connection, instance_uuids: Iterable[str]) -> dict[int, list[MigrationHolding]]:
    """Node id -> what migrations hold of it; a node without migrations is left out.

    `instance_uuids`: all known instances, by which the instance of a migration is found.
    """
    table = allocations.c
    query = (
        select(table.node_id, table.consumer_uuid, table.resource_class, table.used)
        .join(consumers, consumers.c.uuid == table.consumer_uuid)
        .where(consumers.c.kind == MIGRATION)
    )
    held: dict[tuple[int, str], dict[str, int]] = defaultdict(dict)
    for node_id, uuid, name, used in connection.execute(query):
        held[node_id, uuid][name] = used
    instance_of = _find_instances(connection, instance_uuids) if held else {}
    found: dict[int, list[MigrationHolding]] = defaultdict(list)
    for (node_id, uuid), amounts in held.items():
        found[node_id].append(MigrationHolding(uuid, amounts, instance_of.get(uuid)))
    return dict(found)


def _find_instances(connection: Connection, instance_uuids: Iterable[str]) -> dict[str, str]:
    """Uuid of a migration -> that of its instance."""
    recorded = connection.execute(select(migrations.c.uuid, migrations.c.server_uuid))
    return {row.uuid: row.server_uuid for row in recorded} | {move_of(uuid): uuid for uuid in instance_uuids}


@dataclass(frozen=True)
class OtherUse:
    """Use of a node by consumers of which the ledger has the amounts, and the file does not."""

    allocations: NodeAllocations = field(default_factory=dict)
    memory_mb: int = 0
    """Used memory as nova counts it."""
    disk_gb: int = 0
    vcpus: int = 0
    instances: int = 0
    """How many of the consumers are instances or migrations; servers without allocations count too."""

    def add_to(self, row: Row) -> Row:
        """A node's row with this use added to what the file reports. A bare-metal node is then used whole."""
        if self == NO_OTHER_USE:
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

    def unreported(self, record: HostRecord) -> OtherUse:
        """Of listed instances: the use that figures of the record do not count, because it does not report them."""
        if not self.allocations:
            return self
        return replace(
            self,
            memory_mb=self.memory_mb if record.free_ram_mb is None else 0,
            disk_gb=self.disk_gb if record.free_disk_mb is None else 0,
            vcpus=self.vcpus if record.vcpus_used is None else 0,
            instances=0,
        )

    def subtract_from(self, amounts: dict[str, int]) -> dict[str, int]:
        """Amounts per resource class, without what these consumers have of them; nothing falls below 0."""
        if not self.allocations:
            return amounts
        own = {name: sum(each.get(name, 0) for each in self.allocations.values()) for name in amounts}
        return {name: amount - own[name] for name, amount in amounts.items() if amount > own[name]}


NO_OTHER_USE = OtherUse()


def sum_use(node_id: int, allocated: NodeAllocations, server_uuids: set[str], known: KeyedRows) -> OtherUse:
    """The use of these consumers. `server_uuids`: servers on the node; `known`: rows of the consumers, by uuid."""
    details = {uuid: json.loads(known[uuid,]["details"] or "{}") for uuid in allocated}
    uses = [use_on(details[uuid], node_id, amounts) for uuid, amounts in allocated.items()]
    # The ledger counts a migration as it counts an instance; the server on the source of a move is not another one.
    leaving = {uuid for uuid in server_uuids if move_of(uuid) in allocated}
    instances = {uuid for uuid in allocated if known[uuid,]["kind"] != UNLISTED} | server_uuids - leaving
    memory_mb, disk_gb, vcpus = (sum(use[at] for use in uses) for at in range(3))
    return OtherUse(allocated, memory_mb, disk_gb, vcpus, len(instances))


def take_snapshot(engine: Engine, times: StoreClock, configured: Sections) -> Snapshot:
    """The cloud in this database at this moment.

    `configured`: the options by which a scheduler decides, where none has recorded those that it has.
    """
    with gc_paused():
        with reading(engine) as connection:
            now = times.read(connection)
            fleet, options = read_fleet_document(connection, now), read_latest_options(connection) or configured
            found = read_server_records(connection)
        servers = [
            describe_fully(each, found.faults.get(each.uuid), found.migrations.get(each.uuid, ()))
            for each in found.servers
        ]
        return Snapshot(now, options, fleet, servers, source="the live cloud")
