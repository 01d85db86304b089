# SPDX-License-Identifier: Apache-2.0
"""Guests that servers have left behind on hosts: an outbox of the notices that tell agents to remove them.

A step that takes a server off a host, on which a guest of it may be left, inserts a row in its own transaction. The
agent of that host deletes it once there is no such guest, or the server is back. Until then conductors send the
notice again. So it does not matter which message is lost, or which process dies.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, select, update

from roost.store.schema.fleet import services
from roost.store.schema.servers import guest_removals
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing

COMPUTE = "nova-compute"
"""Binary of the services that have guests."""
FIRST_WAIT_SECONDS = 10.0
"""The process that takes the step sends the notice at once: how long the agent has for the acknowledgement."""
_OWN = guest_removals.c


class GuestRemoval(NamedTuple):
    """A guest that may be left on a host."""

    server_uuid: str
    host: str
    generation: int
    """Of the server when it left the host."""
    attempts: int
    """How often the notice was sent again."""


_SELECT = select(*(_OWN[name] for name in GuestRemoval._fields))


def insert_removals(
    connection: Connection, times: StoreClock, server_uuid: str, hosts: Collection[str | None], generation: int
) -> None:
    """Note that a server has left these hosts, None aside; in place of what was noted when it left them before."""
    left = sorted(filter(None, hosts))
    if not left:
        return
    connection.execute(delete(guest_removals).where(_OWN.server_uuid == server_uuid, _OWN.host.in_(left)))
    row = {"server_uuid": server_uuid, "generation": generation, "attempts": 0, "created_at": times.stamp()}
    row["send_after"] = times.read(connection) + timedelta(seconds=FIRST_WAIT_SECONDS)
    for host in left:
        connection.execute(insert(guest_removals).values(row | {"host": host}))


class GuestRemovals:
    """The outbox of one database. Thread-safe."""

    def __init__(self, engine: Engine, times: StoreClock) -> None:
        self._engine, self._times = engine, times

    def note(self, server_uuid: str, host: str, generation: int) -> None:
        """Note that a guest could not be removed from a host, after the step by which its server left it."""
        write(self._engine, lambda c: insert_removals(c, self._times, server_uuid, [host], generation))

    def list_on(self, host: str) -> list[GuestRemoval]:
        """What may be left on a host."""
        return self._read(_OWN.host == host)

    def list_due(self, most: int) -> list[GuestRemoval]:
        """Those whose notice has to be sent again now, the most urgent first, `most` at most."""
        with database_errors(self._engine), self._engine.connect() as connection:
            due = _SELECT.where(_OWN.send_after <= self._times.read(connection))
            return [GuestRemoval(*row) for row in connection.execute(due.order_by(_OWN.send_after).limit(most))]

    def postpone(self, removal: GuestRemoval, seconds: float) -> bool:
        """Have the notice wait so long; False if it is acknowledged, or another conductor was faster."""
        same = _is(removal) & (_OWN.generation == removal.generation) & (_OWN.attempts == removal.attempts)
        with writing(self._engine) as connection:
            send_after = self._times.read(connection) + timedelta(seconds=seconds)
            change = update(guest_removals).where(same)
            values = {"attempts": removal.attempts + 1, "send_after": send_after}
            return bool(connection.execute(change.values(values)).rowcount)

    def acknowledge(self, server_uuid: str, host: str, generation: int) -> None:
        """No guest is left on the host that a server has left there up to this generation."""
        removal = GuestRemoval(server_uuid, host, generation, 0)
        with writing(self._engine) as connection:
            connection.execute(delete(guest_removals).where(_is(removal), _OWN.generation <= generation))

    def drop_of_missing_hosts(self) -> list[GuestRemoval]:
        """Forget what was left on hosts that have no agent any more: what was forgotten."""
        agents = select(services.c.id).where(services.c.binary == COMPUTE, services.c.is_static.is_(False))
        found = self._read(~agents.where(services.c.host == _OWN.host).exists())
        for removal in found:
            self.acknowledge(removal.server_uuid, removal.host, removal.generation)
        return found

    def _read(self, condition: ColumnElement[bool]) -> list[GuestRemoval]:
        with database_errors(self._engine), self._engine.connect() as connection:
            return [GuestRemoval(*row) for row in connection.execute(_SELECT.where(condition))]


def _is(removal: GuestRemoval) -> ColumnElement[bool]:
    return (_OWN.server_uuid == removal.server_uuid) & (_OWN.host == removal.host)
