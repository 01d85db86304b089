# SPDX-License-Identifier: Apache-2.0
"""Resize and cold migration: finds a host, has agents move the server; confirmed or reverted afterwards.

Also what becomes of a move whose next host is down: tried elsewhere, taken back, failed, or finished without the
host. The janitor calls for that, as `records/server_steps.py` says. A server that fails keeps the host where its
guest is or was, with what it holds there in the ledger, so that it can be evacuated, rebuilt or deleted. An agent
that comes back finds a newer generation, and removes guests that are not on its host any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from roost.conductor.builds import check_image
from roost.conductor.names import check_details
from roost.conductor.parts import (
    ConductorParts,
    HostRequest,
    MoveRefused,
    Record,
    attempts_of,
    context_of,
    no_valid_host,
    refuse_unless_admin,
    retries_exhausted,
    scheduler_failure,
    with_attempt,
)
from roost.conductor.questions import request_for_cold_migration, request_for_resize
from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost, RpcError
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.flavor_image_group import flavor_from_object, flavor_to_object
from roost.messages.objects.request import request_to_object
from roost.messages.objects.selections import SelectedHost, selection_from_object
from roost.model import RequestSpec
from roost.model.resources import move_of
from roost.records.server import (
    MIGRATING,
    MIGRATION,
    REBUILDING,
    RESIZE,
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
    TaskData,
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


NOWHERE = {RESIZE: "No valid host found for resize", MIGRATION: "No valid host found for cold migrate"}
PRE_MIGRATING = "pre-migrating"
EMPTY: Mapping[str, Any] = {}
REVERT = "revert resize"
"""Step of the life cycle."""


class ResizesAndColdMigrations:
    """Resize, cold migration, and what ends them."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {
            "resize_server": self.resize_server,
            "migrate_server_cold": self.migrate_server_cold,
            "confirm_resize": self.confirm_resize,
            "revert_resize": self.revert_resize,
        }
        """What clients call, by name."""
        self.internal_methods: Mapping[str, Method] = {"migrate_server": self.migrate_server}
        """What conductors and agents call: with context, server_uuid, generation."""

    # --- for clients -------------------------------------------------------------------------------------

    def resize_server(
        self, context: RequestContext, server: str, flavor: Any, dry_run: bool = False, details: Any = None
    ) -> Record:
        """Begin to give a server another flavor. `details`: disk_config, if it changes with that."""
        parts = self._parts
        written = check_details(details or {}, ("disk_config",))
        found = parts.find(context, server, "resize", "resize")
        wanted, present = parts.catalogue.find_flavor(context, flavor), found.spec.flavor
        if wanted == present and wanted.extra_specs == present.extra_specs:
            raise BadInput("When resizing, instances must change flavor!", f"it has {wanted.name or 'this flavor'}")
        check_image(wanted, found.spec.image)
        flavors = {"flavor": flavor_to_object(wanted), "old_flavor": flavor_to_object(present)}
        return self._begin(context, found, parts.new_move(context, found, RESIZE, **flavors), dry_run, written)

    def migrate_server_cold(
        self, context: RequestContext, server: str, host: str | None = None, dry_run: bool = False
    ) -> Record:
        """Begin to move a server to another host, or to the named one; it is stopped meanwhile."""
        refuse_unless_admin(context, "migrate a server")
        parts = self._parts
        found = parts.find(context, server, "resize", "migrate")
        if parts.named_host(host) and host == found.host:
            raise BadInput("Cannot migrate to the host where the server exists.", "name another host, or none")
        size = flavor_to_object(found.spec.flavor)
        data = parts.new_move(context, found, MIGRATION, destination=host, flavor=size, old_flavor=size)
        return self._begin(context, found, data, dry_run)

    def _begin(
        self,
        context: RequestContext,
        server: Server,
        data: TaskData,
        dry_run: bool,
        written: Mapping[str, Any] = EMPTY,
    ) -> Record:
        """`written`: on the server, with the first step."""
        if dry_run:
            spec = self._request(replace(server, task=data))
            return self._parts.plan(context, server, data.action, spec)
        begun = self._parts.begin_move(server, "resize", data, PRE_MIGRATING, **written)
        return self._parts.go_on(context, begun, self.migrate_server)

    def confirm_resize(self, context: RequestContext, server: str, dry_run: bool = False) -> Record:
        """Begin to remove what a moved server left on its former host."""
        return self._end(context, server, "confirm resize", "confirmResize", "confirming", dry_run)

    def revert_resize(self, context: RequestContext, server: str, dry_run: bool = False) -> Record:
        """Begin to bring a moved server back to its former host and flavor; BadInput while that host is down."""
        return self._end(context, server, REVERT, "revertResize", "reverting", dry_run)

    def _end(self, context: RequestContext, server: str, step: str, verb: str, status: str, dry_run: bool) -> Record:
        """Take the first step of the end of a move, and wake the agent that goes on."""
        parts = self._parts
        found = parts.find(context, server, step, verb)
        data = replace(found.task, request_id=context.request_id)
        source = data.source[0] if data.source else None
        if step == REVERT and not parts.hosts.is_up(source):  # it would be taken off its only host that is up
            problem = f"server {found.uuid} cannot go back: its former host is down"
            raise BadInput(problem, "confirm the resize, or wait for the host")
        if dry_run:
            return parts.planned(context, found, step, found.host if step == "confirm resize" else source)
        begun = parts.store.advance(found, step, task=data, migration_status=status)
        context.when_answered(lambda: parts.wake_next(context, begun))
        return parts.catalogue.describe_server(context, begun)

    # --- for conductors and agents -----------------------------------------------------------------------

    def migrate_server(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Find a host for a server that is to be resized or moved, and have its agent go on.

        Without one, the server is what it was before, with a fault that says why.
        """
        search = HostRequest(self._find_host, "undo resize")
        self._parts.find_and_assign("migrate_server", context, server_uuid, generation, search)

    def _find_host(self, context: RequestContext, server: Server) -> Sequence[SelectedHost]:
        """The chosen host and its alternates; MoveRefused where there is none. A named host is tried once."""
        data, parts = server.task, self._parts
        if data.attempts and data.destination:
            last = data.attempts[-1]
            raise MoveRefused("ComputeResourcesUnavailable", f"{last.host}: {last.reason}", attempts_of(data))
        if data.attempts:
            return self._next_alternate(context, server)
        try:
            return parts.scheduler.select_one(context, self._request(server), server.uuid, not data.destination)
        except RemoteFailure as error:
            raise _refusal(error, data) from None

    def _next_alternate(self, context: RequestContext, server: Server) -> Sequence[SelectedHost]:
        """The first alternate that can be claimed, and those after it; MoveRefused where there is none."""
        data, asked = server.task, self._request(server)
        is_allowed = len(data.attempts) < self._parts.options.most_attempts
        left = [selection_from_object(each) for each in data.alternates] if is_allowed else []
        while left:
            try:
                chosen = self._parts.scheduler.claim_alternate(context, asked, server.uuid, left.pop(0))
            except RemoteFailure as error:
                raise _refusal(error, data) from None
            if chosen is not None:
                return [chosen, *left]
        raise retries_exhausted(server, attempts_of(data))

    def _request(self, server: Server) -> RequestSpec:
        data = server.task
        source = data.source[0] if data.source else str(server.host)
        if data.action == RESIZE:
            flavor = flavor_from_object(data.flavor)
            return request_for_resize(server.spec, flavor, source, self._parts.options.may_stay, data.tried)
        return request_for_cold_migration(server.spec, source, self._parts.wanted_host(data), data.tried)


def _refusal(error: RemoteFailure, data: TaskData) -> MoveRefused:
    """What a scheduler refused, in nova's words for the operation."""
    if isinstance(error, RemoteNoValidHost):
        return no_valid_host(error, NOWHERE[data.action], attempts_of(data))
    return scheduler_failure(error)
