# SPDX-License-Identifier: Apache-2.0
"""Evacuation: a server of a dead host is built anew on another."""

from __future__ import annotations

from collections.abc import Mapping

from roost.conductor.move_errors import no_valid_host, refuse_unless_admin, scheduler_failure
from roost.conductor.parts import ConductorParts, Record
from roost.conductor.requests_of_moves import request_for_evacuation
from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.selections import SelectedHost
from roost.model import RequestSpec
from roost.records.server import EVACUATION, Fault, Server

PRE_MIGRATING = "pre-migrating"


class Evacuations:
    """Moves of servers whose hosts are down."""

    def __init__(self, parts: ConductorParts, rebuild: Method) -> None:
        """`rebuild`: the internal method that goes on with an evacuation."""
        self._parts, self._rebuild = parts, rebuild
        self.methods: Mapping[str, Method] = {"evacuate_server": self.evacuate_server}
        """What clients call, by name."""

    def evacuate_server(
        self,
        context: RequestContext,
        server: str,
        host: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> Record:
        """Begin to build a server anew on another host; BadInput while the service of its own is up."""
        refuse_unless_admin(context, "evacuate a server")
        parts = self._parts
        found = parts.find(context, server, "rebuild", "evacuate")
        if found.host is None:
            raise BadInput(f"server {found.uuid} is on no host", "delete it, or build another")
        if parts.hosts.is_up(found.host):
            hint = "wait until it is down, or force it down; then the server cannot run twice"
            raise BadInput(_in_use(found.host), hint)
        named = parts.named_host(host, force)
        if named and named.host == found.host:
            raise BadInput("The target host can't be the same one.", "name another host, or none")
        if dry_run:
            spec = request_for_evacuation(found.spec, found.host, named)
            return parts.plan(context, found, EVACUATION, spec)
        data = parts.new_move(context, found, EVACUATION, destination=host, is_forced=force)
        begun = parts.begin_move(found, "rebuild", data, PRE_MIGRATING)
        return parts.go_on(context, begun, self._rebuild)

    def find_host(self, context: RequestContext, server: Server) -> list[SelectedHost]:
        """The host that takes the server over; MoveRefused where there is none.

        Empty if the service of the server's own host is up again: the server is what it was before, or it would run
        twice.
        """
        is_up = self._parts.hosts.is_up
        if not is_up(server.host):
            chosen = self._select(context, server)
            if not is_up(server.host):
                return [chosen]
        self._parts.undo(server, "undo rebuild", Fault(_in_use(server.host), "its host came back meanwhile"))
        return []

    def _select(self, context: RequestContext, server: Server) -> SelectedHost:
        try:
            return self._parts.scheduler.select_one(context, self._request(server), server.uuid, False)[0]
        except RemoteNoValidHost as error:
            raise no_valid_host(error) from None
        except RemoteFailure as error:
            raise scheduler_failure(error) from None

    def _request(self, server: Server) -> RequestSpec:
        return request_for_evacuation(server.spec, str(server.host), self._parts.wanted_host(server.task))


def _in_use(host: str | None) -> str:
    return f"Compute service of {host} is still in use."
