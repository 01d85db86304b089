# SPDX-License-Identifier: Apache-2.0
"""Handlers that bring a server to this host and take it away again: build, unshelve, shelve, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from sqlalchemy import Connection

from roost.compute.agent_parts import AgentParts, Task, reason_of
from roost.compute.guest_specs import booked_on, make_guest
from roost.errors import ComputeResourcesUnavailable, DatabaseError, ServerChanged
from roost.hosts.guests import Guest
from roost.model.request import RequestSpec
from roost.model.resources import move_of
from roost.records.server import DELETED, DELETING, RUNNING, SCHEDULING, Migration, Server
from roost.records.server_views import ENDED
from roost.records.servers import InTransaction

LOG = structlog.get_logger(__name__)


class BuildHandlers:
    """Build, unshelve, shelve and delete servers on the host of an agent."""

    def __init__(self, parts: AgentParts) -> None:
        self._parts = parts
        self.methods = {
            "build_and_run_instance": self.build,
            "unshelve_instance": self.unshelve,
            "shelve_instance": self.shelve,
            "terminate_instance": self.terminate,
        }

    # --- build and unshelve ------------------------------------------------------------------------------

    def build(self, task: Task) -> None:
        """Claim, define and start the guest; the server is active then. After a failure another host is tried."""
        parts, server = self._parts, task.server
        if server.task_state == SCHEDULING:
            server = parts.store.advance(server, "start build", **place_of(server))
            parts.note(server)
        try:
            claim_and_spawn(parts, server, server.spec)
        except DatabaseError:
            raise  # the janitor of a conductor sends the message again
        except Exception as error:
            self._reschedule(task, server, "reschedule build", "build_instances", error)
            return
        self._finish(server, "finish build")

    def unshelve(self, task: Task) -> None:
        """Claim, define and start the guest of a shelved server. After a failure a conductor tries another host."""
        try:
            claim_and_spawn(self._parts, task.server, task.server.spec)
        except DatabaseError:
            raise
        except Exception as error:
            self._reschedule(task, task.server, "assign", "unshelve_instance", error)
            return
        self._finish(task.server, "finish unshelve", **place_of(task.server))

    def _finish(self, server: Server, step: str, **values: Any) -> None:
        parts = self._parts
        try:
            finished = parts.store.advance(
                server, step, power_state=RUNNING, launched_at=parts.store.times.stamp(), **values
            )
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        parts.tracker.build_succeeded()
        parts.note(finished)
        LOG.info("server built", host=parts.host, server=server.uuid, request_id=server.task.request_id)

    def _reschedule(self, task: Task, server: Server, step: str, method: str, error: Exception) -> None:
        """Remove what was begun here, and have a conductor try another host."""
        parts, selection = self._parts, server.task.selection
        LOG.warning("build failed", host=parts.host, server=server.uuid, reason=reason_of(error))
        parts.tracker.build_failed()
        parts.tracker.abort(server.uuid)
        try:
            changed = parts.store.advance(
                server, step, task=parts.attempted(server.task, error), host=None, node=None
            )
        except ServerChanged:
            drop_guest(parts, server.uuid)
            return
        try:
            parts.driver.destroy(server.uuid)
        except Exception as problem:
            parts.leave_for_later(changed, problem)
        # Only here: a claim that a conductor has made elsewhere since then stays.
        parts.ledger.release_on([server.uuid], [selection.node_uuid])
        parts.note(changed)
        parts.wake(task, None, method, changed)

    # --- shelve and delete -------------------------------------------------------------------------------

    def shelve(self, task: Task) -> None:
        """Record that the server is on no host, then remove its guest and release what it held.

        In this order: a conductor that takes the shelving back meanwhile finds the guest in its place. What an agent
        that is killed in between leaves behind, the comparison with the hypervisor and the conductors clean up.
        """
        parts, server = self._parts, task.server
        shelved = parts.store.advance(server, "finish shelve", host=None, node=None, power_state=None)
        try:
            self._remove_shelved(shelved)
        except Exception as error:
            parts.leave_for_later(shelved, error)
            fault = parts.fault("The guest of the shelved server could not be removed yet", error)
            parts.store.add_fault(server.uuid, fault)
        parts.note(shelved)

    def _remove_shelved(self, shelved: Server) -> None:
        """Remove the guest and release its resources, unless the server is being unshelved with them already."""
        parts, current = self._parts, self._parts.store.get(shelved.uuid)
        if not belongs_here(current, parts.host):
            parts.driver.destroy(shelved.uuid)
        if current.generation == shelved.generation:
            parts.ledger.release([shelved.uuid, move_of(shelved.uuid)], spares_used=True)

    def terminate(self, task: Task) -> None:
        """Remove the guest, release what the server held, and mark it deleted.

        Guests that a move has left on other hosts are removed there. While the hypervisor refuses, the server stays:
        a conductor sends the message again.
        """
        parts, server = self._parts, task.server
        parts.driver.destroy(server.uuid)
        parts.ledger.release([server.uuid, move_of(server.uuid)])
        moves = [each for each in parts.store.list_migrations(server.uuid) if each.status not in ENDED]
        others = {host for move in moves for host in (move.source_compute, move.dest_compute)} - {parts.host}
        deleted = parts.store.advance(
            server, "finish delete", also=self._cancel(moves), left_on=others, power_state=None
        )
        parts.forget(server.uuid)
        LOG.info("server deleted", host=parts.host, server=server.uuid, request_id=server.task.request_id)
        for host in sorted(filter(None, others)):
            parts.wake(task, host, "refresh_instance", deleted)

    def _cancel(self, moves: Sequence[Migration]) -> InTransaction:
        """The end of all moves of a server that is deleted."""
        updates = [self._parts.store.update_migration(move.uuid, status="cancelled") for move in moves]

        def write(connection: Connection) -> None:
            for update in updates:
                update(connection)

        return write


def claim_locally(parts: AgentParts, server: Server, spec: RequestSpec) -> Guest | None:
    """Claim what the ledger has booked for a server on its target: its pinned CPUs, NUMA cells and PCI devices.

    ComputeResourcesUnavailable if the ledger has booked nothing, or the host has less than that.
    """
    held = booked_on(parts.ledger, server.uuid, parts.host)
    if held is None:
        raise ComputeResourcesUnavailable("the ledger has booked nothing here for the server")
    parts.tracker.claim(server.uuid, spec.flavor, server.task.selection.limits, held.guest)
    return held.guest


def claim_and_spawn(parts: AgentParts, server: Server, spec: RequestSpec, powered_on: bool = True) -> None:
    """Claim locally and start the guest. One that was started by an agent that was killed is adopted."""
    guest = claim_locally(parts, server, spec)
    parts.driver.spawn(make_guest(server, spec, guest), powered_on)


def drop_guest(parts: AgentParts, uuid: str) -> None:
    """Remove a guest whose server was changed by another process meanwhile, unless it belongs here all the same."""
    found = parts.store.find([uuid])
    if found and belongs_here(found[0], parts.host):
        parts.note(found[0])
        return
    try:
        parts.driver.destroy(uuid)
    except Exception as error:
        for server in found:
            parts.leave_for_later(server, error)
    else:
        LOG.info("guest removed: its server was deleted or is built elsewhere", host=parts.host, server=uuid)
    parts.forget(uuid)


def belongs_here(server: Server, host: str) -> bool:
    """Whether a guest of the server may be on the host, by the server's own record."""
    if server.vm_state == DELETED or server.task_state == DELETING:
        return False
    return host in hosts_of(server)


def hosts_of(server: Server) -> tuple[str | None, ...]:
    """The host of a server, the one that was chosen for it and the one that it leaves; None where there is none."""
    return server.host, server.task.target_host, server.task.source[0] if server.task.source else None


def place_of(server: Server) -> dict[str, Any]:
    """Host, node and zone of the chosen host."""
    selection = server.task.selection
    return {"host": selection.host, "node": selection.node, "availability_zone": selection.availability_zone}
