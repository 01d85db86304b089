# SPDX-License-Identifier: Apache-2.0
"""Nodes as clients of the API see them - hypervisors, each with its service - and changes of hosts by number.

Claims keep the used amounts of a node current. Clients that follow the fleet read its changes from the change log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, func, select

from roost.errors import UnknownName
from roost.model.uuids import canonical_uuid
from roost.records.outages import HeartbeatRule, read_heartbeat_rule
from roost.records.servers import IS_LEFT
from roost.records.services import AGENT
from roost.store.change_log import GUESTS, NODES, SERVICES, USAGE, ReadPosition, is_unread, split_usage_key
from roost.store.columns import LARGEST_BIGINT
from roost.store.pages import WHOLE_LIST, Page, PagedTable
from roost.store.schema.fleet import compute_nodes, services
from roost.store.schema.history import changes
from roost.store.schema.servers import servers
from roost.store.statements import read_rows
from roost.store.store_clock import PresentTime
from roost.store.transactions import database_errors


class HostedServer(NamedTuple):
    """A server on a hypervisor."""

    uuid: str
    name: str


@dataclass(frozen=True)
class HypervisorRecord:
    """A node in the database with the service of its host; all amounts of a node without a report are 0."""

    id: int
    uuid: str
    host: str
    hypervisor_hostname: str
    hypervisor_type: str | None
    hypervisor_version: int
    host_ip: str | None
    cpu_info: Any
    """As the agent reported it; None if it did not."""
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    disk_available_least: int | None
    """GiB that can really be written; None if unknown."""
    current_workload: int
    running_vms: int
    service_id: int
    service_uuid: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    is_up: bool
    """By the heartbeats of its service, which is not forced down."""
    servers: tuple[HostedServer, ...] = ()
    """By uuid; empty if they were not asked for."""


@dataclass(frozen=True)
class HypervisorTotals:
    """Sums over the nodes of enabled services."""

    count: int
    vcpus: int
    vcpus_used: int
    memory_mb: int
    memory_mb_used: int
    free_ram_mb: int
    local_gb: int
    local_gb_used: int
    free_disk_gb: int
    disk_available_least: int
    current_workload: int
    running_vms: int


_NODE = compute_nodes.c
_NAMES = ("id", "uuid", "host", "hypervisor_hostname", "hypervisor_type", "hypervisor_version", "host_ip", "cpu_info")
_SUMMED = tuple(_NODE[each.name] for each in fields(HypervisorTotals) if each.name != "count")
_OF_SERVICE = (
    services.c.id.label("service_id"),
    services.c.uuid.label("service_uuid"),
    services.c.disabled,
    services.c.disabled_reason,
    services.c.forced_down,
)
_LIVENESS = (services.c.is_static, services.c.last_seen_up, services.c.created_at)
_HAS_SERVICE = (services.c.host == _NODE.host) & (services.c.binary == AGENT)
_SELECT = (
    select(*(_NODE[name] for name in _NAMES), *_SUMMED, *_OF_SERVICE, *_LIVENESS)
    .select_from(compute_nodes)
    .join(services, _HAS_SERVICE)
)
"""A node whose host has no service is left out, as in nova."""
_BY_ID = PagedTable(_NODE.id, _NODE.id, {"id": _NODE.id})
_BY_HOST = PagedTable(_NODE.uuid, _NODE.id, {"host": _NODE.host})
_BY_UUID = PagedTable(_NODE.uuid, _NODE.id, {"id": _NODE.id})


def list_hypervisors(
    engine: Engine,
    now: PresentTime,
    service_down_time: float,
    *,
    pattern: str | None = None,
    page: Page = WHOLE_LIST,
    with_servers: bool = False,
) -> list[HypervisorRecord]:
    """A page of the nodes, by id; a marker is the uuid of a node, or its id if it is a number.

    `pattern`: only nodes whose hypervisor_hostname contains it, in capitals or not. `with_servers`: read those that
    are on them, in one statement more.
    """
    named = [] if pattern is None else [_NODE.hypervisor_hostname.icontains(pattern, autoescape=True)]
    paged = _BY_UUID if isinstance(page.marker, str) else _BY_ID
    with database_errors(engine), engine.connect() as connection:
        wanted = paged.cut(connection, _SELECT.where(*named), page)
        return _read(connection, wanted, now, service_down_time, with_servers)


def list_node_ids(connection: Connection, page: Page = WHOLE_LIST, host: str | None = None) -> list[int]:
    """Row ids of a page of the nodes that have a service, or of those of one host: by host, then by id.

    A marker is the uuid of a node.
    """
    wanted = select(_NODE.id).join(services, _HAS_SERVICE)
    if host is not None:
        wanted = wanted.where(_NODE.host == host)
    return list(connection.scalars(_BY_HOST.cut(connection, wanted, page)))


def get_hypervisor(
    engine: Engine, hypervisor: str | int, now: PresentTime, service_down_time: float, *, with_servers: bool = False
) -> HypervisorRecord:
    """The node with this uuid, or with this id if it is a number; UnknownName if there is none."""
    with database_errors(engine), engine.connect() as connection:
        found = _read(connection, _SELECT.where(_is_node(hypervisor)), now, service_down_time, with_servers)
    if not found:
        raise UnknownName(f"Hypervisor with ID '{hypervisor}' could not be found.")
    return found[0]


def sum_hypervisors(engine: Engine) -> HypervisorTotals:
    """The totals of all nodes whose service is enabled."""
    sums = [func.coalesce(func.sum(each), 0) for each in _SUMMED]
    wanted = select(func.count(), *sums).select_from(compute_nodes).join(services, _HAS_SERVICE)
    with database_errors(engine), engine.connect() as connection:
        return HypervisorTotals(*map(int, connection.execute(wanted.where(~services.c.disabled)).one()))


def _is_node(hypervisor: str | int) -> ColumnElement[bool]:
    if isinstance(hypervisor, str):
        return _NODE.uuid == canonical_uuid(hypervisor)
    return _NODE.id == (hypervisor if 0 < hypervisor <= LARGEST_BIGINT else 0)


def _read(
    connection: Connection, wanted: Select[Any], now: PresentTime, service_down_time: float, with_servers: bool
) -> list[HypervisorRecord]:
    """The nodes that a SELECT finds, in its order."""
    rule = read_heartbeat_rule(connection, now, service_down_time)
    rows = connection.execute(wanted).all()
    hosted = _read_hosted(connection, wanted) if with_servers else {}
    return [_record(row, rule, hosted.get(row.id, ())) for row in rows]


def _read_hosted(connection: Connection, wanted: Select[Any]) -> dict[int, tuple[HostedServer, ...]]:
    """Node id -> the servers there that are not deleted, of the nodes that a SELECT finds."""
    nodes = wanted.subquery()
    node = func.coalesce(servers.c.node, servers.c.host)
    is_there = and_(servers.c.host == nodes.c.host, node == nodes.c.hypervisor_hostname)
    there = select(nodes.c.id, servers.c.uuid, servers.c.name).join(servers, is_there).where(IS_LEFT)
    found: dict[int, list[HostedServer]] = defaultdict(list)
    for node_id, uuid, name in connection.execute(there.order_by(servers.c.uuid)):
        found[node_id].append(HostedServer(uuid, name))
    return {node_id: tuple(each) for node_id, each in found.items()}


def _record(row: Any, rule: HeartbeatRule, hosted: tuple[HostedServer, ...]) -> HypervisorRecord:
    columns = dict(row._mapping)
    for name in (each.name for each in _LIVENESS):
        del columns[name]
    amounts = {each.name: columns[each.name] or 0 for each in _SUMMED if each.name != "disk_available_least"}
    is_up = rule.is_row_up(row) and not row.forced_down
    return HypervisorRecord(**columns | amounts, is_up=is_up, servers=hosted)


_WHAT = {NODES: "report", USAGE: "use", GUESTS: "use", SERVICES: "service"}


class ChangedHost(NamedTuple):
    """A change of a host, without what changed in it."""

    number: int
    host: str | None
    """None: the change is not one of a host, or the node is gone."""
    node: str | None
    """None: the change is one of the host's service."""
    what: str
    """What changed: `report` (of its agent, or its traits), `use` (of its resources), `service` (its flags)."""


def read_changed_hosts(
    connection: Connection, since: ReadPosition, until: ReadPosition | None = None, limit: int = 500
) -> list[ChangedHost]:
    """The changes that a reader at `since` has not read, by number; those of other things have no host.

    `until`: only those that a reader there has read.
    """
    columns = changes.c.number, changes.c.subject, changes.c.subject_key
    unread = select(*columns).where(is_unread(changes.c.number, since, until))
    rows = connection.execute(unread.order_by(changes.c.number).limit(limit)).all()
    names = _names_of_nodes(connection, rows)
    return [ChangedHost(row.number, *_host_of(row, names), _WHAT.get(row.subject, "")) for row in rows]


def _node_id(row: Any) -> int | None:
    if row.subject == USAGE:
        return split_usage_key(row.subject_key)[0]
    return int(row.subject_key) if row.subject in (NODES, GUESTS) else None


def _names_of_nodes(connection: Connection, rows: Iterable[Any]) -> dict[int, tuple[str, str]]:
    """Row id -> host and node, of the nodes that these changes are about."""
    ids = {found for row in rows if (found := _node_id(row)) is not None}
    wanted = select(compute_nodes.c.id, compute_nodes.c.host, compute_nodes.c.hypervisor_hostname)
    if not ids:
        return {}
    return {number: (host, node) for number, host, node in read_rows(connection, wanted, compute_nodes.c.id, ids)}


def _host_of(row: Any, names: dict[int, tuple[str, str]]) -> tuple[str | None, str | None]:
    if row.subject == SERVICES:
        return row.subject_key, None
    node = _node_id(row)
    return names.get(node, (None, None)) if node is not None else (None, None)
