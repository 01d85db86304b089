# SPDX-License-Identifier: Apache-2.0
"""When agents were last heard of. Heartbeats are no changes: there would be thousands a second."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, select

from roost.inventory.node_reader import AGENT
from roost.store.bulk import rows_where
from roost.store.schema import services

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Heartbeat(NamedTuple):
    """The last sign of life of an agent."""

    host: str
    seen_us: int | None
    """Microseconds since 1970: when it was heard of, or else when the service was made. None: never."""
    is_static: bool
    """There is no agent, and the host counts as up."""


def microseconds(moment: datetime) -> int:
    """Since 1970: whole numbers, so that a minute is a minute to the microsecond."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(seen_us: int) -> datetime:
    """The same as a moment."""
    return _EPOCH + seen_us * _MICROSECOND


def read_heartbeats(
    connection: Connection, hosts: Collection[str] | None = None, since: datetime | None = None
) -> list[Heartbeat]:
    """Of these hosts, or of all; `since`: only where an agent was heard of after that."""
    fields = services.c.host, services.c.last_seen_up, services.c.created_at, services.c.is_static
    wanted = select(*fields).where(services.c.binary == AGENT)
    if since is not None:
        wanted = wanted.where(services.c.last_seen_up > since)
    found = []
    for host, seen, made, is_static in rows_where(connection, wanted, services.c.host, hosts):
        last = seen or made
        found.append(Heartbeat(host, None if last is None else microseconds(last), is_static))
    return found
