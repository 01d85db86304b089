# SPDX-License-Identifier: Apache-2.0
"""The services of hosts in the tables: who may take work, and which agents are alive."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, select, update

from roost.errors import BadInput, UnknownName, nearest
from roost.inventory.bulk import Row, insert_rows, update_rows
from roost.inventory.column_limits import check_rows
from roost.inventory.node_reader import AGENT
from roost.inventory.row_encoder import service_flags, service_row, signs_of_life, speaks_of_life
from roost.model import Service
from roost.store.bulk import rows_where
from roost.store.change_log import SERVICES, Change, note_changes
from roost.store.schema import services
from roost.store.transactions import writing

_STATE = ("disabled", "disabled_reason", "forced_down", "is_static")
"""What others are told of; heartbeats are no changes."""
_SAVED = (*_STATE, "last_seen_up", "created_at", "updated_at")
_MOST_COMPARED = 2000


def lock_services(connection: Connection, hosts: Collection[str]) -> dict[str, Row]:
    """Host -> the row of its service, locked until the transaction ends; a host that has none is left out."""
    wanted = select(services).where(services.c.binary == AGENT).with_for_update()
    return {row.host: dict(row._mapping) for row in rows_where(connection, wanted, services.c.host, hosts)}


def save_services(connection: Connection, wanted: Mapping[str, Service], now: datetime) -> list[Change]:
    """Write what differs from what a source says: which hosts' services changed.

    A service that an agent has taken over stays alive, or not, by its heartbeats, unless the source speaks of that.
    """
    known = lock_services(connection, wanted.keys())
    new = [service_row(host, service, now) for host, service in wanted.items() if host not in known]
    _check(new)
    insert_rows(connection, services, new)
    changed = []
    for host, row in known.items():
        after = row | _wanted_columns(row, wanted[host], now)
        if after != row:
            is_told = any(after[name] != row[name] for name in _STATE)
            changed.append((after | {"updated_at": now} if is_told else after, is_told))
    _check(row for row, _ in changed)
    update_rows(connection, services, ("id",), [{name: row[name] for name in ("id", *_SAVED)} for row, _ in changed])
    hosts = [row["host"] for row in new] + [row["host"] for row, is_told in changed if is_told]
    return [Change(SERVICES, host) for host in hosts]


def _wanted_columns(row: Row, service: Service, now: datetime) -> Row:
    is_taken_over = not row["is_static"] and row["last_seen_up"] is not None
    flags = service_flags(service)
    if is_taken_over and not speaks_of_life(service):
        return flags
    alive = signs_of_life(service, now)
    if service.up is not False:  # when it was made is known, unless that would count as a sign of life
        alive["created_at"] = row["created_at"]
    return flags | alive


def _check(rows: Iterable[Row]) -> None:
    check_rows(services, rows, lambda row: f"service of host {row['host']}")


def take_over(connection: Connection, host: str, now: datetime) -> list[Change]:
    """An agent was heard of: its service is made if there is none, and is not static any more."""
    row = lock_services(connection, [host]).get(host)
    if row is None:
        fresh = service_row(host, Service(), now) | {"is_static": False, "last_seen_up": now, "report_count": 1}
        _check([fresh])
        insert_rows(connection, services, [fresh])
        return [Change(SERVICES, host)]
    seen = {"last_seen_up": now, "report_count": services.c.report_count + 1, "is_static": False}
    connection.execute(update(services).where(services.c.id == row["id"]).values(seen))
    return [Change(SERVICES, host)] if row["is_static"] else []


def save_heartbeat(engine: Engine, host: str, now: datetime) -> None:
    """The agent on a host is alive. That is no change, unless nobody had heard of it before."""
    with writing(engine) as connection:
        note_changes(connection, take_over(connection, host, now))


def set_service(
    engine: Engine,
    host: str,
    *,
    disabled: bool | None = None,
    disabled_reason: str | None = None,
    forced_down: bool | None = None,
    now: datetime | None = None,
) -> None:
    """What an operator says of a host; None leaves it as it is. A host that is not disabled has no reason to be."""
    with writing(engine) as connection:
        row = lock_services(connection, [host]).get(host)
        if row is None:
            raise UnknownName(f"there is no service on host {host!r}", _nearest_host(connection, host))
        after = row | _said(row, disabled, disabled_reason, forced_down)
        if after != row:
            _check([after])
            kept = {name: after[name] for name in _STATE} | ({"updated_at": now} if now else {})
            connection.execute(update(services).where(services.c.id == row["id"]).values(kept))
            note_changes(connection, [Change(SERVICES, host)])


def _said(row: Row, disabled: bool | None, reason: str | None, forced_down: bool | None) -> Row:
    is_disabled = row["disabled"] if disabled is None else disabled
    if reason is not None and not is_disabled:
        raise BadInput(f"host {row['host']}: a reason, and it is not disabled", "disable it, or leave out the reason")
    kept = row["disabled_reason"] if reason is None else reason
    return {
        "disabled": is_disabled,
        "disabled_reason": kept if is_disabled else None,
        "forced_down": row["forced_down"] if forced_down is None else forced_down,
    }


def _nearest_host(connection: Connection, host: str) -> str:
    known: Any = connection.scalars(select(services.c.host).where(services.c.binary == AGENT).limit(_MOST_COMPARED))
    return nearest(host, known)
