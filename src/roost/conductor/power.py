# SPDX-License-Identifier: Apache-2.0
"""Deletes, starts and stops servers, and resets their state for administrators.

The agent on the host does it; without one, a conductor deletes alone. A state is reset whatever is being done to the
server, or seems to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import structlog
from sqlalchemy import Connection

from roost.conductor.parts import ConductorParts, Record, context_of, refuse_unless_admin
from roost.errors import BadInput, FieldError, IllegalStep, RpcError, ServerChanged, UnknownName
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.model.resources import move_of
from roost.records.server import ACTIVE, DELETED, DELETING, ERROR, Fault, Server
from roost.records.server_steps import DELETE_UNPLACED, next_work
from roost.records.server_views import ENDED

LOG = structlog.get_logger(__name__)
MOST_TRIES = 10
"""How often a deletion begins anew because the server changed meanwhile: a build makes a few steps a second."""


class DeletesAndPower:
    """Deletion, start and stop of servers."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {
            "delete_server": self.delete_server,
            "start_server": partial(self._begin_power_change, "start"),
            "stop_server": partial(self._begin_power_change, "stop"),
        }
        self.internal_methods: Mapping[str, Method] = {"delete_unplaced": self.delete_unplaced}

    # --- delete ------------------------------------------------------------------------------------------

    def delete_server(self, context: RequestContext, server: str, dry_run: bool = False) -> Record:
        """Begin to delete a server, whatever is being done to it; once more if that has begun before."""
        parts = self._parts
        for _ in range(MOST_TRIES):
            found = parts.catalogue.find_server(context, server)
            if found.vm_state == DELETED:
                raise UnknownName(f"server {found.uuid} is deleted", "roost server list shows those that are left")
            if dry_run:
                return parts.planned(context, found, "delete", host=found.host)
            if found.task_state == DELETING:
                return self._go_on(context, found)
            task = parts.new_task(context, found, "")
            try:
                return self._go_on(context, parts.store.advance(found, "delete", task=task))
            except ServerChanged:
                continue
        raise ServerChanged(f"server {server[:60]} changes all the time", "try again")

    def _go_on(self, context: RequestContext, server: Server) -> Record:
        context.when_answered(partial(self._run, context, server))
        return self._parts.catalogue.describe_server(context, server)

    def _run(self, context: RequestContext, server: Server) -> None:
        """Have the agent go on; a server without one, or whose host is down, is deleted here."""
        parts = self._parts
        due = next_work(server)
        if due is None:
            return
        if due.work is DELETE_UNPLACED:
            self.delete_unplaced(context, server.uuid, server.generation)
        elif not parts.hosts.is_up(due.host):
            self._logged(server, lambda: self.finish_without_host(server, f"host {due.host} is down"))
        else:
            self._logged(server, lambda: parts.wake_next(context, server))

    def _logged(self, server: Server, work: Callable[[], None]) -> None:
        """Do something after the answer; what fails is logged, and done again by the janitor."""
        try:
            work()
        except (ServerChanged, RpcError) as error:
            LOG.info("not done yet", server=server.uuid, reason=str(error))

    def delete_unplaced(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Delete a server that is on no host."""
        self._parts.run_if_due(
            DELETE_UNPLACED.method, server_uuid, generation, partial(self._finish, reason="it is on no host")
        )

    def finish_without_host(self, server: Server, reason: str) -> None:
        """Delete a server whose host is down; an agent that comes back removes its guest."""
        self._finish(server, reason)

    def _finish(self, server: Server, reason: str) -> None:
        parts = self._parts
        parts.ledger.release([server.uuid, move_of(server.uuid)])
        moves = [each for each in parts.store.list_migrations(server.uuid) if each.status not in ENDED]
        updates = [parts.store.update_migration(each.uuid, status="cancelled") for each in moves]

        def cancel_moves(connection: Connection) -> None:
            for update in updates:
                update(connection)

        # A host that missed heartbeats may run, and its guest with it.
        hosts = {host for each in moves for host in (each.source_compute, each.dest_compute)} | {server.host}
        deleted = parts.store.advance(server, "finish delete", also=cancel_moves, left_on=hosts, power_state=None)
        parts.ledger.release([server.uuid, move_of(server.uuid)])  # a late claim of a scheduler that was asked before
        LOG.info("server deleted", server=server.uuid, reason=reason)
        for host in sorted(filter(None, hosts)):
            where = context_of(server)
            self._logged(
                deleted,
                partial(parts.messages.wake, where, host, "refresh_instance", deleted.uuid, deleted.generation),
            )

    # --- power -------------------------------------------------------------------------------------------

    def _begin_power_change(self, verb: str, context: RequestContext, server: str, dry_run: bool = False) -> Record:
        """Begin to start or stop a server."""
        parts = self._parts
        found = parts.find(context, server, verb, verb)
        if not parts.hosts.is_up(found.host):
            raise BadInput(
                f"the host of server {found.uuid} is down", "wait for the host; an admin can evacuate the server"
            )
        if dry_run:
            return parts.planned(context, found, verb, host=found.host)
        changed = parts.store.advance(found, verb, task=parts.new_task(context, found, ""))
        context.when_answered(partial(self._logged, changed, partial(parts.wake_next, context, changed)))
        return parts.catalogue.describe_server(context, changed)

    def undo_power_change(self, server: Server, reason: str) -> None:
        """Leave a server as it was before it should have been started or stopped: its host is down."""
        fault = Fault("The server could not be started or stopped: its host is down", reason, host=server.host)
        self._parts.store.advance(server, "fail power change", fault=fault)


class StateResets:
    """Answers `reset_server_state`."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {"reset_server_state": self.reset_server_state}

    def reset_server_state(self, context: RequestContext, server: str, state: str, dry_run: bool = False) -> Record:
        """Give a server the state active or error, and end its task and its move.

        What a move holds besides is released by the janitor, and guests that it left by the agents.
        """
        refuse_unless_admin(context, "reset the state of a server")
        parts = self._parts
        if state not in (ACTIVE, ERROR):
            raise FieldError("state", f"{str(state)[:60]!r} is not possible", "give active or error")
        found = parts.catalogue.find_server(context, server)
        if found.vm_state == DELETED:
            raise UnknownName(f"server {found.uuid} is deleted", "roost server list shows those that are left")
        if state == ACTIVE and found.host is None:
            raise IllegalStep(f"Cannot 'resetState' instance {found.uuid} to active while it is on no host")
        if dry_run:
            return parts.planned(context, found, f"reset to {state}", found.host)
        hosts = self._hosts_of(found)
        left = {*hosts, found.task.target_host} - {found.host}
        done = parts.store.advance(found, f"reset to {state}", migration_status="error", left_on=left)
        LOG.warning(
            "state reset", server=done.uuid, state=state, task=found.task_state, request_id=context.request_id
        )
        context.when_answered(lambda: self._refresh(context, done, hosts))
        return parts.catalogue.describe_server(context, done)

    def _hosts_of(self, server: Server) -> list[str]:
        """The hosts that may have a guest of a server: its own, and those of its move."""
        moves = [each for each in self._parts.store.list_migrations(server.uuid) if each.status not in ENDED]
        hosts = {server.host, *(host for each in moves for host in (each.source_compute, each.dest_compute))}
        return sorted(filter(None, hosts))

    def _refresh(self, context: RequestContext, server: Server, hosts: list[str]) -> None:
        """Have agents compare their guests with the record."""
        for host in hosts:
            try:
                self._parts.messages.wake(context, host, "refresh_instance", server.uuid, server.generation)
            except RpcError as error:
                LOG.info("agent not reached", server=server.uuid, host=host, reason=str(error))
