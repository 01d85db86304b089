# SPDX-License-Identifier: Apache-2.0
"""Handlers that make a server's guest anew: on its own host with another image, or here in place of a dead host."""

from __future__ import annotations

from typing import Any

import structlog

from roost.compute.agent_parts import AgentParts, Task, reason_of
from roost.compute.builds import claim_and_spawn, drop_guest, place_of
from roost.compute.guest_specs import booked_on, make_guest, stored_request, with_image
from roost.errors import DatabaseError, ServerChanged
from roost.records.server import EVACUATION, RUNNING, SHUTDOWN, STOPPED, Server
from roost.records.servers import end_move

LOG = structlog.get_logger(__name__)


class RebuildHandlers:
    """Rebuild servers on the host of an agent, also those of dead hosts."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {"rebuild_instance": self.rebuild}

    def rebuild(self, task: Task) -> None:
        """Make the guest anew; the server is then what it was before, or has the state error and a fault."""
        parts, server = self._parts, task.server
        try:
            if server.task.action == EVACUATION:
                self._take_over(server)
            else:
                self._replace(server)
        except DatabaseError:
            raise  # the janitor of a conductor sends the message again
        except Exception as error:
            self._fail(server, error)
            return
        try:
            finished = self._finish(server)
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        end_move(parts.ledger, finished)
        parts.note(finished)
        LOG.info("server rebuilt", host=parts.host, server=server.uuid, action=server.task.action)
        for host in self._left(server):
            parts.wake(task, host, "refresh_instance", finished)

    def _left(self, server: Server) -> list[str]:
        """The host that the server was evacuated from: it may be back, and run the old guest."""
        source = server.task.source
        return [source[0]] if source and source[0] != self._parts.host else []

    def _take_over(self, server: Server) -> None:
        claim_and_spawn(self._parts, server, server.spec, powered_on=server.task.vm_state != STOPPED)

    def _replace(self, server: Server) -> None:
        parts = self._parts
        held = booked_on(parts.ledger, server.uuid, parts.host)
        guest = make_guest(server, with_image(server.spec, server.task.image), held.guest if held else None)
        parts.driver.destroy(server.uuid)
        parts.driver.spawn(guest, powered_on=server.task.vm_state != STOPPED)

    def _finish(self, server: Server) -> Server:
        data, spec = server.task, with_image(server.spec, server.task.image)
        is_off = data.vm_state == STOPPED
        values: dict[str, Any] = {**place_of(server), "power_state": SHUTDOWN if is_off else RUNNING}
        if data.image is not None:
            values |= {**stored_request(spec), "image_id": spec.image.id if spec.image else None}
        times = self._parts.store.times
        step = "finish rebuild stopped" if is_off else "finish rebuild"
        values["launched_at"] = times.stamp()
        return self._parts.store.advance(server, step, migration_status="done", left_on=self._left(server), **values)

    def _fail(self, server: Server, error: Exception) -> None:
        """Give the server the state error; it stays on its host, and what was begun here for another is removed."""
        parts = self._parts
        LOG.warning("rebuild failed", host=parts.host, server=server.uuid, reason=reason_of(error))
        verb = "evacuated" if server.task.action == EVACUATION else "rebuilt"
        fault = parts.fault(f"The server could not be {verb}", error)
        failed = parts.store.advance(server, "fail rebuild", fault=fault, migration_status="error")
        end_move(parts.ledger, failed)
        parts.note(failed)
        if failed.host != parts.host:
            drop_guest(parts, server.uuid)
