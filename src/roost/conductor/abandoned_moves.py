# SPDX-License-Identifier: Apache-2.0
"""What becomes of a move whose next host is down: tried elsewhere, taken back, failed, or finished without the host.

The janitor of a conductor calls these, as `records/server_steps.py` says. A server that fails keeps the host where its
guest is or was, with what it holds there in the ledger, so that it can be evacuated, rebuilt or deleted. An agent
that comes back finds a newer generation, and removes guests that are not on its host any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from roost.conductor.parts import ConductorParts, attempts_of, context_of, with_attempt
from roost.errors import RpcError
from roost.messages.interface import Method
from roost.messages.objects.flavor_image_group import flavor_from_object
from roost.messages.objects.request import request_to_object
from roost.model.resources import move_of
from roost.records.server import (
    MIGRATING,
    REBUILDING,
    RESIZE_CONFIRMING,
    RESIZE_FINISH,
    RESIZE_MIGRATED,
    RESIZE_MIGRATING,
    RESIZE_PREP,
    RESIZE_REVERTING,
    SHELVING,
    STOPPED,
    UNSHELVING,
    Fault,
    Server,
)
from roost.records.server_steps import FAIL, FINISH, RESCHEDULE, UNDO

LOG = structlog.get_logger(__name__)
Outcome = Callable[[Server, str], None]
"""What is done for a server whose next host is down, and why it is done."""
_WHAT_FAILED = {
    RESIZE_MIGRATING: "The server could not be moved: its host is down",
    RESIZE_MIGRATED: "The server could not be started on its new host, which is down",
    RESIZE_FINISH: "The server could not be started on its new host, which is down",
    RESIZE_REVERTING: "The server could not be started on its old host, which is down",
    MIGRATING: "The server could not be migrated live: its host is down",
    REBUILDING: "The server could not be built anew: the host is down",
    SHELVING: "The server could not be shelved: its host is down",
}


class AbandonedMoves:
    """Ends or goes on with moves whose next host is down."""

    task_states = frozenset({*_WHAT_FAILED, RESIZE_PREP, RESIZE_CONFIRMING, UNSHELVING})
    """Tasks that this class knows what to do about."""

    def __init__(self, parts: ConductorParts, methods: Mapping[str, Method]) -> None:
        """`methods`: the internal methods of moves, by name, to go on with."""
        self._parts, self._methods = parts, methods
        self.outcomes: Mapping[str, Outcome] = {
            RESCHEDULE: self.reschedule_task,
            UNDO: self.undo_task,
            FAIL: self.fail_task,
            FINISH: self.finish_without_host,
        }
        """By what `records/server_steps.py` says of the task."""

    def reschedule_task(self, server: Server, reason: str) -> None:
        """Give the chosen host back, and try another: for a resize, a cold migration or an unshelving."""
        parts, place = self._parts, server.task.selection
        data = with_attempt(server.task, place.host, place.node, reason)
        if server.task_state == UNSHELVING:
            changed = parts.store.advance(server, "assign", task=data, host=None, node=None, left_on=[place.host])
            parts.ledger.release_on([server.uuid], [place.node_uuid])
            method = "unshelve_instance"
        else:
            changed = parts.store.advance(server, "reschedule resize", task=data)
            parts.undo_in_ledger(server, [place.node_uuid])
            method = "migrate_server"
        LOG.warning("tried on another host", server=server.uuid, host=place.host, reason=reason)
        self._methods[method](context_of(changed), changed.uuid, changed.generation)

    def undo_task(self, server: Server, reason: str) -> None:
        """Go back to what the server was before: for shelving."""
        self._parts.store.advance(server, "fail shelve", fault=_fault(server, reason))
        LOG.warning("task undone", server=server.uuid, task=SHELVING, reason=reason)

    def fail_task(self, server: Server, reason: str) -> None:
        """Give the server the state error, on the host that it leaves, with what it holds there."""
        fault = _fault(server, reason)
        if server.task_state == MIGRATING:
            self._end_live_migration(server, fault)
        elif server.task_state == REBUILDING:
            self._parts.undo(server, "fail rebuild", fault)
        elif server.task_state == RESIZE_REVERTING:
            spec = server.spec
            if server.task.old_flavor:
                old = flavor_from_object(server.task.old_flavor)
                spec = spec.changed(flavor=old, numa_topology=None, pci_requests=())
            request, size = request_to_object(spec), spec.flavor.to_details()
            self._parts.undo(server, "fail after resize", fault, request_spec=request, flavor=size)
        else:
            self._parts.undo(server, "fail resize", fault)

    def _end_live_migration(self, server: Server, fault: Fault) -> None:
        """Finish the migration if the guest has arrived; else it was lost with the source."""
        parts, target = self._parts, server.task.selection
        if not self._has_arrived(server, target.host):
            parts.undo(server, "fail live migration", fault)
            return
        moved = parts.store.advance(
            server,
            "finish live migration",
            migration_status="completed",
            left_on=[server.host],
            host=target.host,
            node=target.node,
            availability_zone=target.availability_zone,
        )
        self._finish_move(moved, target.host)

    def _has_arrived(self, server: Server, target: str) -> bool:
        """Whether the target runs the guest; RpcError while its agent is up and does not answer.

        Then the next round of the janitor asks again: a guest that runs there must not be given up.
        """
        asked = {"server_uuid": server.uuid}
        try:
            return self._parts.messages.call_agent(context_of(server), target, "runs_guest", asked) is True
        except RpcError as error:
            if self._parts.hosts.is_up(target):
                raise
            LOG.warning("target is down, too", server=server.uuid, host=target, reason=str(error))
            return False

    def finish_without_host(self, server: Server, reason: str) -> None:
        """Confirm a move without its source, or revert it without its target."""
        if server.task_state == RESIZE_CONFIRMING:
            step = "finish confirm stopped" if server.task.vm_state == STOPPED else "finish confirm"
            source = server.task.source[0] if server.task.source else None
            confirmed = self._parts.store.advance(server, step, migration_status="confirmed", left_on=[source])
            LOG.warning("confirmed without the old host", server=server.uuid, reason=reason)
            self._finish_move(confirmed, str(confirmed.host))
            return
        parts, (host, node) = self._parts, server.task.source or (server.host, server.node)
        data = replace(server.task, target=None)
        left = parts.store.advance(
            server,
            "leave target",
            task=data,
            migration_status="reverting",
            left_on=[server.host],
            host=host,
            node=node,
        )
        LOG.warning("reverted without the new host", server=server.uuid, reason=reason)
        parts.wake_next(context_of(left), left)

    def _finish_move(self, server: Server, host: str) -> None:
        """Release the source in the ledger, and have the agent on the target count the server."""
        self._parts.ledger.finish_move(move_of(server.uuid))
        context = context_of(server)
        self._parts.messages.wake(context, host, "refresh_instance", server.uuid, server.generation)


def _fault(server: Server, reason: str) -> Fault:
    tried = attempts_of(server.task)
    details = "\n".join(filter(None, (reason, tried)))
    return Fault(_WHAT_FAILED[str(server.task_state)], details)
