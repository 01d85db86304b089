# SPDX-License-Identifier: Apache-2.0
"""Hosts from the database: a handful of statements, however many they are.

Between the statements others may commit. What they changed is in `changes` after that, and read again: see
`scheduler/replica/host_manager.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, exists, select

from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.record import is_bare_metal
from roost.inventory.aggregates import HostAggregates, aggregates_of_hosts, read_aggregates
from roost.inventory.row_decoder import (
    NODE_COLUMNS,
    JsonCache,
    as_text,
    has_more_disk_than_booked,
    node_fields,
    plain,
)
from roost.inventory.servers import PLACED_SERVERS
from roost.inventory.services import read_services
from roost.model.consumers import INSTANCE
from roost.store.bulk import rows_where
from roost.store.schema import allocations, compute_nodes, consumers, inventories, node_traits, servers


class StoredNode(NamedTuple):
    """A host record and the number of its node's row."""

    id: int
    record: HostRecord


@dataclass
class ReadWarnings:
    """Hosts that were read and need an operator's attention."""

    without_service: list[str] = field(default_factory=list)
    """Hosts that have a node and no service: they are left out."""
    with_more_disk: list[str] = field(default_factory=list)
    """Nodes that have more disk than is booked as free."""


def read_nodes(
    connection: Connection,
    node_ids: Collection[int] | None = None,
    *,
    now: datetime,
    service_down_time: float,
    known: HostAggregates | None = None,
    notes: ReadWarnings | None = None,
    bare_metal: bool = False,
) -> Iterator[StoredNode]:
    """Nodes as host records, in the order of their numbers: these, or all. One without a service is left out.

    `known`: the aggregates of each host, where the caller has them. `bare_metal`: nodes of hypervisor type ironic as
    nova's host manager for them sees them: without instances, and without regard to disk_available_least.
    """
    wanted = select(*NODE_COLUMNS).order_by(compute_nodes.c.id)
    nodes = list(rows_where(connection, wanted, compute_nodes.c.id, node_ids))
    hosts = None if node_ids is None else {node.host for node in nodes}
    notes, texts = notes or ReadWarnings(), JsonCache()
    services = read_services(connection, hosts, now, service_down_time)
    known = aggregates_of_hosts(read_aggregates(connection)) if known is None else known
    traits = _traits(connection, node_ids)
    amounts = _inventories(connection, node_ids)
    instances = _instances(connection, nodes, node_ids, hosts, texts)
    for node in nodes:
        if node.host not in services:
            notes.without_service.append(node.host)
            continue
        is_whole = bare_metal and is_bare_metal(node.hypervisor_type)
        fields = node_fields(node, texts, is_whole=is_whole)
        if not is_whole and has_more_disk_than_booked(node):
            notes.with_more_disk.append(node.hypervisor_hostname)
        if node.free_disk_gb is not None:
            fields["resources"], fields["allocations"] = amounts.get(node.id, ({}, {}))
        record = HostRecord(
            **fields,
            service=services[node.host],
            aggregates=known.get(node.host, ()),
            traits=traits.get(node.id, frozenset()),
            instances=() if is_whole else tuple(instances.get(node.id, {}).values()),
        )
        yield StoredNode(node.id, record)


def _traits(connection: Connection, node_ids: Collection[int] | None) -> dict[int, frozenset[str]]:
    found = defaultdict(list)
    for node_id, trait in rows_where(connection, select(node_traits), node_traits.c.node_id, node_ids):
        found[node_id].append(trait)
    shared: dict[frozenset[str], frozenset[str]] = {}
    sets = ((node_id, frozenset(names)) for node_id, names in found.items())
    return {node_id: shared.setdefault(names, names) for node_id, names in sets}


def _inventories(
    connection: Connection, node_ids: Collection[int] | None
) -> dict[int, tuple[dict[str, Inventory], dict[str, int]]]:
    """Node -> class -> how much there is, and class -> how much is used. Equal inventories are one object."""
    table = inventories.c
    amounts = table.total, table.reserved, table.allocation_ratio, table.min_unit, table.max_unit, table.step_size
    wanted = select(table.node_id, table.resource_class, table.used, *amounts)
    shared: dict[tuple[Any, ...], Inventory] = {}
    found: dict[int, tuple[dict[str, Inventory], dict[str, int]]] = {}
    for node_id, name, used, *there_are in rows_where(connection, wanted, table.node_id, node_ids):
        pair = found.get(node_id)
        if pair is None:
            pair = found[node_id] = {}, {}
        key = tuple(there_are)
        inventory = shared.get(key)
        if inventory is None:
            inventory = shared[key] = Inventory(*key)
        pair[0][name] = inventory
        pair[1][name] = used
    return found


# --- instances ---------------------------------------------------------------------------------------

HoldingsByNode = dict[int, dict[str, dict[str, int]]]
"""Node -> consumer -> resource class -> amount."""


def _instances(
    connection: Connection,
    nodes: Sequence[Any],
    node_ids: Collection[int] | None,
    hosts: Collection[str] | None,
    texts: JsonCache,
) -> dict[int, dict[str, Instance]]:
    """Node -> uuid -> instance: all that hold something there, and servers that are there and hold nothing."""
    held = _held(rows_where(connection, _ALLOCATIONS, allocations.c.node_id, node_ids))
    uuids = None if node_ids is None else {uuid for each in held.values() for uuid in each}
    known = {row.uuid: row for row in rows_where(connection, INSTANCE_CONSUMERS, consumers.c.uuid, uuids)}
    found = {node_id: _instances_of(each, known, texts) for node_id, each in held.items()}
    node_of = {(node.host, node.hypervisor_hostname): node.id for node in nodes}
    placed = PLACED_SERVERS.where(~_HOLDS_SOMETHING_THERE) if hosts is None else PLACED_SERVERS
    for row in rows_where(connection, placed, servers.c.host, hosts):
        node_id = node_of.get((row.host, row.node or row.host))
        if node_id is not None:
            found.setdefault(node_id, {}).setdefault(row.uuid, make_instance(row, {}, texts))
    return found


_ALLOCATIONS = select(
    allocations.c.node_id, allocations.c.consumer_uuid, allocations.c.resource_class, allocations.c.used
)
_FLAVOR = case((consumers.c.details.is_(None), as_text(servers.c.flavor))).label("flavor")
INSTANCE_CONSUMERS = (
    select(consumers.c.uuid, consumers.c.project_id, as_text(consumers.c.details), _FLAVOR)
    .join_from(consumers, servers, servers.c.uuid == consumers.c.uuid, isouter=True)
    .where(consumers.c.kind == INSTANCE)
)
"""Consumers that are instances, as `make_instance` takes them."""
_HOLDS_SOMETHING_THERE = exists().where(
    allocations.c.consumer_uuid == servers.c.uuid,
    allocations.c.node_id == compute_nodes.c.id,
    compute_nodes.c.host == servers.c.host,
    compute_nodes.c.hypervisor_hostname == servers.c.node,
)
"""True of most servers: they are read as consumers already, and need not be read twice."""


def _held(rows: Iterable[Any]) -> HoldingsByNode:
    held: HoldingsByNode = defaultdict(lambda: defaultdict(dict))
    for node_id, uuid, name, used in rows:
        held[node_id][uuid][name] = used
    return held


def _instances_of(
    held: Mapping[str, dict[str, int]], known: Mapping[str, Any], texts: JsonCache
) -> dict[str, Instance]:
    return {uuid: make_instance(known[uuid], amounts, texts) for uuid, amounts in held.items() if uuid in known}


def make_instance(row: Any, amounts: Mapping[str, int], texts: JsonCache) -> Instance:
    """An instance from the row of its consumer or of its server, with what it holds."""
    details = texts.decode(row.details, plain)
    if details is None:
        flavor = texts.decode(row.flavor, plain) or {}
        return Instance(row.uuid, row.project_id, flavor.get("id"), resources=amounts)
    given = {"image_props": details["image_props"]} if details.get("image_props") else {}
    return Instance(row.uuid, row.project_id, details.get("flavor_id"), resources=amounts, **given)
