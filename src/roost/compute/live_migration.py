# SPDX-License-Identifier: Apache-2.0
"""Live migration: the source moves the running guest; the target says how it is reached, and whether it has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from roost.compute.builds import booked_on, make_guest, place_of
from roost.compute.parts import AgentParts, Task, reason_of
from roost.errors import ComputeResourcesUnavailable, DatabaseError, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.records.server import NO_STATE, PAUSED, RUNNING, Fault
from roost.records.servers import end_move

LOG = structlog.get_logger(__name__)
_NO_ANSWER = (RpcTimeout, RpcUnreachable)


class LiveMigrationHandlers:
    """Live migration from and to the host of an agent."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {"live_migration": self.migrate}
        self.calls: dict[str, Method] = {
            "check_can_live_migrate_destination": self.check_destination,
            "get_migration_address": self.get_address,
            "runs_guest": self.runs_guest,
            "has_guest": self.has_guest,
        }

    # --- questions of other services ---------------------------------------------------------------------

    def get_address(self, context: RequestContext) -> Mapping[str, Any]:
        """How other hosts reach this one for a live migration."""
        return dict(self._parts.driver.migration_address())

    def check_destination(
        self, context: RequestContext, server_uuid: str, source: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """HypervisorError if guests of the source cannot be taken over here; else `target`, how this host is reached.

        `source`: the migration address of the source.
        """
        self._parts.driver.check_migration_source(source)
        for server in self._parts.store.find([server_uuid]):
            if server.task.target_host == self._parts.host:
                self._parts.note(server)
        return {"target": dict(self._parts.driver.migration_address())}

    def runs_guest(self, context: RequestContext, server_uuid: str) -> bool:
        """Whether the guest of a server runs on the hypervisor of this host."""
        return self._power_state(server_uuid) == RUNNING

    def has_guest(self, context: RequestContext, server_uuid: str) -> bool:
        """Whether the guest of a server is on the hypervisor of this host, running or not."""
        return self._power_state(server_uuid) is not None

    def _power_state(self, server_uuid: str) -> str | None:
        """The state of a guest of Roost's on this host; None if it is not here."""
        guests = (each for each in self._parts.driver.list_guests() if each.uuid == server_uuid and each.is_own)
        return next((guest.power_state for guest in guests), None)

    # --- on the source -----------------------------------------------------------------------------------

    def migrate(self, task: Task) -> None:
        """Move the running guest to the target; a failure undoes the migration."""
        parts, server = self._parts, task.server
        if task.is_restart:
            self._settle(task, "the agent was restarted during the migration")
            return
        movable = (RUNNING, NO_STATE) if server.vm_state == PAUSED else (RUNNING,)  # NO_STATE: paused
        if self._power_state(server.uuid) not in movable:
            self._settle(task, "the guest does not run here")
            return
        try:
            source = dict(parts.driver.migration_address())
            asked = {"server_uuid": server.uuid, "source": source}
            check = "check_can_live_migrate_destination"
            answer = parts.messages.call_agent(task.context, str(server.task.target_host), check, asked)
            held = booked_on(parts.ledger, server.uuid, str(server.task.target_host))
            if held is None:
                raise ComputeResourcesUnavailable("the ledger has booked nothing on the target for the server")
            guest = make_guest(server, server.spec, held.guest)
            parts.driver.live_migrate(guest, answer["target"])
        except DatabaseError:
            raise
        except Exception as error:
            self._settle(task, reason_of(error))
            return
        self._finish(task)

    def _settle(self, task: Task, reason: str) -> None:
        """Finish or undo a migration that was interrupted, by where the guest runs now.

        While the guest does not run here and the target does not answer, the task is left for the next message.
        A hypervisor that was interrupted may have left a paused copy here, of a guest that runs on the target.
        """
        parts, server = self._parts, task.server
        state = self._power_state(server.uuid)
        if state == RUNNING:
            self._end(task, "undo live migration", reason)
            return
        # Without a guest here, the one on the target is the only one, also if it was shut off since it arrived.
        question = "has_guest" if state is None else "runs_guest"
        try:
            has_arrived = parts.messages.call_agent(
                task.context, str(server.task.target_host), question, {"server_uuid": server.uuid}
            )
        except _NO_ANSWER as error:
            # The guest may run there: an error here would have the target remove it. The janitor sends this again.
            LOG.warning("live migration waits for its target", server=server.uuid, reason=str(error))
            return
        if has_arrived:
            if state is not None:
                parts.driver.destroy(server.uuid)
            self._finish(task)
        elif state is not None:
            self._end(task, "undo live migration", reason)
        else:
            self._end(task, "fail live migration", f"{reason}; the guest is on neither host")

    def _finish(self, task: Task) -> None:
        parts, server = self._parts, task.server
        moved = parts.store.advance(server, "finish live migration", migration_status="completed", **place_of(server))
        end_move(parts.ledger, moved)
        parts.note(moved)
        LOG.info("server migrated live", server=server.uuid, source=parts.host, host=moved.host)
        parts.wake(task, moved.host, "refresh_instance", moved)

    def _end(self, task: Task, step: str, reason: str) -> None:
        """Undo or fail the migration: the server stays here."""
        parts, server = self._parts, task.server
        LOG.warning("live migration failed", server=server.uuid, source=parts.host, reason=reason)
        fault = Fault("The server could not be migrated live", f"{parts.host}: {reason}", host=parts.host)
        target = str(server.task.target_host)
        ended = parts.store.advance(server, step, fault=fault, migration_status="error", left_on=[target])
        end_move(parts.ledger, ended)
        parts.note(ended)
        parts.wake(task, target, "refresh_instance", ended)
