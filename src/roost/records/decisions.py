# SPDX-License-Identifier: Apache-2.0
"""Decisions and what they saw, in the database: written in batches by `recorder.py`, asked for, and removed.

Removed is what is too old or too many, and the states that no decision left needs. Answers are JSON data: lists of
decisions, and one of them with the state that it was made from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, delete, func, insert, select, type_coerce

from roost.errors import FieldError, UnknownName
from roost.hosts import HostTable
from roost.model.kinds import MOST
from roost.records.decision_codec import DecisionRecord, image_of, table_of
from roost.records.options import DecisionOptions
from roost.records.table_changes import (
    OLDEST_CHECKPOINT_SECONDS,
    ChangeGroup,
    Checkpoint,
    apply_changes,
    changes_to_json,
)
from roost.store.change_log import ReadPosition, is_unread
from roost.store.columns import LONG_TEXT, compress_json, decompress_json
from roost.store.schema.history import decision_servers, decisions, scheduler_runs, table_changes, table_checkpoints
from roost.store.statements import MOST_KEYS, Statement, column_in, in_chunks, insert_statement, send_batch
from roost.store.store_clock import PresentTime, read_time, read_time_or_none, stamp_of
from roost.store.transactions import database_errors, writing

PART_BYTES = 1 << 20
"""Of a checkpoint's text in one row: databases and their clients limit the size of a value."""
MOST_LISTED = 1000


_WITHOUT_RECORD = tuple(each for each in decisions.c if each.name != "record")


class SchedulerRun(NamedTuple):
    """A scheduler from its start, or its last reload, on."""

    uuid: str
    host: str
    """Name of the scheduler; its worker processes share it."""
    options: Mapping[str, Any]
    """Those that it decides by, without secrets."""


class NewDecision(NamedTuple):
    """A decision that is to be written."""

    number: int
    """Counts the decisions of its scheduler."""
    request_id: str
    project_id: str | None
    hosts: int
    """Looked at."""
    wanted: int
    """Instances asked for."""
    is_placed: bool
    summary: str
    record: str
    """The compressed data of the decision."""
    position: int
    servers: Sequence[str]
    """Uuids of the instances."""


@dataclass(frozen=True)
class RecordedState:
    """What is needed to restore the table that a decision saw, as JSON data that can be sent."""

    options: Mapping[str, Mapping[str, Any]]
    """Section -> name -> value of the scheduler's options, without secrets."""
    checkpoint: str
    """The compressed image of the table at `checkpoint_position`."""
    checkpoint_position: int
    changes: tuple[str, ...]
    """Compressed groups of changes since."""
    position: int

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON data; `RecordedState(**data)` is equal."""
        return vars(self) | {"changes": list(self.changes)}

    def restore(self) -> HostTable:
        """The table of that moment."""
        table = table_of(decompress_json(self.checkpoint))
        for each in self.changes:
            apply_changes(table, decompress_json(each), self.checkpoint_position, self.position)
        return table


class DecisionStore:
    """The decisions in one database. Thread-safe."""

    def __init__(self, engine: Engine, times: PresentTime) -> None:
        """`times`: stamps rows, usually by the clock of the database."""
        self._engine, self._times = engine, times

    # --- write -------------------------------------------------------------------------------------------

    def add_run(self, run: SchedulerRun) -> None:
        """Note a scheduler that begins; no effect if it is known."""
        with writing(self._engine) as connection:
            _ensure_run(connection, run, stamp_of(self._times))

    def add(
        self,
        run: SchedulerRun,
        states: Sequence[Checkpoint | ChangeGroup],
        made: Sequence[NewDecision],
        is_repeat: bool,
    ) -> None:
        """Write states and decisions of a run, all or none. `is_repeat`: leave out what is there already."""
        checkpoints = [(each.position, _parts_of(each.table)) for each in states if isinstance(each, Checkpoint)]
        groups = [each for each in states if isinstance(each, ChangeGroup)]
        payload = compress_json(changes_to_json(groups)) if groups else ""
        changes = [(groups[0].position, groups[-1].position, payload)] if groups else []
        if is_repeat and self._is_written(run.uuid, made, groups, checkpoints):
            return
        if checkpoints:  # while it was idle, the run may have been pruned
            self.add_run(run)
        with writing(self._engine) as connection:
            owner = run.uuid, read_time_or_none(self._times, connection)
            send_batch(connection, list(_inserts(connection.dialect.name, owner, checkpoints, changes, made)))

    def _is_written(
        self,
        run_uuid: str,
        made: Sequence[NewDecision],
        groups: Sequence[ChangeGroup],
        checkpoints: Sequence[tuple[int, Any]],
    ) -> bool:
        """Whether the transaction that seemed to fail was committed: its rows are there, all or none."""
        keys = (
            (decisions, "number", [each.number for each in made]),
            (table_changes, "first", [each.position for each in groups]),
            (table_checkpoints, "position", [position for position, _ in checkpoints]),
        )
        table, column, numbers = next((each for each in keys if each[2]), keys[0])
        if not numbers:
            return True
        own = (table.c.run_uuid == run_uuid) & (table.c[column] == numbers[0])
        with database_errors(self._engine), self._engine.connect() as connection:
            return bool(connection.scalar(select(func.count()).select_from(table).where(own)))

    # --- read --------------------------------------------------------------------------------------------

    def list_decisions(
        self,
        *,
        server_uuid: str | None = None,
        request_id: str | None = None,
        project_id: str | None = None,
        is_placed: bool | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Any]:
        """Rows of decisions, the latest first, without their records. `before`: those with a smaller id."""
        wanted: Select[Any] = select(*_WITHOUT_RECORD).order_by(decisions.c.id.desc()).limit(min(limit, MOST_LISTED))
        conditions = {"request_id": request_id, "project_id": project_id, "is_placed": is_placed}
        wanted = wanted.where(*(decisions.c[key] == value for key, value in conditions.items() if value is not None))
        if server_uuid is not None:
            wanted = wanted.join(decision_servers, _is_same_decision).where(
                decision_servers.c.server_uuid == server_uuid
            )
        if before is not None:
            wanted = wanted.where(decisions.c.id < before)
        with database_errors(self._engine), self._engine.connect() as connection:
            return list(connection.execute(wanted))

    def list_unread(
        self, connection: Connection, since: ReadPosition, until: ReadPosition | None = None, limit: int = 500
    ) -> list[Any]:
        """Rows of the decisions that a reader at `since` has not read, by id, without their records.

        `until`: only those that a reader there has read.
        """
        wanted = select(*_WITHOUT_RECORD).where(is_unread(decisions.c.id, since, until))
        return list(connection.execute(wanted.order_by(decisions.c.id).limit(limit)))

    def get(self, number: int) -> DecisionRecord:
        """A decision by its id; UnknownName where there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            row = connection.execute(select(decisions).where(decisions.c.id == number)).first()
            if row is None:
                newest = connection.scalar(select(func.max(decisions.c.id)))
                hint = f"the latest is {newest}; old ones are removed" if newest else "none is recorded yet"
                raise UnknownName(f"there is no decision {number}", hint)
        return DecisionRecord(
            row.id, row.created_at, row.request_id, row.project_id, row.run_uuid, row.position, row.record
        )

    def read_state(self, record: DecisionRecord) -> RecordedState | None:
        """What the decision saw; None where that is no longer kept."""
        with database_errors(self._engine), self._engine.connect() as connection:
            options = connection.execute(
                select(scheduler_runs.c.options).where(scheduler_runs.c.uuid == record.run_uuid)
            ).scalar_one_or_none()
            checkpoint = _checkpoint_before(connection, record)
            if options is None or checkpoint is None:
                return None
            changes = _changes_between(connection, record.run_uuid, checkpoint, record.position)
            text = _read_checkpoint(connection, record.run_uuid, checkpoint)
        if changes is None:
            return None
        return RecordedState(options, text, checkpoint, changes, record.position)


def read_latest_options(connection: Connection) -> Mapping[str, Mapping[str, Any]] | None:
    """The options of the scheduler that began last; None where none has recorded them."""
    wanted = select(scheduler_runs.c.options).order_by(scheduler_runs.c.created_at.desc()).limit(1)
    found: Mapping[str, Mapping[str, Any]] | None = connection.execute(wanted).scalar_one_or_none()
    return found


_is_same_decision = (decision_servers.c.run_uuid == decisions.c.run_uuid) & (
    decision_servers.c.number == decisions.c.number
)


def _ensure_run(connection: Connection, run: SchedulerRun, created_at: Any) -> None:
    runs = scheduler_runs.c
    if connection.scalar(select(runs.uuid).where(runs.uuid == run.uuid)) is None:
        connection.execute(insert(scheduler_runs).values(**run._asdict(), created_at=created_at))


_OWNER = ("run_uuid", "created_at")
_CHECKPOINT = (*_OWNER, "position", "part", "payload")
_CHANGES = (*_OWNER, "first", "last", "payload")
_DECISION = (*_OWNER, *NewDecision._fields[:-1])
_SERVER = ("server_uuid", "run_uuid", "number")


def _inserts(
    dialect: str,
    owner: tuple[str, datetime | None],
    checkpoints: Sequence[tuple[int, list[str]]],
    changes: Sequence[tuple[int, int, str]],
    made: Sequence[NewDecision],
) -> Iterator[Statement]:
    """The statements that write a batch. `owner`: uuid of its run, and when it is written; None: PostgreSQL knows."""
    for position, parts in checkpoints:
        for number, text in enumerate(parts):  # each is as large as a statement should be
            row = (*owner, position, number, text)
            yield insert_statement(dialect, table_checkpoints, _CHECKPOINT, [row], "created_at")
    if changes:
        yield insert_statement(dialect, table_changes, _CHANGES, [(*owner, *each) for each in changes], "created_at")
    if made:
        rows = [(*owner, *each[:-1]) for each in made]
        yield insert_statement(dialect, decisions, _DECISION, rows, "created_at")
    servers = [(uuid, owner[0], each.number) for each in made for uuid in dict.fromkeys(each.servers)]
    if servers:
        yield insert_statement(dialect, decision_servers, _SERVER, servers)


# --- states ------------------------------------------------------------------------------------------


def _parts_of(table: HostTable) -> list[str]:
    text = compress_json(image_of(table))
    return [text[start : start + PART_BYTES] for start in range(0, len(text), PART_BYTES)]


def _checkpoint_before(connection: Connection, record: DecisionRecord) -> int | None:
    own = (table_checkpoints.c.run_uuid == record.run_uuid) & (table_checkpoints.c.position <= record.position)
    found: int | None = connection.scalar(select(func.max(table_checkpoints.c.position)).where(own))
    return found


def _read_checkpoint(connection: Connection, run_uuid: str, position: int) -> str:
    own = (table_checkpoints.c.run_uuid == run_uuid) & (table_checkpoints.c.position == position)
    return "".join(
        connection.scalars(select(table_checkpoints.c.payload).where(own).order_by(table_checkpoints.c.part))
    )


def _changes_between(connection: Connection, run_uuid: str, after: int, until: int) -> tuple[str, ...] | None:
    """The compressed groups beyond one position, up to another; None if some of them are missing."""
    overlaps = (table_changes.c.last > after) & (table_changes.c.first <= until)
    columns = table_changes.c.first, table_changes.c.last, type_coerce(table_changes.c.payload, LONG_TEXT)
    wanted = select(*columns).where(table_changes.c.run_uuid == run_uuid, overlaps).order_by(table_changes.c.first)
    rows = connection.execute(wanted).all()
    reached = after
    for first, last, _ in rows:
        if first > reached + 1:
            return None
        reached = last
    return tuple(payload for _, _, payload in rows) if reached >= until else None


FILTERS = ("server", "request_id", "project_id", "placed", "before", "limit")
REQUEST_PREFIX = "req-"
_NUMBER = re.compile(r"[0-9]{1,18}")
USUAL_LIMIT = 100


class DecisionQueries:
    """Answers questions about the decisions in one database."""

    def __init__(self, store: DecisionStore, find_server: Callable[[str], str]) -> None:
        """`find_server`: the uuid of a server that is given by its name or uuid; UnknownName where there is none."""
        self._store, self._find_server = store, find_server

    def list_decisions(self, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The decisions that match all filters, the latest first, without their records."""
        if not isinstance(filters, Mapping) or not set(filters) <= set(FILTERS):
            raise FieldError("filters", "has an unknown field", f"known: {', '.join(FILTERS)}")
        server = filters.get("server")
        found = self._store.list_decisions(
            server_uuid=None if server is None else self._find_server(str(server)),
            request_id=filters.get("request_id"),
            project_id=filters.get("project_id"),
            is_placed=filters.get("placed"),
            before=_whole_number(filters, "before"),
            limit=_whole_number(filters, "limit") or USUAL_LIMIT,
        )
        return [describe_listed(each) for each in found]

    def get_decision(self, decision: Any, with_state: bool = False) -> dict[str, Any]:
        """A decision by its id, by the id of its request, or the latest one about a server.

        `with_state`: also what is needed to restore the table that it saw; null where that is no longer kept.
        """
        record = self._store.get(self._find(str(decision)))
        found = {
            "id": record.id,
            "created_at": record.created_at.isoformat(timespec="seconds"),
            "request_id": record.request_id,
            "project_id": record.project_id,
            "data": record.data,
        }
        if with_state:
            state = self._store.read_state(record)
            found["state"] = None if state is None else state.to_json()
        return found

    def _find(self, wanted: str) -> int:
        """The id of the decision that is meant."""
        if _NUMBER.fullmatch(wanted):
            return int(wanted)
        if wanted.startswith(REQUEST_PREFIX):
            found = self._store.list_decisions(request_id=wanted, limit=1)
            what = f"request {wanted[:60]}"
        else:
            found = self._store.list_decisions(server_uuid=self._find_server(wanted), limit=1)
            what = f"server {wanted[:60]}"
        if not found:
            raise UnknownName(f"no decision is recorded for {what}", "old ones are removed; see roost decision list")
        return int(found[0].id)


def describe_listed(row: Any) -> dict[str, Any]:
    """A decision in a list, without its record."""
    return {
        "id": row.id,
        "created_at": row.created_at.isoformat(timespec="seconds"),
        "request_id": row.request_id,
        "project_id": row.project_id,
        "placed": row.is_placed,
        "instances": row.wanted,
        "hosts": row.hosts,
        "summary": row.summary,
    }


def _whole_number(filters: Mapping[str, Any], name: str) -> int | None:
    value = filters.get(name)
    if value is not None and not (isinstance(value, int) and 0 < value <= MOST):
        raise FieldError(name, f"{str(value)[:60]!r} is no whole number above 0")
    return value


MOST_REMOVED = 2000
"""Decisions that one transaction removes, so that other writers do not wait long."""
IDLE_UNTIL_ENDED = timedelta(seconds=2 * OLDEST_CHECKPOINT_SECONDS)
"""A run that writes nothing for so long has ended, or begins with a checkpoint once it goes on."""


def prune_decisions(engine: Engine, options: DecisionOptions, times: PresentTime) -> int:
    """Remove what exceeds the options: how many decisions."""
    with database_errors(engine), engine.connect() as connection:
        now = read_time(times, connection)
    removed = 0
    for is_placed, hours, most in (
        (True, options.decision_retention_hours, options.decisions_kept),
        (False, options.failed_decision_retention_hours, options.failed_decisions_kept),
    ):
        while count := _remove_some(engine, is_placed, now - timedelta(hours=hours), most):
            removed += count
    _remove_states(engine, options, now)
    return removed


def _remove_some(engine: Engine, is_placed: bool, oldest: datetime, most: int) -> int:
    """Remove the oldest decisions of a kind: those before a time, and those beyond the `most` latest."""
    with writing(engine) as connection:
        kind = decisions.c.is_placed.is_(is_placed)
        beyond = connection.scalar(
            select(decisions.c.id).where(kind).order_by(decisions.c.id.desc()).offset(most).limit(1)
        )
        is_surplus: ColumnElement[bool] = decisions.c.created_at < oldest
        if beyond is not None:
            is_surplus = is_surplus | (decisions.c.id <= beyond)
        wanted = select(decisions.c.id, decisions.c.run_uuid, decisions.c.number).where(kind, is_surplus)
        rows = connection.execute(wanted.order_by(decisions.c.id).limit(MOST_REMOVED)).all()
        for chunk in in_chunks(rows, MOST_KEYS):
            connection.execute(
                delete(decisions).where(column_in(connection, decisions.c.id, [row.id for row in chunk]))
            )
            for run_uuid in {row.run_uuid for row in chunk}:
                numbers = [row.number for row in chunk if row.run_uuid == run_uuid]
                own = decision_servers.c.run_uuid == run_uuid
                connection.execute(
                    delete(decision_servers).where(own, column_in(connection, decision_servers.c.number, numbers))
                )
        return len(rows)


def _remove_states(engine: Engine, options: DecisionOptions, now: datetime) -> None:
    """Remove checkpoints and changes that no kept decision needs, and runs of schedulers that have ended."""
    with writing(engine) as connection:
        limit = max(_times_from_which_states_are_needed(connection, options, now))
        ended = min(limit, now - IDLE_UNTIL_ENDED)
        for run_uuid in connection.scalars(select(table_checkpoints.c.run_uuid).distinct()).all():
            if _was_last_used(connection, run_uuid) < ended:
                connection.execute(delete(table_checkpoints).where(table_checkpoints.c.run_uuid == run_uuid))
                connection.execute(delete(table_changes).where(table_changes.c.run_uuid == run_uuid))
            else:
                _remove_states_before(connection, run_uuid, limit)
        _remove_ended_runs(connection, ended)


def _times_from_which_states_are_needed(
    connection: Connection, options: DecisionOptions, now: datetime
) -> Iterator[datetime]:
    """The latest of these counts: the age that options allow, the first decision, the first that its number allows.

    States grow with what is placed, so `decisions_kept` bounds them, too: a failed decision that is kept for longer
    than all that was placed after it has no state.
    """
    yield now - timedelta(hours=options.decision_state_retention_hours)
    if (first := connection.scalar(select(func.min(decisions.c.created_at)))) is not None:
        yield first
    if options.decisions_kept:
        placed = select(decisions.c.created_at).where(decisions.c.is_placed).order_by(decisions.c.id.desc())
        if (bound := connection.scalar(placed.offset(options.decisions_kept - 1).limit(1))) is not None:
            yield bound


def _was_last_used(connection: Connection, run_uuid: str) -> datetime:
    """When a state of a run, or a decision that was made from one, was last written."""
    newest = [
        select(func.max(table.c.created_at)).where(table.c.run_uuid == run_uuid)
        for table in (table_checkpoints, table_changes)
    ]
    own = select(decisions.c.created_at).where(decisions.c.run_uuid == run_uuid)
    found = map(connection.scalar, (*newest, own.order_by(decisions.c.number.desc()).limit(1)))
    times: list[datetime] = [time for time in found if time is not None]
    return max(times)


def _remove_states_before(connection: Connection, run_uuid: str, limit: datetime) -> None:
    """Of a run: keep the last checkpoint before the limit, all later ones, and the changes after that one."""
    checkpoints, changes = table_checkpoints.c, table_changes.c
    own = checkpoints.run_uuid == run_uuid
    base = connection.scalar(select(func.max(checkpoints.position)).where(own, checkpoints.created_at < limit))
    if base is not None:
        connection.execute(delete(table_checkpoints).where(own, checkpoints.position < base))
        connection.execute(delete(table_changes).where(changes.run_uuid == run_uuid, changes.last < base))


def _remove_ended_runs(connection: Connection, ended: datetime) -> None:
    """Remove runs that are idle since then, and have no states left; never the newest, whose options are in use."""
    runs = scheduler_runs.c
    kept = set(connection.scalars(select(table_checkpoints.c.run_uuid).distinct()).all())
    for run in connection.execute(select(runs.uuid, runs.created_at).order_by(runs.created_at.desc()).offset(1)):
        if run.uuid not in kept and run.created_at < ended:
            connection.execute(delete(scheduler_runs).where(runs.uuid == run.uuid))
