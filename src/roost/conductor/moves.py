# SPDX-License-Identifier: Apache-2.0
"""Resize and cold migration: finds a host, has agents move the server; confirmed or reverted afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import structlog

from roost.conductor.move_errors import (
    MoveRefused,
    no_valid_host,
    refuse_unless_admin,
    retries_exhausted,
    scheduler_failure,
)
from roost.conductor.new_servers import check_image
from roost.conductor.parts import ConductorParts, HostSearch, Record, attempts_of
from roost.conductor.requests_of_moves import request_for_cold_migration, request_for_resize
from roost.conductor.server_details import check_details
from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.flavor_image_group import flavor_from_object, flavor_to_object
from roost.messages.objects.selections import SelectedHost, selection_from_object
from roost.model import RequestSpec
from roost.records.server import MIGRATION, RESIZE, Server, TaskData

LOG = structlog.get_logger(__name__)
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
        search = HostSearch(self._find_host, "undo resize")
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
