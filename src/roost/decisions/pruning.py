# SPDX-License-Identifier: Apache-2.0
"""Removal of decisions that are too old or too many, and of the states that no decision left needs."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, select

from roost.decisions.options import DecisionOptions
from roost.store.bulk import MOST_KEYS, column_in, in_chunks
from roost.store.error_mapping import database_errors
from roost.store.schema import decision_servers, decisions, scheduler_runs, table_changes, table_checkpoints
from roost.store.store_clock import PresentTime, read_time
from roost.store.transactions import writing

MOST_REMOVED = 2000
"""Decisions that one transaction removes, so that other writers do not wait long."""


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
    _remove_states(engine, now - timedelta(hours=options.decision_state_retention_hours))
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


def _remove_states(engine: Engine, oldest: datetime) -> None:
    """Remove checkpoints that no kept decision was made from, the changes before those kept, and ended runs."""
    with writing(engine) as connection:
        first = connection.scalar(select(func.min(decisions.c.created_at)).where(decisions.c.is_placed))
        newest = connection.scalar(select(func.max(decisions.c.created_at)))
        limit = max(oldest, first or newest or oldest)
        for run_uuid in connection.scalars(select(table_checkpoints.c.run_uuid).distinct()).all():
            _remove_states_of(connection, run_uuid, limit)
        _remove_empty_runs(connection)


def _remove_states_of(connection: Connection, run_uuid: str, limit: datetime) -> None:
    """Of a scheduler: keep the last checkpoint before the limit, all later ones, and the changes after that one."""
    checkpoints, changes = table_checkpoints.c, table_changes.c
    own = checkpoints.run_uuid == run_uuid
    base = connection.scalar(select(func.max(checkpoints.position)).where(own, checkpoints.created_at < limit))
    if base is None:
        return
    latest = connection.scalar(select(func.max(changes.created_at)).where(changes.run_uuid == run_uuid))
    is_newest = base == connection.scalar(select(func.max(checkpoints.position)).where(own))
    if is_newest and (latest is None or latest < limit) and _has_ended(connection, run_uuid):
        base += 1  # nothing kept was decided from this one either
    connection.execute(delete(table_checkpoints).where(own, checkpoints.position < base))
    connection.execute(delete(table_changes).where(changes.run_uuid == run_uuid, changes.last < base))


def _has_ended(connection: Connection, run_uuid: str) -> bool:
    """Whether a later run of a scheduler with the same name has begun."""
    runs = scheduler_runs.c
    row = connection.execute(select(runs.host, runs.created_at).where(runs.uuid == run_uuid)).first()
    if row is None:
        return True
    later = (
        select(func.count())
        .select_from(scheduler_runs)
        .where(runs.host == row.host, runs.created_at > row.created_at)
    )
    return bool(connection.scalar(later))


def _remove_empty_runs(connection: Connection) -> None:
    """Remove runs that have ended, and of which no state is left."""
    kept = set(connection.scalars(select(table_checkpoints.c.run_uuid).distinct()).all())
    for run_uuid in connection.scalars(select(scheduler_runs.c.uuid)).all():
        if run_uuid not in kept and _has_ended(connection, run_uuid):
            connection.execute(delete(scheduler_runs).where(scheduler_runs.c.uuid == run_uuid))
