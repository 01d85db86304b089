# SPDX-License-Identifier: Apache-2.0
"""Removal of decisions that are too old or too many, and of the states that no decision left needs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select

from roost.decisions.options import DecisionOptions
from roost.decisions.table_changes import OLDEST_CHECKPOINT_SECONDS
from roost.store.schema import decision_servers, decisions, scheduler_runs, table_changes, table_checkpoints
from roost.store.statements import MOST_KEYS, column_in, in_chunks
from roost.store.store_clock import PresentTime, read_time
from roost.store.transactions import database_errors, writing

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
