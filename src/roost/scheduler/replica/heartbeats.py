# SPDX-License-Identifier: Apache-2.0
"""The last heartbeats of agents, in whole microseconds. The change log does not have them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection

from roost.records.outages import microseconds
from roost.records.services import read_last_heartbeats

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Heartbeat(NamedTuple):
    """The last heartbeat of an agent."""

    host: str
    seen_us: int | None
    """Microseconds since 1970 of the heartbeat; before the first one, of the creation of the service. None: never."""
    is_static: bool
    """There is no agent, and the host counts as up."""


def moment(seen_us: int) -> datetime:
    """The moment that is so many microseconds after 1970."""
    return _EPOCH + seen_us * _MICROSECOND


def read_heartbeats(
    connection: Connection, hosts: Collection[str] | None = None, since: datetime | None = None
) -> list[Heartbeat]:
    """The last heartbeats of these hosts, or of all; `since`: only heartbeats after that."""
    return [
        Heartbeat(each.host, None if each.seen_at is None else microseconds(each.seen_at), each.is_static)
        for each in read_last_heartbeats(connection, hosts, since)
    ]
