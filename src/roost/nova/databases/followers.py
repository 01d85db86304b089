# SPDX-License-Identifier: Apache-2.0
"""Follows one cell: which instances, nodes and services came, changed or went since the last read.

Start reading at `CellReader`: it reads all of them once, then what changed. Each read fetches its rows first and
takes note of them afterwards, so a read that fails leaves the reader as it was: the next one, whenever the database
is back, finds all that happened meanwhile.

Instances are found by `updated_at`, which has an index; nova writes it when it sets vm_state to deleted, just before
the row is marked as deleted. Deleted rows stay in the table until an operator archives them, perhaps millions, so
nothing here reads them all. An instance has its flavor as it was when it was placed.

Rows of `compute_nodes` become fields of host records, derived as nova's HostState derives its attributes.

Few services are disabled or forced down, so all of these are read each time: a change of a flag is seen at once,
without a watermark. Heartbeats, a row per host every ten seconds, are read from a watermark on.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, or_, select
from sqlalchemy.engine import Engine

from roost.clock import Clock
from roost.errors import FieldError
from roost.hosts import Instance
from roost.hosts.instances import IMAGE_PREFIX, NO_PROPERTIES
from roost.messages.objects.aggregates_instances import split_system_metadata
from roost.messages.objects.flavor_image_group import flavor_from_object
from roost.messages.objects.numa_pci import host_topology_from_object, pools_from_object
from roost.model import Flavor, Service
from roost.model.fields import MAPPING
from roost.model.kinds import shown
from roost.model.resources import requested_amounts
from roost.nova.databases.api import Cell
from roost.nova.databases.engines import reading
from roost.nova.databases.tables import (
    LONGEST_TEXT,
    SINCE,
    CellChanges,
    NovaComputeRow,
    PlacedInstance,
    ReportedNode,
    Watermark,
    as_utc,
    compute_nodes,
    decode_column,
    instance_extra,
    instance_system_metadata,
    instances,
    services,
)
from roost.records.node_rows import UNREPORTED_FIELDS, JsonCache, as_triples, reported_fields
from roost.store.statements import MOST_KEYS, in_chunks

SELECT_INSTANCES = select(instances, instance_extra.c.flavor).join_from(
    instances, instance_extra, instance_extra.c.instance_uuid == instances.c.uuid, isouter=True
)
DELETED_STATE = "deleted"
"""vm_state of an instance whose row is marked as deleted a moment later."""


class _SizedFlavor(NamedTuple):
    flavor: Flavor
    amounts: Mapping[str, int]


def is_placed(row: Any) -> bool:
    """Whether the row is live and has a host."""
    return not row.deleted and bool(row.host) and row.vm_state != DELETED_STATE


def decode_instance(row: Any, metadata: Mapping[str, str], texts: JsonCache, problems: list[str]) -> PlacedInstance:
    """The instance of a row with a host. A flavor that cannot be understood is left out, and said in `problems`."""
    try:
        sized = decode_column(row, "flavor", _current_flavor, texts)
    except FieldError as error:
        problems.append(f"the flavor of instance {row.uuid} is left out: {error}")
        sized = None
    properties, rest = split_system_metadata(metadata) if metadata else (NO_PROPERTIES, NO_PROPERTIES)
    instance = Instance(
        row.uuid,
        row.project_id,
        row.instance_type_id,
        properties,
        sized.amounts if sized else {},
        image_ref=row.image_ref or None,
        flavor=sized.flavor if sized else None,
        system_metadata=rest,
        created_at=as_utc(row.created_at),
    )
    return PlacedInstance(instance, row.host, row.node, row.user_id, row.vm_state, row.task_state)


def _current_flavor(value: Any) -> _SizedFlavor | None:
    """The flavor that the instance has now: `cur` of instance_extra, beside the `old` and `new` of a resize."""
    current = MAPPING.strict(value, "flavor").get("cur")
    if current is None:
        return None
    flavor = flavor_from_object(current, "flavor.cur")
    return _SizedFlavor(flavor, requested_amounts(flavor))


_IS_PLACED = and_(
    instances.c.deleted == 0,
    instances.c.host.is_not(None),
    or_(instances.c.vm_state != DELETED_STATE, instances.c.vm_state.is_(None)),
)
_PLACED_INSTANCES = SELECT_INSTANCES.where(_IS_PLACED)
_WRITTEN_INSTANCES = SELECT_INSTANCES.where(instances.c.updated_at >= SINCE)
_COMPARED = (instances.c.id, instances.c.updated_at, instances.c.host, instances.c.instance_type_id)
_METADATA = select(
    instance_system_metadata.c.instance_uuid, instance_system_metadata.c.key, instance_system_metadata.c.value
).where(instance_system_metadata.c.deleted == 0, instance_system_metadata.c.key.startswith(IMAGE_PREFIX))

Metadata = Mapping[str, Mapping[str, str]]
"""Instance uuid -> key -> value of its system metadata, as far as it is from the image."""


class FetchedInstances(NamedTuple):
    """Rows of instances, and the ids of known ones that a comparison of all rows did not find."""

    rows: Sequence[Any]
    gone: Collection[int] = ()
    metadata: Metadata = {}


class _Known(NamedTuple):
    content: int
    """Hash of the row."""
    compared: tuple[Any, ...]
    """The columns that are compared with all rows."""
    host: str


class InstanceFollower:
    """Known instances by host and row id."""

    def __init__(self, reads_image_properties: bool = False) -> None:
        """`reads_image_properties`: read them too, with one more statement and some ten rows per instance."""
        self._reads_image_properties = reads_image_properties
        self._known: dict[int, _Known] = {}
        self._by_host: dict[str, dict[int, PlacedInstance]] = defaultdict(dict)
        self._watermark = Watermark()

    def fetch(self, connection: Connection, is_full: bool) -> FetchedInstances:
        """The rows that were written since the last read, of any state: one statement if there are none.

        `is_full`: besides, the rows that differ from what is known, found by comparing a few columns of all live
        rows; at the first read these are all.
        """
        if is_full and not self._known:
            rows = connection.execute(_PLACED_INSTANCES).all()
            return FetchedInstances(rows, (), self._fetch_metadata(connection, rows))
        there = self._compared_rows(connection) if is_full else {}
        rows = connection.execute(_WRITTEN_INSTANCES, {SINCE.key: self._watermark.since}).all()
        different = [number for number, row in there.items() if self._compared(number) != row]
        for some in in_chunks(different, MOST_KEYS):
            rows = [*rows, *connection.execute(SELECT_INSTANCES.where(instances.c.id.in_(some)))]
        gone = self._known.keys() - there.keys() if is_full else ()
        return FetchedInstances(rows, gone, self._fetch_metadata(connection, rows))

    def _compared_rows(self, connection: Connection) -> dict[int, tuple[Any, ...]]:
        return {row[0]: tuple(row) for row in connection.execute(select(*_COMPARED).where(_IS_PLACED))}

    def _compared(self, number: int) -> tuple[Any, ...] | None:
        known = self._known.get(number)
        return None if known is None else known.compared

    def _fetch_metadata(self, connection: Connection, rows: Sequence[Any]) -> Metadata:
        if not self._reads_image_properties:
            return {}
        found: dict[str, dict[str, str]] = defaultdict(dict)
        for some in in_chunks((row.uuid for row in rows if is_placed(row)), MOST_KEYS):
            wanted = _METADATA.where(instance_system_metadata.c.instance_uuid.in_(some))
            for uuid, key, value in connection.execute(wanted):
                if value is not None:
                    found[uuid][key] = value
        return found

    def apply(self, fetched: FetchedInstances, read_at: datetime, changes: CellChanges) -> None:
        """Take note of fetched rows, and put all instances of hosts where any changed into `changes`."""
        texts = JsonCache()
        touched: set[str] = set()
        for number in fetched.gone:
            touched |= self._forget(number)
        for row in fetched.rows:
            if not is_placed(row):
                touched |= self._forget(row.id)
                continue
            content, before = hash(tuple(row)), self._known.get(row.id)
            if before is None or before.content != content:
                touched |= self._forget(row.id) | {row.host}
                compared = row.id, row.updated_at, row.host, row.instance_type_id
                self._known[row.id] = _Known(content, compared, row.host)
                metadata = fetched.metadata.get(row.uuid, {})
                self._by_host[row.host][row.id] = decode_instance(row, metadata, texts, changes.problems)
        self._watermark.advance(read_at, (row.updated_at for row in fetched.rows))
        changes.instances.update(self._instances_of(touched))

    def _instances_of(self, hosts: Iterable[str]) -> dict[str, tuple[PlacedInstance, ...]]:
        found = {host: self._by_host.get(host, {}) for host in hosts}
        return {host: tuple(each[number] for number in sorted(each)) for host, each in found.items()}

    def _forget(self, number: int) -> set[str]:
        """Drop a known instance: its host, or nothing if it was not known."""
        known = self._known.pop(number, None)
        if known is None:
            return set()
        del self._by_host[known.host][number]
        if not self._by_host[known.host]:
            del self._by_host[known.host]
        return {known.host}


SELECT_NODES = select(compute_nodes)
_COUNTERS = {"num_instances": "num_instances", "num_io_ops": "io_workload", "failed_builds": "failed_builds"}
"""Field of a host record -> key in the column `stats`."""
_LARGEST_COUNTER = 2**31


def decode_node(row: Any, cell_uuid: str, texts: JsonCache) -> ReportedNode:
    """The node of a live row; FieldError if the row cannot be understood.

    All amounts of a node without free_disk_gb, which has not reported yet, are 0. Otherwise its free disk is at most
    disk_available_least: for nova's fake driver, which says 0, none.
    """
    if not row.host or not row.uuid:
        raise FieldError("host" if not row.host else "uuid", "is empty")
    node = row.hypervisor_hostname or row.host
    fields: dict[str, Any] = {"host": row.host, "node": node, "uuid": row.uuid, "cell": cell_uuid}
    if row.free_disk_gb is None:
        return ReportedNode(row.id, fields | UNREPORTED_FIELDS, as_utc(row.updated_at))
    stats = decode_column(row, "stats", _stats, texts) or {}
    fields |= reported_fields(row) | {name: _counter(stats, key) for name, key in _COUNTERS.items()}
    fields |= {
        "free_ram_mb": row.free_ram_mb or 0,
        "host_ip": None if row.host_ip is None else str(row.host_ip),  # PostgreSQL has a type for it
        "cpu_info": _cpu_info(row, texts),
        "supported_instances": decode_column(row, "supported_instances", as_triples, texts) or (),
        "stats": stats,
        "metrics": decode_column(row, "metrics", _metrics, texts) or (),
        "numa": decode_column(row, "numa_topology", host_topology_from_object, texts),
        "pci_pools": decode_column(row, "pci_stats", pools_from_object, texts) or (),
    }
    return ReportedNode(row.id, fields, as_utc(row.updated_at))


def _stats(value: Any) -> Mapping[str, Any]:
    return MAPPING.strict(value, "stats")


def _counter(stats: Mapping[str, Any], key: str) -> int:
    """A number of `stats`, whose values are texts; 0 if it is missing."""
    value = stats.get(key, 0)
    try:
        number = int(value) if len(str(value)) < len(str(_LARGEST_COUNTER)) else _LARGEST_COUNTER
    except (TypeError, ValueError):
        raise FieldError(f"stats.{key}", f"{shown(value)} is no number") from None
    return number


def _cpu_info(row: Any, texts: JsonCache) -> Any:
    """The CPU as an object; as the text itself where a driver writes no JSON object."""
    try:
        return decode_column(row, "cpu_info", _cpu_object, texts)
    except FieldError:
        return row.cpu_info[:LONGEST_TEXT]


def _cpu_object(value: Any) -> Mapping[str, Any]:
    return MAPPING.strict(value, "cpu_info")


def _metrics(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The metrics as monitors report them: percentages are fractions, which the host table makes whole numbers."""
    for each in value:
        if not MAPPING.strict(each, "metrics").keys() >= {"name", "value"}:
            raise FieldError("metrics", f"{shown(each)} has no name or no value")
    return tuple(value)


_ALL_NODES = SELECT_NODES.where(compute_nodes.c.deleted == 0)
_WRITTEN_NODES = SELECT_NODES.where(
    or_(*(compute_nodes.c[name] >= SINCE for name in ("updated_at", "created_at", "deleted_at")))
)


class NodeFollower:
    """Known rows by id, as hashes of their content: a row is decoded only if it changed."""

    def __init__(self, cell_uuid: str) -> None:
        self._cell_uuid = cell_uuid
        self._hashes: dict[int, int] = {}
        self._reported: set[int] = set()
        """Ids of the rows that were understood."""
        self._watermark = Watermark()

    def fetch(self, connection: Connection, is_full: bool) -> Sequence[Any]:
        """All live rows, or those that were written since the last read, deleted ones included: one statement."""
        if is_full:
            return connection.execute(_ALL_NODES).all()
        return connection.execute(_WRITTEN_NODES, {SINCE.key: self._watermark.since}).all()

    def apply(self, rows: Sequence[Any], is_full: bool, read_at: datetime, changes: CellChanges) -> None:
        """Take note of rows from `fetch`, and put what they change into `changes`."""
        texts = JsonCache()
        for row in rows:
            if row.deleted:
                self._forget(row.id, changes)
            elif self._hashes.get(row.id) != (found := hash(tuple(row))):
                self._hashes[row.id] = found
                self._decode(row, texts, changes)
        if is_full:
            for number in self._hashes.keys() - {row.id for row in rows}:
                self._forget(number, changes)
        times = (moment for row in rows for moment in (row.updated_at, row.created_at, row.deleted_at))
        self._watermark.advance(read_at, times)

    def _decode(self, row: Any, texts: JsonCache, changes: CellChanges) -> None:
        try:
            changes.nodes.append(decode_node(row, self._cell_uuid, texts))
            self._reported.add(row.id)
        except FieldError as error:
            changes.problems.append(f"compute node {row.id} of host {row.host} is left out: {error}")
            self._drop(row.id, changes)

    def _forget(self, number: int, changes: CellChanges) -> None:
        self._hashes.pop(number, None)
        self._drop(number, changes)

    def _drop(self, number: int, changes: CellChanges) -> None:
        if number in self._reported:
            self._reported.remove(number)
            changes.removed_nodes.add(number)


BINARY = "nova-compute"
_IN_SERVICE = Service()
_IS_COMPUTE = services.c.binary == BINARY
_SELECT = select(services).where(_IS_COMPUTE).order_by(services.c.id)
_IS_LIVE = services.c.deleted == 0
_IS_OUT_OF_SERVICE = and_(_IS_LIVE, or_(services.c.disabled, services.c.forced_down))
_IS_FLAGGED = or_(_IS_OUT_OF_SERVICE, services.c.created_at >= SINCE, services.c.deleted_at >= SINCE)
_ALL_SERVICES = _SELECT.where(_IS_LIVE)
_FLAGGED_SERVICES = _SELECT.where(_IS_FLAGGED)
_WRITTEN_SERVICES = _SELECT.where(or_(_IS_FLAGGED, services.c.updated_at >= SINCE))


class ServiceFollower:
    """Known services by host."""

    def __init__(self) -> None:
        self._known: dict[str, NovaComputeRow] = {}
        self._watermark = Watermark()

    def fetch(self, connection: Connection, is_full: bool, heartbeats: bool) -> Sequence[Any]:
        """All live rows; or those that are out of service, new or deleted and, with `heartbeats`, those updated."""
        if is_full:
            return connection.execute(_ALL_SERVICES).all()
        statement = _WRITTEN_SERVICES if heartbeats else _FLAGGED_SERVICES
        return connection.execute(statement, {SINCE.key: self._watermark.since}).all()

    def apply(
        self, rows: Sequence[Any], is_full: bool, heartbeats: bool, read_at: datetime, changes: CellChanges
    ) -> None:
        """Take note of rows from `fetch`, and put what they change into `changes`."""
        live = {row.host: row for row in rows if not row.deleted and row.host}
        for row in rows:
            known = self._known.get(row.host)
            if row.deleted and known and known.id == row.id and row.host not in live:
                self._forget(row.host, changes)
        for host, row in live.items():
            self._put(host, _service(row), changes)
        for host in self._known.keys() - live.keys():
            if is_full:
                self._forget(host, changes)
            elif (known := self._known[host]).service.disabled or known.service.forced_down:
                self._put(host, known._replace(service=_IN_SERVICE), changes)
        if is_full or heartbeats:
            times = (moment for row in rows for moment in (row.updated_at, row.created_at, row.deleted_at))
            self._watermark.advance(read_at, times)

    def _put(self, host: str, service: NovaComputeRow, changes: CellChanges) -> None:
        before, self._known[host] = self._known.get(host), service
        if before is None or _without_heartbeat(before) != _without_heartbeat(service):
            changes.services[host] = service
        if service.last_seen is not None and (before is None or before.last_seen != service.last_seen):
            changes.heartbeats[host] = service.last_seen

    def _forget(self, host: str, changes: CellChanges) -> None:
        del self._known[host]
        changes.removed_services.add(host)


def _without_heartbeat(service: NovaComputeRow) -> NovaComputeRow:
    return service._replace(last_seen=None, report_count=0)


def _service(row: Any) -> NovaComputeRow:
    flags = bool(row.disabled), row.disabled_reason, bool(row.forced_down)
    return NovaComputeRow(
        row.id,
        row.host,
        _IN_SERVICE if flags == (False, None, False) else Service(*flags),
        as_utc(row.last_seen_up or row.created_at),
        row.report_count or 0,
        row.version or 0,
        row.uuid,
    )


RECONCILE_SECONDS = 60.0


class _Followers(NamedTuple):
    nodes: NodeFollower
    services: ServiceFollower
    instances: InstanceFollower


class CellReader:
    """Reader of one cell's database. Its methods may be called from any thread; they run one after the other."""

    def __init__(
        self,
        cell: Cell,
        engine: Engine,
        clock: Clock,
        *,
        reconcile_seconds: float = RECONCILE_SECONDS,
        reads_image_properties: bool = False,
    ) -> None:
        """`engine`: one of `open_read_only(cell.url)`. `reconcile_seconds`: how often all rows are compared."""
        self.cell = cell
        self._engine, self._clock = engine, clock
        self._reconcile_seconds = reconcile_seconds
        self._reads_image_properties = reads_image_properties
        self._followers: _Followers | None = None
        self._reconciled_at = 0.0
        self._lock = threading.Lock()

    def read_all(self) -> CellChanges:
        """Everything, in three statements. A DatabaseError leaves the reader as it was."""
        with self._lock:
            return self._read_all()

    def read_changes(self, *, heartbeats: bool = True) -> CellChanges:
        """What changed since the last read, in three statements; everything, if it is the first read.

        Every `reconcile_seconds` all rows are compared with what is known. `heartbeats`: False leaves them out, so
        that a read before an answer need not fetch a third of all services. A DatabaseError leaves the reader as it
        was.
        """
        with self._lock:
            if self._followers is None:
                return self._read_all()
            is_due = self._clock.monotonic() - self._reconciled_at >= self._reconcile_seconds
            return self._read(self._followers, is_full=is_due, heartbeats=heartbeats)

    def read_flags(self) -> CellChanges:
        """Which services were disabled, enabled, forced down, added or deleted since the last read, in one statement.

        Everything, if it is the first read. A DatabaseError leaves the reader as it was.
        """
        with self._lock:
            if self._followers is None:
                return self._read_all()
            services, changes = self._followers.services, CellChanges()
            read_at = self._clock.now()
            with reading(self._engine, self.cell.option) as connection:
                rows = services.fetch(connection, is_full=False, heartbeats=False)
            services.apply(rows, False, False, read_at, changes)
            return changes

    def _read_all(self) -> CellChanges:
        instances = InstanceFollower(self._reads_image_properties)
        fresh = _Followers(NodeFollower(self.cell.uuid), ServiceFollower(), instances)
        changes = self._read(fresh, is_full=True, heartbeats=True)
        changes.is_full = True
        self._followers = fresh
        return changes

    def _read(self, followers: _Followers, *, is_full: bool, heartbeats: bool) -> CellChanges:
        read_at, started = self._clock.now(), self._clock.monotonic()
        with reading(self._engine, self.cell.option) as connection:
            nodes = followers.nodes.fetch(connection, is_full)
            services = followers.services.fetch(connection, is_full, heartbeats)
            instances = followers.instances.fetch(connection, is_full)
        changes = CellChanges()
        followers.nodes.apply(nodes, is_full, read_at, changes)
        followers.services.apply(services, is_full, heartbeats, read_at, changes)
        followers.instances.apply(instances, read_at, changes)
        if is_full:
            self._reconciled_at = started
        return changes
