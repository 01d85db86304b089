# SPDX-License-Identifier: Apache-2.0
"""The store as a fleet file: what is imported from it again is the same. Values that are the default are left out.

A migration in flight is no instance: what it holds shows in the use that the node reports. Of two images or groups of
the same name the second goes by its id, as names in a file are unique.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Table, select

from roost.fleet.reported_values import PERCENTAGES
from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.record import uuid_of
from roost.inventory.catalogue_rows import flavor_entry, group_entry, image_entry
from roost.inventory.node_reader import AGENT, StoredNode, read_aggregates, read_nodes
from roost.inventory.row_encoder import derived_uuid, topology_json
from roost.model import Aggregate
from roost.model.json_records import to_json
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.store.error_mapping import database_errors
from roost.store.schema import flavor_extra_specs, flavors, images, server_group_members, server_groups, services

Entry = dict[str, Any]

_PLAIN = (
    *("cell", "total_usable_ram_mb", "total_usable_disk_gb", "vcpus_total"),
    *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    *("failed_builds", "hypervisor_type", "hypervisor_version", "host_ip", "trust_level"),
)
"""Fields that are written as they are, unless they are the default."""
_RESERVED = {VCPU: "reserved_vcpus", MEMORY_MB: "reserved_ram_mb", DISK_GB: "reserved_disk_gb"}
_BARE = HostRecord("")


def export_fleet(engine: Engine, now: datetime) -> dict[str, Any]:
    """The fleet in the store, in the form of a fleet file; sections of which there is nothing are left out."""
    # Between the statements others may write; the picture is of one moment.
    settings = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with database_errors(engine), engine.connect().execution_options(**settings) as connection, connection.begin():
        agents = {row.host: row for row in connection.execute(select(services).where(services.c.binary == AGENT))}
        nodes = read_nodes(connection, now=now, service_down_time=0)
        ordered = sorted(nodes, key=lambda node: (node.record.host, node.record.nodename))
        hosts = {node.record.host for node in ordered}
        sections = {
            "hosts": [host_entry(node, agents[node.record.host], now) for node in ordered],
            "aggregates": [aggregate_entry(each, hosts) for each in read_aggregates(connection)],
            "flavors": list(_flavors(connection)),
            "images": list(_images(connection)),
            "server_groups": list(_groups(connection)),
        }
    return {name: entries for name, entries in sections.items() if entries}


# --- hosts -------------------------------------------------------------------------------------------


def host_entry(node: StoredNode, agent: Any, now: datetime) -> Entry:
    """One node. `agent` is the row of its host's service."""
    record = node.record
    entry: Entry = {"host": record.host}
    if record.nodename != record.host:
        entry["node"] = record.nodename
    if record.uuid != uuid_of(record.host, record.nodename):
        entry["uuid"] = record.uuid
    entry |= {name: getattr(record, name) for name in _PLAIN if getattr(record, name) != getattr(_BARE, name)}
    return entry | _amounts(record) | _parts(record) | _service(agent, now)


def _amounts(record: HostRecord) -> Entry:
    """What is free, used and counted, where it does not follow from the rest."""
    silent = dataclasses.replace(
        record, free_ram_mb=None, free_disk_mb=None, vcpus_used=None, num_instances=None, num_io_ops=None
    )
    found = {
        "vcpus_used": (record.vcpus_taken, silent.vcpus_taken),
        "free_ram_mb": (record.ram_mb_left, silent.ram_mb_left),
        "free_disk_mb": (record.disk_mb_left, silent.disk_mb_left),
        "num_instances": tuple(
            each.counted("num_instances", "num_instances", len(record.instances)) for each in (record, silent)
        ),
        "num_io_ops": tuple(each.counted("num_io_ops", "io_workload") for each in (record, silent)),
    }
    entry = {name: said for name, (said, follows) in found.items() if said != follows}
    usual = dataclasses.replace(record, resources={}).inventories
    resources = {}
    for name, inventory in record.inventories.items():
        if name in usual and inventory == dataclasses.replace(usual[name], reserved=inventory.reserved):
            entry |= {_RESERVED[name]: inventory.reserved} if inventory.reserved else {}
        else:
            resources[name] = _without_defaults(inventory)
    return entry | ({"resources": resources} if resources else {})


def _without_defaults(inventory: Inventory) -> Entry:
    bare = Inventory(inventory.total)
    fields = dataclasses.asdict(inventory)
    return {name: value for name, value in fields.items() if name == "total" or value != getattr(bare, name)}


def _parts(record: HostRecord) -> Entry:
    """Lists and mappings; those that are empty are left out."""
    found = {
        "traits": sorted(record.traits),
        "supported_instances": to_json(record.supported_instances),
        "cpu_info": to_json(record.cpu_info),
        "cpu_info_is_dict": isinstance(record.cpu_info, Mapping),
        "stats": to_json(record.stats),
        "metrics": [_as_reported(each) for each in record.metrics or ()],
        "pci_pools": [_pool(pool.to_dict()) for pool in record.pci_pools],
        "numa": topology_json(record.numa),
        "instances": [_instance(each) for each in sorted(record.instances, key=lambda each: each.uuid)],
    }
    entry = {name: value for name, value in found.items() if value}
    if record.cpu_info is not None:  # an empty text is not the same as none
        entry["cpu_info"] = found["cpu_info"]
    if record.metrics is None:
        entry["metrics"] = None
    if record.allocation_candidates != _BARE.allocation_candidates:
        entry["allocation_candidates"] = to_json(record.allocation_candidates)
    return entry


def _as_reported(metric: Mapping[str, Any]) -> Entry:
    """Percentages are counted in hundredths, and reported as fractions: one that is counted as the same number."""
    if metric["name"] not in PERCENTAGES:
        return dict(metric)
    value = metric["value"]
    fraction = value / 100
    if int(fraction * 100) != value:  # 29 / 100 * 100 is less than 29
        fraction = (value + (0.5 if value > 0 else -0.5)) / 100
    return {**metric, "value": fraction}


def _pool(pool: Entry) -> Entry:
    return {name: value for name, value in pool.items() if value is not None}


def _instance(instance: Instance) -> str | Entry:
    fields = {
        "project_id": instance.project_id,
        "flavor_id": instance.flavor_id,
        "image_props": dict(instance.image_props) or None,
        "resources": dict(sorted(instance.resources.items())) or None,
    }
    said = {name: value for name, value in fields.items() if value is not None}
    return {"uuid": instance.uuid} | said if said else instance.uuid


def _service(agent: Any, now: datetime) -> Entry:
    fields = {
        "disabled": agent.disabled or None,
        "disabled_reason": agent.disabled_reason,
        "forced_down": agent.forced_down or None,
    }
    said = {name: value for name, value in fields.items() if value is not None}
    if not agent.is_static:
        last = agent.last_seen_up or agent.created_at
        said |= {"up": False} if last is None else {"seconds_since_seen": (now - last).total_seconds()}
    return {"service": said} if said else {}


# --- the rest ----------------------------------------------------------------------------------------


def aggregate_entry(aggregate: Aggregate, there: Collection[str]) -> Entry:
    """One aggregate with those of its hosts that are there; its number is the store's own affair."""
    entry: Entry = {"name": aggregate.name}
    if aggregate.uuid != derived_uuid("aggregate", aggregate.name):
        entry["uuid"] = aggregate.uuid
    metadata = {"metadata": dict(sorted(aggregate.metadata.items()))} if aggregate.metadata else {}
    hosts = sorted(host for host in aggregate.hosts if host in there)
    return entry | metadata | ({"hosts": hosts} if hosts else {})


def _flavors(connection: Connection) -> Iterator[Entry]:
    specs: dict[int, dict[str, str]] = defaultdict(dict)
    for number, key, value in connection.execute(select(flavor_extra_specs).order_by(flavor_extra_specs.c.key)):
        specs[number][key] = value
    for row in _rows(connection, flavors):
        yield flavor_entry(row, specs[row["id"]])


def _images(connection: Connection) -> Iterator[Entry]:
    for row in _with_names_once(_rows(connection, images)):
        yield image_entry(row, row["id"] != derived_uuid("image", row["name"]))


def _groups(connection: Connection) -> Iterator[Entry]:
    members: dict[int, list[str]] = defaultdict(list)
    table = server_group_members
    for number, uuid in connection.execute(
        select(table.c.group_id, table.c.server_uuid).order_by(table.c.server_uuid)
    ):
        members[number].append(uuid)
    for row in _with_names_once(_rows(connection, server_groups)):
        yield group_entry(row, members[row["id"]], row["uuid"] != derived_uuid("server group", row["name"]))


def _rows(connection: Connection, table: Table) -> Iterator[Entry]:
    for row in connection.execute(select(table).order_by(table.c.id)):
        yield dict(row._mapping)


def _with_names_once(rows: Iterable[Entry]) -> Iterator[Entry]:
    seen: set[str] = set()
    for row in rows:
        yield row | ({"name": ""} if row["name"] in seen else {})
        seen.add(row["name"])
