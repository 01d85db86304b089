# SPDX-License-Identifier: Apache-2.0
"""Services in the database, one per host and binary: flags that operators set, and heartbeats.

A host without an agent has a static service, which counts as up. With the first report or heartbeat of an agent it
becomes the agent's. Heartbeats are not recorded in the change log: there would be thousands a second. They are
stamped by the clock of the database, and compared with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from roost.errors import MOST_COMPARED, BadInput, DatabaseConflict, UnknownName, nearest
from roost.model import Service
from roost.records.node_rows import derived_uuid
from roost.records.outages import HeartbeatRule, read_heartbeat_rule
from roost.store.change_log import SERVICES, Change, record_changes
from roost.store.reconcile import Reconciler, RowKey
from roost.store.schema.fleet import services
from roost.store.statements import Row, read_rows, with_json_as_text
from roost.store.store_clock import PresentTime, StoreClock, read_time, stamp_of
from roost.store.transactions import database_errors, writing

AGENT = "nova-compute"
"""The binary of the service that every host has."""
TOPIC = "compute"
LONGEST_HEARTBEAT_AGE = timedelta(days=3650)
"""Ages of heartbeats are clamped to this: a service is down long before, and dates do not go below year 1."""

_HEARTBEAT = ("last_seen_up", "created_at")
_FLAGS = ("disabled", "disabled_reason", "forced_down", "is_static")
_SERVICE_ROWS = Reconciler(services, ("host", "binary"), columns=(*_FLAGS, *_HEARTBEAT), quiet=_HEARTBEAT)
_IS_AGENT = services.c.binary == AGENT
_SERVICE_NAMESPACE = uuid.UUID("e2a1f0b8-6a57-5c39-b7a0-3d2d6b0d9f42")


# --- rows --------------------------------------------------------------------------------------------


def service_row(host: str, service: Service, now: datetime) -> Row:
    """The row of `services` for the agent of a new host, without host and binary."""
    own = {"topic": TOPIC, "uuid": derived_uuid("service", host)}
    return own | service_flags(service) | heartbeat_columns(service, now)


def service_flags(service: Service) -> Row:
    """The columns that an operator sets."""
    return {
        "disabled": service.disabled,
        "disabled_reason": service.disabled_reason,
        "forced_down": service.forced_down,
    }


def heartbeat_columns(service: Service, now: datetime) -> Row:
    """The columns by which a service is up or down: static, without a heartbeat (down), or with the last one."""
    if service.up is False:
        return {"is_static": False, "last_seen_up": None, "created_at": None}
    if service.up or service.seconds_since_seen is None:
        return {"is_static": True, "last_seen_up": None, "created_at": now}
    longest = LONGEST_HEARTBEAT_AGE.total_seconds()
    age = timedelta(seconds=max(-longest, min(service.seconds_since_seen, longest)))
    return {"is_static": False, "last_seen_up": now - age, "created_at": now}


def states_liveness(service: Service) -> bool:
    """Whether an entry of a fleet file says explicitly that the agent is up or down, or its last heartbeat."""
    return service.up is not None or service.seconds_since_seen is not None


# --- write -------------------------------------------------------------------------------------------


def lock_agents(connection: Connection, hosts: Collection[str]) -> dict[RowKey, Row]:
    """The rows of the agents on these hosts, locked until the transaction ends; a host without one is left out."""
    is_agent = with_json_as_text(services).c.binary == AGENT
    return _SERVICE_ROWS.read(connection, "host", hosts, where=is_agent, is_locked=True)


def save_services(connection: Connection, wanted: Mapping[str, Service], now: datetime) -> list[Change]:
    """Make the services of hosts equal to the wanted ones: the entries of the change log.

    The service of an agent stays up or down by its heartbeats, unless the wanted one states liveness itself.
    """
    stored = lock_agents(connection, wanted.keys())
    rows = {}
    for host, service in wanted.items():
        key = host, AGENT
        rows[key] = service_row(host, service, now) | _retained_columns(stored.get(key), service)
    saved = _SERVICE_ROWS.apply(connection, stored, rows, _describe_service, now)
    return [Change(SERVICES, host) for host, _ in (*saved.new, *saved.changed)]


def _retained_columns(stored: Row | None, service: Service) -> Row:
    """The columns of the stored row that an import leaves unchanged."""
    if stored is None or service.up is False:
        return {}
    has_agent = not stored["is_static"] and stored["last_seen_up"] is not None
    names = ("is_static", *_HEARTBEAT) if has_agent and not states_liveness(service) else ("created_at",)
    return {name: stored[name] for name in names}


def _describe_service(row: Row) -> str:
    return f"service of host {row['host']}"


def record_agent_alive(connection: Connection, host: str, now: PresentTime) -> list[Change]:
    """Save a heartbeat of an agent: the entries of the change log, empty if its service exists and is not static.

    Inserts the service if the host has none; a static one becomes the agent's.
    """
    stored = lock_agents(connection, [host])
    if not stored:
        time = read_time(now, connection)
        seen = {"is_static": False, "last_seen_up": time, "report_count": 1}
        row = service_row(host, Service(), time) | seen
        _SERVICE_ROWS.apply(connection, {}, {(host, AGENT): row}, _describe_service)
        return [Change(SERVICES, host)]
    (row,) = stored.values()
    seen = {"last_seen_up": stamp_of(now), "report_count": services.c.report_count + 1, "is_static": False}
    connection.execute(update(services).where(services.c.id == row["id"]).values(seen))
    return [Change(SERVICES, host)] if row["is_static"] else []


def save_heartbeats(engine: Engine, hosts: Sequence[str], now: PresentTime) -> None:
    """Save a heartbeat of the agent on each of these hosts, in one statement for all whose services are known."""
    seen = {"last_seen_up": stamp_of(now), "report_count": services.c.report_count + 1}
    known = services.c.host.in_(hosts) & _IS_AGENT & ~services.c.is_static
    with writing(engine) as connection:
        if connection.execute(update(services).where(known).values(seen)).rowcount == len(set(hosts)):
            return
    with writing(engine) as connection:
        changes = [change for host in sorted(hosts) for change in record_agent_alive(connection, host, now)]
        record_changes(connection, changes)


def save_service_heartbeat(engine: Engine, host: str, binary: str, topic: str, now: PresentTime) -> None:
    """Save a heartbeat of a service other than an agent; the first one inserts its record."""
    stamp = stamp_of(now)
    seen = {"last_seen_up": stamp, "report_count": services.c.report_count + 1}
    own = (services.c.host == host) & (services.c.binary == binary)
    with writing(engine) as connection:
        if connection.execute(update(services).where(own).values(seen)).rowcount:
            return
    fresh = {
        "host": host,
        "binary": binary,
        "topic": topic,
        "uuid": str(uuid.uuid5(_SERVICE_NAMESPACE, f"{binary} {host}")),
    }
    try:
        with writing(engine) as connection:
            connection.execute(insert(services).values(**fresh, last_seen_up=stamp, created_at=stamp, report_count=1))
    except DatabaseConflict:  # another process of this service inserted it first
        return


def set_service_flags(
    engine: Engine,
    host: str,
    *,
    disabled: bool | None = None,
    disabled_reason: str | None = None,
    forced_down: bool | None = None,
    now: datetime | None = None,
) -> None:
    """Save the flags that an operator sets; None leaves one unchanged. BadInput for a reason without disabled."""
    with writing(engine) as connection:
        stored = lock_agents(connection, [host])
        if not stored:
            known = connection.scalars(select(services.c.host).where(_IS_AGENT).limit(MOST_COMPARED))
            raise UnknownName(f"there is no service on host {host!r}", nearest(host, known))
        wanted = {
            key: _wanted_flags(host, row, disabled, disabled_reason, forced_down) for key, row in stored.items()
        }
        saved = _SERVICE_ROWS.apply(connection, stored, wanted, _describe_service, now)
        record_changes(connection, [Change(SERVICES, host)] if saved.changed else [])


def _wanted_flags(host: str, row: Row, disabled: bool | None, reason: str | None, forced_down: bool | None) -> Row:
    is_disabled = row["disabled"] if disabled is None else disabled
    if reason is not None and not is_disabled:
        raise BadInput(f"host {host}: a reason, and it is not disabled", "disable it, or leave out the reason")
    wanted_reason = row["disabled_reason"] if reason is None else reason
    return {
        "disabled": is_disabled,
        "disabled_reason": wanted_reason if is_disabled else None,
        "forced_down": row["forced_down"] if forced_down is None else forced_down,
    }


def delete_static_service(connection: Connection, host: str) -> bool:
    """Delete the service of a host if it is static; False if it belongs to an agent or does not exist."""
    static = (services.c.host == host) & _IS_AGENT & services.c.is_static
    return bool(connection.execute(delete(services).where(static)).rowcount)


# --- read --------------------------------------------------------------------------------------------


def read_services(connection: Connection, hosts: Collection[str] | None, rule: HeartbeatRule) -> dict[str, Service]:
    """Host -> the service of its agent, of these hosts or of all. Equal services are one object."""
    shared: dict[tuple[Any, ...], Service] = {}
    found = {}
    for row in _read_agents(connection, hosts):
        key = row.disabled, row.disabled_reason, row.forced_down, rule.is_row_up(row)
        if key not in shared:
            shared[key] = Service(*key)
        found[row.host] = shared[key]
    return found


def read_agents_on(
    engine: Engine, hosts: Collection[str], now: PresentTime, service_down_time: float
) -> dict[str, Service]:
    """Host -> the service of its agent, with `up` set; a host without one is left out."""
    if not hosts:
        return {}
    with database_errors(engine), engine.connect() as connection:
        return read_services(connection, hosts, read_heartbeat_rule(connection, now, service_down_time))


def _read_agents(connection: Connection, hosts: Collection[str] | None = None) -> Iterator[Any]:
    return read_rows(connection, select(services).where(_IS_AGENT), services.c.host, hosts)


class LastHeartbeat(NamedTuple):
    """The last heartbeat of the agent on a host."""

    host: str
    seen_at: datetime | None
    """Without a heartbeat the time of the service's creation, or None."""
    is_static: bool


def read_last_heartbeats(
    connection: Connection,
    hosts: Collection[str] | None = None,
    since: datetime | None = None,
) -> list[LastHeartbeat]:
    """The last heartbeats of agents, of these hosts or of all. `since`: only hosts with a later heartbeat."""
    wanted = select(services.c.host, services.c.last_seen_up, services.c.created_at, services.c.is_static)
    wanted = wanted.where(_IS_AGENT) if since is None else wanted.where(_IS_AGENT, services.c.last_seen_up > since)
    rows = read_rows(connection, wanted, services.c.host, hosts)
    return [LastHeartbeat(host, seen or created, is_static) for host, seen, created, is_static in rows]


def read_hosts_up(engine: Engine, topic: str, now: PresentTime, seconds_until_down: float) -> list[str]:
    """Names of the hosts, sorted, with an enabled service of this topic that is static or has a recent heartbeat."""
    with database_errors(engine), engine.connect() as connection:
        rule = read_heartbeat_rule(connection, now, seconds_until_down)
        wanted = select(services).where(services.c.topic == topic, ~services.c.disabled, ~services.c.forced_down)
        return [row.host for row in connection.execute(wanted.order_by(services.c.host)) if rule.is_row_up(row)]


def is_agent_up(engine: Engine, host: str, now: PresentTime, seconds_until_down: float) -> bool:
    """Whether the agent on a host has a recent heartbeat and is not forced down; False where there is none."""
    with database_errors(engine), engine.connect() as connection:
        found = read_services(connection, [host], read_heartbeat_rule(connection, now, seconds_until_down)).get(host)
    return found is not None and found.is_up(seconds_until_down)


def read_longest_silence(engine: Engine, hosts: Sequence[str], times: StoreClock) -> float:
    """Seconds since the oldest of the latest heartbeats of the agents on these hosts; 0.0 if there are none."""
    last = func.min(services.c.last_seen_up)
    wanted = select(last, times.stamp()).where(services.c.host.in_(hosts), _IS_AGENT, ~services.c.is_static)
    with database_errors(engine), engine.connect() as connection:
        seen_at, now = connection.execute(wanted).one()
    return (now - seen_at).total_seconds() if seen_at else 0.0


def read_service_entries(connection: Connection, now: datetime) -> dict[str, dict[str, Any]]:
    """Host -> the `service` entry of a fleet file; empty if all values are the default."""
    return {row.host: _service_entry(row, now) for row in _read_agents(connection)}


def _service_entry(row: Any, now: datetime) -> dict[str, Any]:
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
