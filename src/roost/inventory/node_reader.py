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

from roost.fleet.aggregate_entries import by_host
from roost.hosts import HostRecord, Instance, Inventory
from roost.hosts.record import is_bare_metal
from roost.inventory.row_decoder import (
    NODE_COLUMNS,
    InternedValues,
    JsonCache,
    as_text,
    has_more_disk_than_booked,
    node_fields,
    plain,
)
from roost.model import Aggregate
from roost.model.consumers import INSTANCE
from roost.store.bulk import rows_where
from roost.store.schema import (
    aggregate_hosts,
    aggregate_metadata,
    aggregates,
    allocations,
    compute_nodes,
    consumers,
    inventories,
    node_traits,
    servers,
    services,
)

AGENT = "nova-compute"
"""The service that a host has."""

HostAggregates = Mapping[str, tuple[Aggregate, ...]]
"""Host -> the aggregates it is in."""


class StoredNode(NamedTuple):
    """A host and the number of its row."""

    id: int
    record: HostRecord


@dataclass
class ReadWarnings:
    """What is worth a word about hosts that were read."""

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
    nova's host manager for them sees them: nobody is known to be there, and disk_available_least does not count.
    """
    nodes = list(
        rows_where(connection, select(*NODE_COLUMNS).order_by(compute_nodes.c.id), compute_nodes.c.id, node_ids)
    )
    hosts = None if node_ids is None else {node.host for node in nodes}
    notes, texts, shared = notes or ReadWarnings(), JsonCache(), InternedValues()
    agents = {row.host: row for row in rows_where(connection, AGENTS, services.c.host, hosts)}
    known = aggregates_of_hosts(read_aggregates(connection)) if known is None else known
    traits = _traits(connection, node_ids)
    amounts = _inventories(connection, node_ids, shared)
    instances = _instances(connection, nodes, node_ids, hosts, texts)
    for node in nodes:
        if node.host not in agents:
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
            service=shared.service(agents[node.host], now, service_down_time),
            aggregates=known.get(node.host, ()),
            traits=traits.get(node.id, frozenset()),
            instances=() if is_whole else tuple(instances.get(node.id, {}).values()),
        )
        yield StoredNode(node.id, record)


AGENTS = select(services).where(services.c.binary == AGENT)


def _traits(connection: Connection, node_ids: Collection[int] | None) -> dict[int, frozenset[str]]:
    found = defaultdict(list)
    for node_id, trait in rows_where(connection, select(node_traits), node_traits.c.node_id, node_ids):
        found[node_id].append(trait)
    shared: dict[frozenset[str], frozenset[str]] = {}
    sets = ((node_id, frozenset(names)) for node_id, names in found.items())
    return {node_id: shared.setdefault(names, names) for node_id, names in sets}


def _inventories(
    connection: Connection, node_ids: Collection[int] | None, shared: InternedValues
) -> dict[int, tuple[dict[str, Inventory], dict[str, int]]]:
    """Node -> class -> how much there is, and class -> how much is used."""
    table = inventories.c
    amounts = table.total, table.reserved, table.allocation_ratio, table.min_unit, table.max_unit, table.step_size
    wanted = select(table.node_id, table.resource_class, table.used, *amounts)
    found: dict[int, tuple[dict[str, Inventory], dict[str, int]]] = {}
    for node_id, name, used, *there_are in rows_where(connection, wanted, table.node_id, node_ids):
        pair = found.get(node_id)
        if pair is None:
            pair = found[node_id] = {}, {}
        pair[0][name] = shared.inventory(*there_are)
        pair[1][name] = used
    return found


# --- instances ---------------------------------------------------------------------------------------

Held = dict[int, dict[str, dict[str, int]]]
"""Node -> consumer -> resource class -> amount."""


def _instances(
    connection: Connection,
    nodes: Sequence[Any],
    node_ids: Collection[int] | None,
    hosts: Collection[str] | None,
    texts: JsonCache,
) -> dict[int, dict[str, Instance]]:
    """Node -> uuid -> instance: those that hold something there, and those that are there and hold nothing."""
    held = _held(rows_where(connection, _ALLOCATIONS, allocations.c.node_id, node_ids))
    uuids = None if node_ids is None else {uuid for each in held.values() for uuid in each}
    known = {row.uuid: row for row in rows_where(connection, CONSUMERS, consumers.c.uuid, uuids)}
    found = {node_id: _who_hold(each, known, texts) for node_id, each in held.items()}
    node_of = {(node.host, node.hypervisor_hostname): node.id for node in nodes}
    placed = SERVERS.where(~_HOLDS_SOMETHING_THERE) if hosts is None else SERVERS
    for row in rows_where(connection, placed, servers.c.host, hosts):
        node_id = node_of.get((row.host, row.node or row.host))
        if node_id is not None:
            found.setdefault(node_id, {}).setdefault(row.uuid, make_instance(row, {}, texts))
    return found


_ALLOCATIONS = select(
    allocations.c.node_id, allocations.c.consumer_uuid, allocations.c.resource_class, allocations.c.used
)
_FLAVOR = case((consumers.c.details.is_(None), as_text(servers.c.flavor))).label("flavor")
CONSUMERS = (
    select(consumers.c.uuid, consumers.c.project_id, as_text(consumers.c.details), _FLAVOR)
    .join_from(consumers, servers, servers.c.uuid == consumers.c.uuid, isouter=True)
    .where(consumers.c.kind == INSTANCE)
)
SERVERS = (
    select(
        servers.c.uuid,
        servers.c.host,
        servers.c.node,
        servers.c.project_id,
        as_text(consumers.c.details),
        as_text(servers.c.flavor),
    )
    .join_from(servers, consumers, servers.c.uuid == consumers.c.uuid, isouter=True)
    .where(servers.c.host.is_not(None))
)
"""Servers that are somewhere."""
_HOLDS_SOMETHING_THERE = exists().where(
    allocations.c.consumer_uuid == servers.c.uuid,
    allocations.c.node_id == compute_nodes.c.id,
    compute_nodes.c.host == servers.c.host,
    compute_nodes.c.hypervisor_hostname == servers.c.node,
)
"""Most servers do: they are known already, and of all servers there are many."""


def _held(rows: Iterable[Any]) -> Held:
    held: Held = defaultdict(lambda: defaultdict(dict))
    for node_id, uuid, name, used in rows:
        held[node_id][uuid][name] = used
    return held


def _who_hold(held: Mapping[str, dict[str, int]], known: Mapping[str, Any], texts: JsonCache) -> dict[str, Instance]:
    return {uuid: make_instance(known[uuid], amounts, texts) for uuid, amounts in held.items() if uuid in known}


def make_instance(row: Any, amounts: Mapping[str, int], texts: JsonCache) -> Instance:
    """An instance from the row of its consumer or of its server, with what it holds."""
    details = texts.decode(row.details, plain)
    if details is None:
        flavor = texts.decode(row.flavor, plain) or {}
        return Instance(row.uuid, row.project_id, flavor.get("id"), resources=amounts)
    given = {"image_props": details["image_props"]} if details.get("image_props") else {}
    return Instance(row.uuid, row.project_id, details.get("flavor_id"), resources=amounts, **given)


# --- aggregates --------------------------------------------------------------------------------------


def read_aggregates(connection: Connection, ids: Collection[int] | None = None) -> list[Aggregate]:
    """Aggregates by their numbers, which are their ids: these, or all."""
    hosts: dict[int, list[str]] = defaultdict(list)
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    for aggregate_id, host in rows_where(connection, _MEMBERS, aggregate_hosts.c.aggregate_id, ids):
        hosts[aggregate_id].append(host)
    for aggregate_id, key, value in rows_where(
        connection, select(aggregate_metadata), aggregate_metadata.c.aggregate_id, ids
    ):
        metadata[aggregate_id][key] = value
    wanted = select(aggregates.c.id, aggregates.c.uuid, aggregates.c.name).order_by(aggregates.c.id)
    return [
        Aggregate(name, metadata.get(number, {}), tuple(hosts.get(number, ())), number, uuid)
        for number, uuid, name in rows_where(connection, wanted, aggregates.c.id, ids)
    ]


_MEMBERS = select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host).order_by(aggregate_hosts.c.host)


def aggregates_of_hosts(found: Sequence[Aggregate]) -> dict[str, tuple[Aggregate, ...]]:
    """Host -> the aggregates it is in. Sets of aggregates that many hosts share are kept once."""
    return {host: together for host, (_, together) in by_host(found).items()}
