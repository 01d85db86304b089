# SPDX-License-Identifier: Apache-2.0
"""Decisions and what they saw, in the database. Written in batches by `recorder.py`, removed by `pruning.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Select, func, insert, select, type_coerce

from roost.decisions.records import DecisionRecord
from roost.decisions.table_changes import ChangeGroup, Checkpoint, apply_changes, changes_to_json
from roost.decisions.table_image import image_of, table_of
from roost.errors import UnknownName
from roost.hosts import HostTable
from roost.store.change_log import ReadPosition, is_unread
from roost.store.columns import LONG_TEXT, compress_json, decompress_json
from roost.store.schema import decision_servers, decisions, scheduler_runs, table_changes, table_checkpoints
from roost.store.statements import Statement, insert_statement, send_batch
from roost.store.store_clock import PresentTime, read_time_or_none, stamp_of
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
