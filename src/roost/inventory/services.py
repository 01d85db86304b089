# SPDX-License-Identifier: Apache-2.0
"""Services in the tables, one per host and binary: which may take work, and which were heard of when.

A host without an agent has a static service, which counts as up. The first report or heartbeat of an agent takes it
over. Heartbeats are no changes: there would be thousands a second.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update

from roost.errors import BadInput, DatabaseConflict, UnknownName, nearest
from roost.inventory.row_encoder import derived_uuid
from roost.model import Service
from roost.store.bulk import Row, raw, rows_where
from roost.store.change_log import SERVICES, Change, note_changes
from roost.store.reconcile import Key, Reconciler
from roost.store.schema import services
from roost.store.transactions import writing

AGENT = "nova-compute"
"""The binary of the service that every host has."""
TOPIC = "compute"
LONGEST_SILENCE = timedelta(days=3650)
"""A service that was silent for longer is down in any case, and there are no dates before the year 1."""

_HEARTBEAT = ("last_seen_up", "created_at")
_STATE = ("disabled", "disabled_reason", "forced_down", "is_static")
_SERVICES = Reconciler(services, ("host", "binary"), columns=(*_STATE, *_HEARTBEAT), quiet=_HEARTBEAT)
_IS_AGENT = services.c.binary == AGENT
_NAMESPACE = uuid.UUID("e2a1f0b8-6a57-5c39-b7a0-3d2d6b0d9f42")
_MOST_COMPARED = 2000


# --- rows from what a source says --------------------------------------------------------------------


def service_row(host: str, service: Service, now: datetime) -> Row:
    """The row of `services` for a host that is new, without host and binary."""
    own = {"topic": TOPIC, "uuid": derived_uuid("service", host)}
    return own | service_flags(service) | signs_of_life(service, now)


def service_flags(service: Service) -> Row:
    """The columns that an operator sets."""
    return {
        "disabled": service.disabled,
        "disabled_reason": service.disabled_reason,
        "forced_down": service.forced_down,
    }


def signs_of_life(service: Service, now: datetime) -> Row:
    """The columns that say whether it is up: static, never heard of (and so down), or when it was last heard of."""
    if service.up is False:
        return {"is_static": False, "last_seen_up": None, "created_at": None}
    if service.up or service.seconds_since_seen is None:
        return {"is_static": True, "last_seen_up": None, "created_at": now}
    longest = LONGEST_SILENCE.total_seconds()
    silence = timedelta(seconds=max(-longest, min(service.seconds_since_seen, longest)))
    return {"is_static": False, "last_seen_up": now - silence, "created_at": now}


def speaks_of_life(service: Service) -> bool:
    """Whether the source says outright that the agent is alive, or not."""
    return service.up is not None or service.seconds_since_seen is not None


# --- written -----------------------------------------------------------------------------------------


def _lock_agents(connection: Connection, hosts: Collection[str]) -> dict[Key, Row]:
    """The agents' rows of these hosts, locked until the transaction ends; a host that has none is left out."""
    return _SERVICES.read(connection, "host", hosts, where=raw(services).c.binary == AGENT, is_locked=True)


def save_services(connection: Connection, wanted: Mapping[str, Service], now: datetime) -> list[Change]:
    """Make the services of hosts what a source says: what changed.

    A service that an agent has taken over stays up, or not, by its heartbeats, unless the source speaks of that.
    """
    stored = _lock_agents(connection, wanted.keys())
    rows = {}
    for host, service in wanted.items():
        key = host, AGENT
        rows[key] = service_row(host, service, now) | _kept_columns(stored.get(key), service)
    saved = _SERVICES.apply(connection, stored, rows, _place, now)
    return [Change(SERVICES, host) for host, _ in (*saved.new, *saved.changed)]


def _kept_columns(stored: Row | None, service: Service) -> Row:
    """What of a stored row a source does not change."""
    if stored is None or service.up is False:
        return {}
    is_taken_over = not stored["is_static"] and stored["last_seen_up"] is not None
    kept = ("is_static", *_HEARTBEAT) if is_taken_over and not speaks_of_life(service) else ("created_at",)
    return {name: stored[name] for name in kept}


def _place(row: Row) -> str:
    return f"service of host {row['host']}"


def take_over(connection: Connection, host: str, now: datetime) -> list[Change]:
    """An agent was heard of: its service is made if there is none, and is not static any more. What changed."""
    stored = _lock_agents(connection, [host])
    if not stored:
        seen = {"is_static": False, "last_seen_up": now, "report_count": 1}
        _SERVICES.apply(connection, {}, {(host, AGENT): service_row(host, Service(), now) | seen}, _place)
        return [Change(SERVICES, host)]
    (row,) = stored.values()
    seen = {"last_seen_up": now, "report_count": services.c.report_count + 1, "is_static": False}
    connection.execute(update(services).where(services.c.id == row["id"]).values(seen))
    return [Change(SERVICES, host)] if row["is_static"] else []


def save_heartbeat(engine: Engine, host: str, now: datetime) -> None:
    """The agent on a host is alive. That is a change only where its service was static, or not there."""
    with writing(engine) as connection:
        note_changes(connection, take_over(connection, host, now))


def save_service_heartbeat(engine: Engine, host: str, binary: str, topic: str, now: datetime) -> None:
    """A service that is no agent is alive. Its record is made with the first heartbeat."""
    seen = {"last_seen_up": now, "report_count": services.c.report_count + 1}
    own = (services.c.host == host) & (services.c.binary == binary)
    with writing(engine) as connection:
        if connection.execute(update(services).where(own).values(seen)).rowcount:
            return
    fresh = {"host": host, "binary": binary, "topic": topic, "uuid": str(uuid.uuid5(_NAMESPACE, f"{binary} {host}"))}
    try:
        with writing(engine) as connection:
            connection.execute(insert(services).values(**fresh, last_seen_up=now, created_at=now, report_count=1))
    except DatabaseConflict:  # another process of the same service was a moment faster
        return


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
        stored = _lock_agents(connection, [host])
        if not stored:
            known = connection.scalars(select(services.c.host).where(_IS_AGENT).limit(_MOST_COMPARED))
            raise UnknownName(f"there is no service on host {host!r}", nearest(host, known))
        wanted = {key: _flags(host, row, disabled, disabled_reason, forced_down) for key, row in stored.items()}
        saved = _SERVICES.apply(connection, stored, wanted, _place, now)
        note_changes(connection, [Change(SERVICES, host)] if saved.changed else [])


def _flags(host: str, row: Row, disabled: bool | None, reason: str | None, forced_down: bool | None) -> Row:
    is_disabled = row["disabled"] if disabled is None else disabled
    if reason is not None and not is_disabled:
        raise BadInput(f"host {host}: a reason, and it is not disabled", "disable it, or leave out the reason")
    kept = row["disabled_reason"] if reason is None else reason
    return {
        "disabled": is_disabled,
        "disabled_reason": kept if is_disabled else None,
        "forced_down": row["forced_down"] if forced_down is None else forced_down,
    }


def drop_static_service(connection: Connection, host: str) -> bool:
    """Delete the service of a host without an agent; False where it has an agent, or none."""
    static = (services.c.host == host) & _IS_AGENT & services.c.is_static
    return bool(connection.execute(delete(services).where(static)).rowcount)


# --- read --------------------------------------------------------------------------------------------


def read_services(
    connection: Connection, hosts: Collection[str] | None, now: datetime, service_down_time: float
) -> dict[str, Service]:
    """Host -> the service of its agent, up or down by its last heartbeat; of these hosts, or of all.

    An agent is up within `service_down_time` seconds of its last heartbeat. Services that are equal are one object.
    """
    shared: dict[tuple[Any, ...], Service] = {}
    found = {}
    for row in _read_agents(connection, hosts):
        key = row.disabled, row.disabled_reason, row.forced_down, _is_up(row, now, service_down_time)
        if key not in shared:
            shared[key] = Service(*key)
        found[row.host] = shared[key]
    return found


def _read_agents(connection: Connection, hosts: Collection[str] | None = None) -> Iterator[Any]:
    return rows_where(connection, select(services).where(_IS_AGENT), services.c.host, hosts)


def _is_up(row: Any, now: datetime, service_down_time: float) -> bool:
    """Whether the agent counts as alive, apart from what an operator set: heard of, or else made, so lately."""
    last = row.last_seen_up or row.created_at
    return row.is_static or (last is not None and abs((now - last).total_seconds()) <= service_down_time)


def read_last_heartbeats(
    connection: Connection, hosts: Collection[str] | None = None, since: datetime | None = None
) -> list[tuple[str, datetime | None, bool]]:
    """Host, time of its agent's last heartbeat, and whether it is static; of these hosts, or of all.

    The time is that at which the service was made where no agent was heard of; None: never. `since`: only hosts whose
    agent was heard of after that.
    """
    wanted = select(services.c.host, services.c.last_seen_up, services.c.created_at, services.c.is_static)
    wanted = wanted.where(_IS_AGENT) if since is None else wanted.where(_IS_AGENT, services.c.last_seen_up > since)
    rows = rows_where(connection, wanted, services.c.host, hosts)
    return [(host, seen or made, is_static) for host, seen, made, is_static in rows]


def read_service_entries(connection: Connection, now: datetime) -> dict[str, dict[str, Any]]:
    """Host -> the `service` entry of a fleet file; empty where everything is the default."""
    return {row.host: _entry(row, now) for row in _read_agents(connection)}


def _entry(row: Any, now: datetime) -> dict[str, Any]:
    fields = {
        "disabled": row.disabled or None,
        "disabled_reason": row.disabled_reason,
        "forced_down": row.forced_down or None,
    }
    entry = {name: value for name, value in fields.items() if value is not None}
    if not row.is_static:
        last = row.last_seen_up or row.created_at
        entry |= {"up": False} if last is None else {"seconds_since_seen": (now - last).total_seconds()}
    return entry
