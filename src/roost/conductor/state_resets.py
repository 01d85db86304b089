# SPDX-License-Identifier: Apache-2.0
"""Resets of the state of a server by an administrator, whatever is being done to it, or seems to be."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from roost.conductor.move_errors import refuse_unless_admin
from roost.conductor.parts import ConductorParts, Record
from roost.errors import FieldError, IllegalStep, RpcError, UnknownName
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.records.server import ACTIVE, DELETED, ERROR, Server
from roost.records.server_views import ENDED

LOG = structlog.get_logger(__name__)


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
