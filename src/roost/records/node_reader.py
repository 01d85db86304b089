# SPDX-License-Identifier: Apache-2.0
"""Reads nodes from the database as host records, in a fixed number of statements.

Other transactions may commit between the statements. Their changes are in the change log, so a replica reads these
nodes again: see `scheduler/replica.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, exists, func, select

from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.record import is_bare_metal
from roost.model.resources import INSTANCE, Amounts
from roost.records.aggregates import HostAggregates, aggregates_of_hosts, read_aggregates
from roost.records.catalogue import FlavorCatalogue
from roost.records.node_rows import (
    NO_DETAILS,
    NODE_COLUMNS,
    JsonCache,
    details_of_consumer,
    details_of_server,
    has_excess_disk,
    node_fields,
    undecoded,
    unparsed,
)
from roost.records.outages import HeartbeatRule
from roost.records.servers import PLACED_SERVERS
from roost.records.services import read_services
from roost.store.schema.fleet import allocations, compute_nodes, consumers, inventories, node_traits
from roost.store.schema.servers import servers
from roost.store.statements import read_rows


class StoredNode(NamedTuple):
    """A host record and the row id of its node."""

    id: int
    record: HostRecord


@dataclass
class ReadWarnings:
    """Hosts that were read and need an operator's attention."""

    without_service: list[str] = field(default_factory=list)
    """Hosts that have a node but no service; they are skipped."""
    with_more_disk: list[str] = field(default_factory=list)
    """Nodes whose disk_available_least exceeds their free disk."""


def read_nodes(
    connection: Connection,
    node_ids: Collection[int] | None = None,
    *,
    rule: HeartbeatRule,
    known: HostAggregates | None = None,
    notes: ReadWarnings | None = None,
    bare_metal: bool = False,
) -> Iterator[StoredNode]:
    """The nodes with these row ids, or all, as host records, ordered by row id; skips nodes without a service.

    `known`: the aggregates of each host, if the caller has them already. `notes`: collects what an operator should
    know. `bare_metal`: nodes of hypervisor type ironic are read as nova's IronicHostManager sees them: without
    instances, and without regard to disk_available_least.
    """
    wanted = select(*NODE_COLUMNS).order_by(compute_nodes.c.id)
    nodes = list(read_rows(connection, wanted, compute_nodes.c.id, node_ids))
    hosts = None if node_ids is None else {node.host for node in nodes}
    notes, texts = notes or ReadWarnings(), JsonCache()
    services = read_services(connection, hosts, rule)
    known = aggregates_of_hosts(read_aggregates(connection)) if known is None else known
    traits = _read_traits(connection, node_ids)
    amounts = _read_inventories(connection, node_ids)
    instances = _read_instances(connection, nodes, node_ids, hosts, texts)
    for node in nodes:
        if node.host not in services:
            notes.without_service.append(node.host)
            continue
        is_whole = bare_metal and is_bare_metal(node.hypervisor_type)
        fields = node_fields(node, texts, is_whole=is_whole)
        if not is_whole and has_excess_disk(node):
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


def _read_traits(connection: Connection, node_ids: Collection[int] | None) -> dict[int, frozenset[str]]:
    """Node id -> traits. Equal sets are one object."""
    found = defaultdict(list)
    for node_id, trait in read_rows(connection, select(node_traits), node_traits.c.node_id, node_ids):
        found[node_id].append(trait)
    shared: dict[frozenset[str], frozenset[str]] = {}
    sets = ((node_id, frozenset(names)) for node_id, names in found.items())
    return {node_id: shared.setdefault(names, names) for node_id, names in sets}


def _read_inventories(
    connection: Connection, node_ids: Collection[int] | None
) -> dict[int, tuple[dict[str, Inventory], dict[str, int]]]:
    """Node id -> inventories and used amounts, by resource class. Equal inventories are one object."""
    table = inventories.c
    amounts = table.total, table.reserved, table.allocation_ratio, table.min_unit, table.max_unit, table.step_size
    wanted = select(table.node_id, table.resource_class, table.used, *amounts)
    shared: dict[tuple[Any, ...], Inventory] = {}
    found: dict[int, tuple[dict[str, Inventory], dict[str, int]]] = {}
    for node_id, name, used, *fields in read_rows(connection, wanted, table.node_id, node_ids):
        pair = found.get(node_id)
        if pair is None:
            pair = found[node_id] = {}, {}
        key = tuple(fields)
        inventory = shared.get(key)
        if inventory is None:
            inventory = shared[key] = Inventory(*key)
        pair[0][name] = inventory
        pair[1][name] = used
    return found


# --- instances ---------------------------------------------------------------------------------------

AllocationsByNode = dict[int, dict[str, dict[str, int]]]
"""Node id -> consumer uuid -> resource class -> amount."""


def _read_instances(
    connection: Connection,
    nodes: Sequence[Any],
    node_ids: Collection[int] | None,
    hosts: Collection[str] | None,
    texts: JsonCache,
) -> dict[int, dict[str, Instance]]:
    """Node id -> uuid -> instance: instances with allocations on the node, and servers there without allocations."""
    allocated = _allocations_by_node(read_rows(connection, _SELECT_ALLOCATIONS, allocations.c.node_id, node_ids))
    uuids = None if node_ids is None else {uuid for each in allocated.values() for uuid in each}
    known = {row.uuid: row for row in read_rows(connection, INSTANCE_CONSUMERS, consumers.c.uuid, uuids)}
    catalogue = FlavorCatalogue(connection)
    found = {node_id: _make_instances(each, known, texts, catalogue) for node_id, each in allocated.items()}
    node_of = {(node.host, node.hypervisor_hostname): node.id for node in nodes}
    placed = PLACED_SERVERS.where(~_IS_ALLOCATED_THERE) if hosts is None else PLACED_SERVERS
    for row in read_rows(connection, placed, servers.c.host, hosts):
        node_id = node_of.get((row.host, row.node or row.host))
        if node_id is not None:
            found.setdefault(node_id, {}).setdefault(row.uuid, make_instance(row, {}, texts, catalogue))
    return found


_SELECT_ALLOCATIONS = select(
    allocations.c.node_id, allocations.c.consumer_uuid, allocations.c.resource_class, allocations.c.used
)
_SERVER_FLAVOR = case((consumers.c.details.is_(None), undecoded(servers.c.flavor))).label("flavor")
_CREATED_AT = unparsed(func.coalesce(servers.c.created_at, consumers.c.created_at))
INSTANCE_CONSUMERS = (
    select(consumers.c.uuid, consumers.c.project_id, undecoded(consumers.c.details), _SERVER_FLAVOR, _CREATED_AT)
    .join_from(consumers, servers, servers.c.uuid == consumers.c.uuid, isouter=True)
    .where(consumers.c.kind == INSTANCE)
)
"""Selects consumers that are instances, with the columns that `make_instance` needs."""
_IS_ALLOCATED_THERE = exists().where(
    allocations.c.consumer_uuid == servers.c.uuid,
    allocations.c.node_id == compute_nodes.c.id,
    compute_nodes.c.host == servers.c.host,
    compute_nodes.c.hypervisor_hostname == servers.c.node,
)
"""The server has an allocation on its node, so it is read as a consumer: true of most servers."""


def _allocations_by_node(rows: Iterable[Any]) -> AllocationsByNode:
    found: AllocationsByNode = defaultdict(lambda: defaultdict(dict))
    for node_id, uuid, name, used in rows:
        found[node_id][uuid][name] = used
    return found


def _make_instances(
    allocated: Mapping[str, dict[str, int]], known: Mapping[str, Any], texts: JsonCache, catalogue: FlavorCatalogue
) -> dict[str, Instance]:
    return {
        uuid: make_instance(known[uuid], amounts, texts, catalogue)
        for uuid, amounts in allocated.items()
        if uuid in known
    }


def make_instance(row: Any, amounts: Amounts, texts: JsonCache, catalogue: FlavorCatalogue | None = None) -> Instance:
    """An instance from the row of its consumer or server, with the amounts that are allocated to it.

    `catalogue`: where to find the flavor of an instance that was stored with the id of its flavor only.
    """
    known = texts.decode(row.details, details_of_consumer)
    if known is None:
        known = texts.decode(row.flavor, details_of_server) or NO_DETAILS
    flavor = known.flavor
    if flavor is None and catalogue is not None and known.flavor_id is not None:
        flavor = catalogue.find(known.flavor_id, amounts if known.is_claimed else {})
    return Instance(
        row.uuid,
        row.project_id,
        known.flavor_id,
        known.image_props,
        amounts,
        None,
        flavor,
        known.system_metadata,
        known.created_at,
        row.created_at,
    )
