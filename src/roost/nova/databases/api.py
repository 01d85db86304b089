# SPDX-License-Identifier: Apache-2.0
"""Reads nova's API database: cells, host mappings and aggregates as a whole, server groups one by one.

Rows of the API database vanish when they are deleted, so changes cannot be read by a watermark. A few thousand rows
are read quickly; one statement says whether that is needed: number, largest id and newest `updated_at` of each table.
It misses a second update of a row within the second of the first (so nothing counts as unchanged until that is some
seconds ago), and an update by a service whose clock is behind (so everything is read again once a minute).

The addresses of cell databases come from the table `cell_mappings`.
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import Connection, func, select
from sqlalchemy.engine import URL, Engine

from roost.clock import Clock
from roost.errors import BadInput, DatabaseAddressError, FieldError
from roost.model import Aggregate, ServerGroup
from roost.model.fields import MAPPING
from roost.model.group import MAX_SERVER
from roost.nova.databases.engines import parse_nova_url, reading
from roost.nova.databases.tables import (
    OVERLAP,
    aggregate_hosts,
    aggregate_metadata,
    aggregates,
    cell_mappings,
    decode_column,
    host_mappings,
    instance_group_member,
    instance_group_policy,
    instance_groups,
    instance_mappings,
    request_specs,
)
from roost.records.node_rows import JsonCache
from roost.scheduler.options import API_DATABASE, CellDatabaseOptions
from roost.store.engine import redacted_url
from roost.store.statements import MOST_KEYS, in_chunks

CELL0_UUID = "00000000-0000-0000-0000-000000000000"
"""The cell of servers that never found a host."""
MOST_CELLS = 1000
"""Cells that are read; nova's largest clouds have some dozens."""
LONGEST_ADDRESS = 10_000
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_COLUMNS = ("id", "uuid", "name", "database_connection", "disabled")


@dataclass(frozen=True)
class Cell:
    """A cell of nova's: a part of the cloud with a database of its own."""

    id: int
    """Its number in host mappings."""
    uuid: str
    name: str
    url: URL
    """Address of its database, with the driver, user and password to use. Its repr has no password."""
    is_disabled: bool = False

    @property
    def is_cell0(self) -> bool:
        """Whether it is the cell of servers that never found a host; it has no hosts."""
        return self.uuid == CELL0_UUID

    @property
    def address(self) -> str:
        """The address of its database for messages: without password and parameters."""
        return redacted_url(self.url)

    @property
    def option(self) -> str:
        """Where its address comes from, for messages."""
        return _option_of(self.name)


class CellList(NamedTuple):
    """All cells whose address is understood, and one line for each other cell."""

    cells: tuple[Cell, ...]
    problems: tuple[str, ...]
    """Why a cell is left out, without its address, which may contain a password."""


class CellAddresses:
    """Makes addresses of cell databases: fills in templates, and replaces user and password if that is configured."""

    def __init__(self, own_connection: str | None = None, options: CellDatabaseOptions | None = None) -> None:
        """`own_connection`: nova's `[database] connection`, whose parts fill in the templates."""
        self._parts = _template_parts(own_connection or "")
        self._options = options or CellDatabaseOptions()

    def url_for(self, name: str, text: str | None) -> URL:
        """The address for the text in the mapping of cell `name`; DatabaseAddressError if it is not understood."""
        option = _option_of(name)
        if text and len(text) > LONGEST_ADDRESS:
            raise DatabaseAddressError(f"{option} is longer than {LONGEST_ADDRESS} characters")
        url = parse_nova_url(self._filled(text or "", option), option)
        if self._options.cell_database_user:
            url = url.set(username=self._options.cell_database_user, password=self._options.cell_database_password)
        return url

    def _filled(self, text: str, option: str) -> str:
        """The address with the parts of `[database] connection` in place of {scheme}, {username} and so on."""
        if "{" not in text:
            return text
        if not self._parts:
            raise DatabaseAddressError(
                f"{option} is a template", "set [database] connection, as in nova's own nova.conf"
            )
        filled = _VARIABLE.sub(lambda match: self._parts.get(match[1], match[0]), text)
        if unknown := [name for name in _VARIABLE.findall(text) if name not in self._parts]:
            known = ", ".join(f"{{{each}}}" for each in self._parts)
            raise DatabaseAddressError(f"{option}: nova has no variable {{{unknown[0][:40]}}}", f"it has {known}")
        return filled


def _option_of(name: str) -> str:
    return f"database_connection in the mapping of cell {name[:100]!r}"


def _template_parts(connection: str) -> dict[str, str]:
    """What stands for each variable of a template. As in nova, a part that is missing is the text `None`."""
    if not connection:
        return {}
    try:
        parts = urlsplit(connection.strip())
        port = parts.port
    except ValueError:
        return {}
    own: dict[str, Any] = {"scheme": parts.scheme, "username": parts.username, "password": parts.password}
    own |= {"hostname": parts.hostname, "path": parts.path.lstrip("/")}
    own |= {"port": port, "query": parts.query, "fragment": parts.fragment}
    return {name: str(each) for name, each in own.items()}


def read_cells(connection: Connection, addresses: CellAddresses) -> CellList:
    """All cells, ordered by number: `connection` is one to the API database."""
    columns = [cell_mappings.c[name] for name in _COLUMNS]
    return make_cells(connection.execute(select(*columns).order_by(cell_mappings.c.id).limit(MOST_CELLS)), addresses)


def make_cells(rows: Iterable[Any], addresses: CellAddresses) -> CellList:
    """The cells of rows of `cell_mappings`; one whose address is not understood becomes a problem."""
    cells, problems = [], []
    for row in rows:
        name = row.name or row.uuid
        try:
            url = addresses.url_for(name, row.database_connection)
        except DatabaseAddressError as error:
            problems.append(f"cell {name} is left out: {error}")
            continue
        cells.append(Cell(row.id, row.uuid, name, url, bool(row.disabled)))
    return CellList(tuple(cells), tuple(problems))


_GROUPS = (
    select(
        instance_groups.c.id,
        instance_groups.c.uuid,
        instance_groups.c.name,
        instance_group_policy.c.policy,
        instance_group_policy.c.rules,
    )
    .join_from(
        instance_groups,
        instance_group_policy,
        instance_group_policy.c.group_id == instance_groups.c.id,
        isouter=True,
    )
    .order_by(instance_groups.c.id, instance_group_policy.c.id.desc())
)
_MEMBERS = select(instance_group_member.c.group_id, instance_group_member.c.instance_uuid).order_by(
    instance_group_member.c.id
)


def select_all_groups(connection: Connection) -> list[ServerGroup]:
    """All groups, ordered by id, with their members; FieldError as in `select_groups`."""
    uuids = list(connection.scalars(select(instance_groups.c.uuid).order_by(instance_groups.c.id)))
    found = select_groups(connection, uuids)
    return [found[uuid] for uuid in uuids if uuid in found]


def select_groups(connection: Connection, uuids: Collection[str]) -> dict[str, ServerGroup]:
    """Server group uuid -> group, for those that exist. FieldError for a policy or rule that nova does not have.

    Members come in the order in which they joined; on which hosts they are, the API database does not know.
    """
    rows = [
        row
        for some in in_chunks(uuids, MOST_KEYS)
        for row in connection.execute(_GROUPS.where(instance_groups.c.uuid.in_(some)))
    ]
    members: dict[int, list[str]] = defaultdict(list)
    for some in in_chunks((row.id for row in rows), MOST_KEYS):
        for number, uuid in connection.execute(_MEMBERS.where(instance_group_member.c.group_id.in_(some))):
            members[number].append(uuid)
    return {row.uuid: _group(row, tuple(members[row.id])) for row in rows}


def _group(row: Any, members: tuple[str, ...]) -> ServerGroup:
    rules = decode_column(row, "rules", _known_rules, JsonCache()) or {}
    return ServerGroup(row.policy, row.name or "", row.uuid, members, rules=rules)


def _known_rules(value: Any) -> Mapping[str, Any]:
    return {name: rule for name, rule in MAPPING.strict(value, "rules").items() if name == MAX_SERVER}


RECONCILE_SECONDS = 60.0
_TABLES = (cell_mappings, host_mappings, aggregates, aggregate_hosts, aggregate_metadata)
_SUMMARY = select(
    *(
        select(aggregate).select_from(table).scalar_subquery()
        for table in _TABLES
        for aggregate in (
            func.count(),
            func.max(table.c.id),
            func.max(table.c.updated_at),
            func.max(table.c.created_at),
        )
    )
)


class ApiState(NamedTuple):
    """What the API database says about the cloud."""

    cells: tuple[Cell, ...]
    """Cells whose address is understood, cell0 and disabled ones included."""
    host_cells: dict[str, int]
    """Host -> number of its cell. A host that is not in here must not be chosen."""
    aggregates: tuple[Aggregate, ...]
    """Ordered by id, each with its hosts by name."""
    problems: tuple[str, ...] = ()
    """One line for each row that is left out because it is not understood."""


class ApiReader:
    """Reader of nova's API database. Its methods may be called from any thread; reads of the state take turns."""

    def __init__(
        self,
        engine: Engine,
        addresses: CellAddresses,
        clock: Clock,
        *,
        reconcile_seconds: float = RECONCILE_SECONDS,
    ) -> None:
        """`engine`: one of `open_read_only`. `reconcile_seconds`: how often everything is read in any case."""
        self._engine, self._addresses, self._clock = engine, addresses, clock
        self._reconcile_seconds = reconcile_seconds
        self._state: ApiState | None = None
        self._summary: tuple[Any, ...] = ()
        self._read_at, self._started = clock.now(), 0.0
        self._lock = threading.Lock()

    def read_all(self) -> ApiState:
        """Everything, in six statements; a DatabaseError if that fails."""
        with self._lock, reading(self._engine, API_DATABASE) as connection:
            return self._read_all(connection, None)

    def read_changes(self) -> ApiState | None:
        """Everything if anything changed since the last read, else None: mostly one statement."""
        with self._lock, reading(self._engine, API_DATABASE) as connection:
            summary = tuple(connection.execute(_SUMMARY).one())
            is_due = self._clock.monotonic() - self._started >= self._reconcile_seconds
            before = self._state
            if before is not None and summary == self._summary and self._is_settled() and not is_due:
                return None
            now = self._read_all(connection, summary)
            return None if now == before else now

    def _is_settled(self) -> bool:
        """Whether the newest row was old enough at the last read that its second was over."""
        times = [each.replace(tzinfo=UTC) for each in self._summary if isinstance(each, datetime)]
        return all(each + OVERLAP < self._read_at for each in times)

    def _read_all(self, connection: Connection, summary: tuple[Any, ...] | None) -> ApiState:
        read_at, started = self._clock.now(), self._clock.monotonic()
        if summary is None:  # before the rows: what is written in between is then read twice, not never
            summary = tuple(connection.execute(_SUMMARY).one())
        cells = read_cells(connection, self._addresses)
        mappings = connection.execute(select(host_mappings.c.host, host_mappings.c.cell_id))
        host_cells = {row.host: row.cell_id for row in mappings}
        found, problems = _read_aggregates(connection)
        self._state = ApiState(cells.cells, host_cells, found, (*cells.problems, *problems))
        self._summary, self._read_at, self._started = summary, read_at, started
        return self._state

    def read_groups(self, uuids: Collection[str]) -> dict[str, ServerGroup]:
        """Server group uuid -> group with policy, rules and members, for those that exist: two statements."""
        with reading(self._engine, API_DATABASE) as connection:
            return select_groups(connection, uuids)

    def read_all_groups(self) -> list[ServerGroup]:
        """All server groups with policy, rules and members."""
        with reading(self._engine, API_DATABASE) as connection:
            return select_all_groups(connection)

    @property
    def cell0_id(self) -> int | None:
        """Number of the cell for instances that never had a host; None where it is not known."""
        cells = self._state.cells if self._state else ()
        return next((cell.id for cell in cells if cell.is_cell0), None)

    def read_instance_cells(self, uuids: Collection[str]) -> dict[str, int | None]:
        """Instance uuid -> number of its cell, None while it is in none; instances that do not exist are missing."""
        columns = instance_mappings.c
        chosen = select(columns.instance_uuid, columns.cell_id)
        with reading(self._engine, API_DATABASE) as connection:
            return {
                uuid: cell
                for some in in_chunks(uuids, MOST_KEYS)
                for uuid, cell in connection.execute(chosen.where(columns.instance_uuid.in_(some)))
            }

    def read_request_spec(self, instance_uuid: str) -> Any:
        """The RequestSpec object that nova has stored for an instance, as JSON data; BadInput if there is none."""
        columns = request_specs.c
        with reading(self._engine, API_DATABASE) as connection:
            found = connection.scalar(select(columns.spec).where(columns.instance_uuid == instance_uuid))
        try:
            return json.loads(found or "")
        except ValueError:
            raise BadInput(f"nova's API database has no request of the instance {instance_uuid}") from None


def _read_aggregates(connection: Connection) -> tuple[tuple[Aggregate, ...], list[str]]:
    metadata: dict[int, dict[str, str]] = defaultdict(dict)
    columns = aggregate_metadata.c
    for number, key, value in connection.execute(select(columns.aggregate_id, columns.key, columns.value)):
        metadata[number][key] = value
    hosts: dict[int, list[str]] = defaultdict(list)
    for number, host in connection.execute(select(aggregate_hosts.c.aggregate_id, aggregate_hosts.c.host)):
        hosts[number].append(host)
    found, problems = [], []
    names = select(aggregates.c.id, aggregates.c.uuid, aggregates.c.name).order_by(aggregates.c.id)
    for number, uuid, name in connection.execute(names):
        try:
            found.append(Aggregate(name, metadata[number], tuple(sorted(hosts[number])), number, uuid))
        except FieldError as error:
            problems.append(f"aggregate {number} is left out: {error}")
    return tuple(found), problems
