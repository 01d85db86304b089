# SPDX-License-Identifier: Apache-2.0
"""Usage of nodes, and whether consumers are on them: all that a claim changes, read without the rest of the node."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from roost.hosts import Instance
from roost.hosts.guests import GuestSpace, SpaceTexts
from roost.hosts.record import is_bare_metal
from roost.hosts.updates import Usage
from roost.records.node_reader import INSTANCE_CONSUMERS, make_instance
from roost.records.node_rows import JsonCache, free_disk_gb, undecoded
from roost.records.servers import PLACED_SERVERS
from roost.store.schema import allocations, compute_nodes, consumers, inventories, servers
from roost.store.statements import KeyedSelect, read_in_one_trip

UsageKey = tuple[int, str]
"""Node id and consumer uuid."""

_NODES = select(
    compute_nodes.c.id,
    compute_nodes.c.host,
    compute_nodes.c.hypervisor_hostname,
    compute_nodes.c.hypervisor_type,
    compute_nodes.c.free_ram_mb,
    compute_nodes.c.free_disk_gb,
    compute_nodes.c.disk_available_least,
    compute_nodes.c.local_gb_used,
    compute_nodes.c.vcpus_used,
    compute_nodes.c.running_vms,
    compute_nodes.c.current_workload,
)
_SPACES = select(compute_nodes.c.id, undecoded(compute_nodes.c.numa_topology), undecoded(compute_nodes.c.pci_stats))
_USED = select(inventories.c.node_id, inventories.c.resource_class, inventories.c.used)
_HELD = select(allocations.c.node_id, allocations.c.consumer_uuid, allocations.c.resource_class, allocations.c.used)


class UsageFound(NamedTuple):
    """What `read_usage` found."""

    usage: dict[int, Usage]
    """Node -> what is used of it. Nodes that are not there any more are left out."""
    unclear: set[int]
    """Nodes that lack a figure, which then follows from the rest of their record: they have to be read whole."""


def read_usage(
    connection: Connection, keys: Collection[UsageKey], with_space: Collection[int] = (), *, bare_metal: bool = False
) -> UsageFound:
    """The usage of each node that a key names, and for each consumer that it names whether it is on that node.

    `with_space`: ids of nodes of which NUMA cells and free PCI devices are read too.
    """
    ids, uuids = {node_id for node_id, _ in keys} | {*with_space}, {uuid for _, uuid in keys}
    spaces = (KeyedSelect(_SPACES, compute_nodes.c.id, with_space),) if with_space else ()
    node_rows, used_rows, *instance_rows = read_in_one_trip(
        connection,
        (
            KeyedSelect(_NODES, compute_nodes.c.id, ids),
            KeyedSelect(_USED, inventories.c.node_id, ids),
            KeyedSelect(_HELD, allocations.c.consumer_uuid, uuids),
            KeyedSelect(INSTANCE_CONSUMERS, consumers.c.uuid, uuids),
            KeyedSelect(PLACED_SERVERS, servers.c.uuid, uuids),
            *spaces,
        ),
    )
    space_of = _spaces(instance_rows.pop() if with_space else ())
    nodes = {node.id: node for node in node_rows}
    unclear = {node.id for node in nodes.values() if None in (node.free_disk_gb, node.free_ram_mb, *_counters(node))}
    used, there = _used(used_rows), _find_instances(nodes, *instance_rows)
    asked: dict[int, list[str]] = defaultdict(list)
    for node_id, uuid in keys:
        asked[node_id].append(uuid)
    found = {}
    for node_id in nodes.keys() - unclear:
        is_whole = bare_metal and is_bare_metal(nodes[node_id].hypervisor_type)
        here = {} if is_whole else {uuid: there.get((node_id, uuid)) for uuid in asked[node_id]}
        space = None if is_whole else space_of.get(node_id)
        found[node_id] = _usage(nodes[node_id], used.get(node_id, {}), here, is_whole, space)
    return UsageFound(found, unclear)


def _counters(node: Any) -> tuple[int | None, int | None]:
    return node.running_vms, node.current_workload


def _usage(
    node: Any,
    used: Mapping[str, int],
    here: Mapping[str, Instance | None],
    is_whole: bool,
    space: GuestSpace | None,
) -> Usage:
    num_instances, num_io_ops = (0, 0) if is_whole else _counters(node)
    return Usage(
        free_ram_mb=node.free_ram_mb,
        free_disk_mb=1024 * free_disk_gb(node, is_whole),
        disk_mb_used=1024 * node.local_gb_used,
        vcpus_used=node.vcpus_used,
        num_instances=num_instances or 0,
        num_io_ops=num_io_ops or 0,
        allocated=used,
        added=[each for each in here.values() if each is not None],
        removed=[uuid for uuid, each in here.items() if each is None],
        space=space,
    )


def _spaces(rows: Iterable[Any]) -> dict[int, GuestSpace]:
    return {row.id: SpaceTexts(row.numa_topology, row.pci_stats).decode() for row in rows}


def _used(rows: Iterable[Any]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = defaultdict(dict)
    for node_id, name, used in rows:
        found[node_id][name] = used
    return found


def _find_instances(
    nodes: Mapping[int, Any], allocated: Iterable[Any], consumer_rows: Iterable[Any], server_rows: Iterable[Any]
) -> dict[UsageKey, Instance]:
    """Node and uuid -> instance, of all that are on one of the nodes: with what they hold there, if anything."""
    texts, found = JsonCache(), {}
    held: dict[UsageKey, dict[str, int]] = defaultdict(dict)
    for node_id, uuid, name, used in allocated:
        held[node_id, uuid][name] = used
    known = {row.uuid: row for row in consumer_rows}
    node_of = {(node.host, node.hypervisor_hostname): node.id for node in nodes.values()}
    for row in server_rows:
        place = node_of.get((row.host, row.node or row.host))
        if place is not None:
            found[place, row.uuid] = make_instance(row, {}, texts)
    for (node_id, uuid), amounts in held.items():
        if uuid in known:
            found[node_id, uuid] = make_instance(known[uuid], amounts, texts)
    return found
