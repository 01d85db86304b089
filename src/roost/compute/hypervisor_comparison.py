# SPDX-License-Identifier: Apache-2.0
"""Compares the guests of the hypervisor with the records of servers.

| found | what is done |
| --- | --- |
| a guest that Roost did not define, or whose server the database does not know | reported once, never touched |
| a guest of a server that is deleted or elsewhere, and does not move here | removed, with a line in the log |
| no guest of a server that has left one here | acknowledged (`records/guest_removals.py`) |
| a server that should run here, without a running guest | becomes stopped, with a fault that says so |
| another power state than recorded | recorded |
| a move that has ended, and that the ledger still holds resources for | ended in the ledger |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from roost.compute.builds import hosts_of
from roost.compute.drivers.base import FoundGuest
from roost.compute.parts import AgentParts, ServerTurns, reason_of
from roost.errors import ServerChanged
from roost.model.resources import move_of
from roost.records.server import ACTIVE, DELETED, NO_STATE, PAUSED, RESIZED, SHUTDOWN, Fault, Server
from roost.records.server_views import ENDED
from roost.records.servers import end_move

LOG = structlog.get_logger(__name__)


class HypervisorComparison:
    """Compares one hypervisor with the records, at the start of its agent and periodically."""

    def __init__(self, parts: AgentParts, turns: ServerTurns) -> None:
        self._parts, self._turns = parts, turns
        self.unknown_guests: frozenset[str] = frozenset()
        """Uuids of the guests that were reported and are not touched."""

    def compare(self) -> None:
        """Compare all guests and servers of the host."""
        servers, guests = self._acknowledge_and_read()
        self._clean_up(servers, guests)
        self._check_guests(servers, guests)

    def clean_up(self) -> None:
        """Report unknown guests, remove left-over ones, and end moves in the ledger."""
        self._clean_up(*self._acknowledge_and_read())

    def check_power_states(self) -> None:
        """Look for servers without a running guest, and record power states."""
        self._check_guests(*self._read())

    def _read(self) -> tuple[dict[str, Server], dict[str, FoundGuest]]:
        """Servers and guests of the host, by uuid."""
        parts = self._parts
        # Servers first: one that is built meanwhile is not taken for vanished. Generations protect all changes.
        servers = {server.uuid: server for server in parts.store.list_on(parts.host)}
        return servers, {guest.uuid: guest for guest in parts.driver.list_guests()}

    def _acknowledge_and_read(self) -> tuple[dict[str, Server], dict[str, FoundGuest]]:
        """Servers and guests of the host, by uuid; removals are acknowledged of guests that are not there."""
        removals = self._parts.store.removals
        left = removals.list_on(self._parts.host)  # before the guests: one that is left meanwhile is another removal
        servers, guests = self._read()
        for removal in left:
            if removal.server_uuid not in guests:
                removals.acknowledge(removal.server_uuid, removal.host, removal.generation)
        return servers, guests

    def _clean_up(self, servers: Mapping[str, Server], guests: Mapping[str, FoundGuest]) -> None:
        parts = self._parts
        others = parts.store.find([uuid for uuid, guest in guests.items() if guest.is_own and uuid not in servers])
        known = {server.uuid for server in others} | servers.keys()
        self._report_unknown_guests(
            [guest for guest in guests.values() if not guest.is_own or guest.uuid not in known]
        )
        for server in (*others, *servers.values()):
            if server.uuid in guests and guests[server.uuid].is_own and self._is_left_over(server):
                self.remove_left_over(server.uuid)
        self._end_moves(list(servers.values()))

    # --- unknown guests ----------------------------------------------------------------------------------

    def _report_unknown_guests(self, found: Sequence[FoundGuest]) -> None:
        for guest in found:
            if guest.uuid not in self.unknown_guests:
                why = "its server is not in the database" if guest.is_own else "Roost did not define it"
                LOG.warning(
                    "unknown guest: left alone", host=self._parts.host, guest=guest.uuid, name=guest.name, reason=why
                )
        self.unknown_guests = frozenset(guest.uuid for guest in found)
        self._parts.tracker.note_foreign_guests(found)

    # --- guests that were left behind --------------------------------------------------------------------

    def refresh(self, uuid: str) -> None:
        """Compare one server: count its usage as it is now, or remove the guest that it left here.

        A removal is acknowledged, unless the hypervisor refuses, or a move that has not ended keeps the guest here.
        """
        parts = self._parts
        for server in parts.store.find([uuid]):
            if self._is_left_over(server):
                is_here = any(guest.uuid == uuid and guest.is_own for guest in parts.driver.list_guests())
                is_settled = not is_here or self._remove(server)
                parts.forget(uuid)
            else:
                is_settled = parts.host in hosts_of(server)
                parts.note(server)
            if is_settled:
                parts.store.removals.acknowledge(uuid, parts.host, server.generation)

    def remove_left_over(self, uuid: str) -> None:
        """Remove the guest of a server that is not here any more, unless a handler works on it."""

        def work() -> None:
            for server in self._parts.store.find([uuid]):
                if self._is_left_over(server) and self._remove(server):
                    self._parts.store.removals.acknowledge(uuid, self._parts.host, server.generation)

        self._turns.run_if_idle(uuid, work)

    def _remove(self, server: Server) -> bool:
        """Remove the guest that a server left here; False where the hypervisor refuses."""
        state = "deleted" if server.vm_state == DELETED else f"on {server.host or 'no host'}"
        try:
            self._parts.driver.destroy(server.uuid)
        except Exception as error:
            LOG.warning("guest not removed", host=self._parts.host, server=server.uuid, reason=reason_of(error))
            return False
        LOG.warning("left-over guest removed", host=self._parts.host, server=server.uuid, reason=f"it is {state}")
        return True

    def _is_left_over(self, server: Server) -> bool:
        host = self._parts.host
        if server.vm_state == DELETED:
            return True
        if host in hosts_of(server):
            return False
        return not any(
            host in (move.source_compute, move.dest_compute) and move.status not in ENDED
            for move in self._parts.store.list_migrations(server.uuid)
        )

    # --- servers without a running guest -----------------------------------------------------------------

    def _check_guests(self, servers: Mapping[str, Server], guests: Mapping[str, FoundGuest]) -> None:
        for server in servers.values():
            if server.host == self._parts.host and not server.is_busy:
                self._check_guest(server, guests.get(server.uuid))

    def _check_guest(self, server: Server, guest: FoundGuest | None) -> None:
        power_state = guest.power_state if guest else NO_STATE
        if server.vm_state in (ACTIVE, PAUSED) and power_state in (SHUTDOWN, NO_STATE):
            self._stop_vanished(server, "is gone from" if guest is None else "is shut off on", power_state)
        elif power_state != server.power_state and (guest or server.vm_state != RESIZED):
            self._parts.store.note_power_state(server, power_state)

    def _stop_vanished(self, server: Server, what: str, power_state: str) -> None:
        parts = self._parts
        message = f"The guest of the server {what} the hypervisor, though nothing here stopped it"
        fault = Fault(message, f"{parts.host}: found by the comparison of hypervisor and records", host=parts.host)
        try:
            parts.note(parts.store.advance(server, "vanish", fault=fault, power_state=power_state))
        except ServerChanged:
            return
        LOG.warning("server has no running guest", host=parts.host, server=server.uuid, reason=message)

    # --- the ledger --------------------------------------------------------------------------------------

    def _end_moves(self, servers: Sequence[Server]) -> None:
        """End moves in the ledger whose servers are idle: an agent was killed between the two."""
        parts = self._parts
        settled: Mapping[str, Server] = {
            move_of(server.uuid): server
            for server in servers
            if server.host == parts.host and not server.is_busy and server.vm_state != RESIZED
        }
        for uuid in parts.ledger.read_holdings(list(settled)) if settled else ():
            current = parts.store.get(settled[uuid].uuid)
            if current.generation == settled[uuid].generation:
                end_move(parts.ledger, current)
                LOG.info("ended move released in the ledger", host=parts.host, server=current.uuid)
