# SPDX-License-Identifier: Apache-2.0
"""Rebuild, evacuation and shelving: a server's guest is made anew, where it is or on another host.

A rebuild stays on its host, with the same image or another that the host may run. An evacuation builds a server of a
dead host on another. Shelving takes a server off its host; it gets another when it is unshelved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from roost.conductor.builds import check_image
from roost.conductor.names import check_details
from roost.conductor.parts import (
    ConductorParts,
    HostRequest,
    MoveRefused,
    Record,
    attempts_of,
    no_valid_host,
    refuse_unless_admin,
    retries_exhausted,
    scheduler_failure,
)
from roost.conductor.questions import request_for_evacuation, request_for_rebuild, request_for_unshelving
from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.flavor_image_group import image_from_object, image_to_object
from roost.messages.objects.request import request_to_object
from roost.messages.objects.selections import SelectedHost
from roost.model import RequestSpec
from roost.records.server import EVACUATION, REBUILD, UNSHELVE, Fault, Server

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


class Rebuilds:
    """Rebuilds, and the part of evacuations that finds a host."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self._evacuations = Evacuations(parts, self.rebuild_instance)
        self.methods: Mapping[str, Method] = {
            "rebuild_server": self.rebuild_server,
            **self._evacuations.methods,
        }
        """What clients call, by name."""
        self.internal_methods: Mapping[str, Method] = {"rebuild_instance": self.rebuild_instance}
        """What conductors and agents call: with context, server_uuid, generation."""

    def rebuild_server(
        self, context: RequestContext, server: str, image: Any = None, dry_run: bool = False, details: Any = None
    ) -> Record:
        """Begin to build a server anew on its host, from this image; None: from the one that it has.

        `details`: what is written on it with that; see `check_details`.
        """
        parts = self._parts
        written = check_details(details or {})
        found = parts.find(context, server, "rebuild", "rebuild")
        if found.host is None:
            raise BadInput(f"server {found.uuid} is on no host", "delete it, or build another")
        wanted = parts.catalogue.find_image(context, image) if image is not None else None
        check_image(found.spec.flavor, wanted)
        is_same = wanted is None or wanted == found.spec.image
        data = parts.new_task(context, found, REBUILD, image=None if is_same else image_to_object(wanted))
        if dry_run:
            if is_same:
                return parts.planned(context, found, REBUILD, found.host)
            return parts.plan(context, found, REBUILD, _request(replace(found, task=data)))
        begun = parts.store.advance(found, "rebuild", task=data, **written)
        return parts.go_on(context, begun, self.rebuild_instance)

    # --- for conductors and agents -----------------------------------------------------------------------

    def rebuild_instance(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Find the host for a rebuild or an evacuation, and have its agent go on.

        Without one, the server is in error, with a fault that says why; it keeps its host and its image.
        """
        search = HostRequest(self._find_host, "fail rebuild")
        self._parts.find_and_assign("rebuild_instance", context, server_uuid, generation, search)

    def _find_host(self, context: RequestContext, server: Server) -> list[SelectedHost]:
        if server.task.action == EVACUATION:
            return self._evacuations.find_host(context, server)
        return [self._find_own_host(context, server)]

    def _find_own_host(self, context: RequestContext, server: Server) -> SelectedHost:
        """The host that the server is on; MoveRefused where filters refuse the new image there."""
        if server.task.image is None:
            return self._own_host(server)
        try:
            return self._parts.scheduler.select_one(context, _request(server), server.uuid, False)[0]
        except RemoteNoValidHost as error:
            raise no_valid_host(error) from None
        except RemoteFailure as error:
            raise scheduler_failure(error) from None

    def _own_host(self, server: Server) -> SelectedHost:
        host, node = str(server.host), str(server.node)
        found = self._parts.hosts.find(host)
        if found is None:
            raise MoveRefused("ComputeHostNotFound", "The host of the server could not be found.", f"host {host}")
        return SelectedHost(host, node, found.uuid, "", {}, None, server.availability_zone)


def _request(server: Server) -> RequestSpec:
    return request_for_rebuild(server.spec, image_from_object(server.task.image), str(server.host), str(server.node))


class Shelving:
    """Shelve and unshelve servers. A shelved server leaves its host at once."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {
            "shelve_server": self.shelve_server,
            "unshelve_server": self.unshelve_server,
        }
        """What clients call, by name."""
        self.internal_methods: Mapping[str, Method] = {"unshelve_instance": self.unshelve_instance}
        """What conductors and agents call: with context, server_uuid, generation."""

    def shelve_server(self, context: RequestContext, server: str, dry_run: bool = False) -> Record:
        """Begin to take a server off its host."""
        parts = self._parts
        found = parts.find(context, server, "shelve", "shelve")
        if dry_run:
            return parts.planned(context, found, "shelve", found.host)
        begun = parts.store.advance(found, "shelve", task=parts.new_task(context, found, ""))
        context.when_answered(lambda: parts.wake_next(context, begun))
        return parts.catalogue.describe_server(context, begun)

    def unshelve_server(
        self,
        context: RequestContext,
        server: str,
        host: str | None = None,
        availability_zone: str | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Begin to bring a shelved server onto a host: the named one, or one of the named zone, or any.

        With the empty text for `availability_zone`, the server is no longer kept in the zone in which it was.
        """
        if host is not None:
            refuse_unless_admin(context, "name a host")
        parts = self._parts
        found = parts.find(context, server, "unshelve", "unshelve")
        named = parts.named_host(host)
        zone = parts.catalogue.find_zone(availability_zone) if availability_zone else None
        spec = found.spec if availability_zone is None else found.spec.changed(availability_zone=zone)
        if dry_run:
            return parts.plan(context, found, UNSHELVE, request_for_unshelving(spec, named, zone))
        task = parts.new_task(context, found, UNSHELVE, destination=host, availability_zone=zone)
        # Later moves stay in a new zone, too.
        values: Record = {} if availability_zone is None else {"request_spec": request_to_object(spec)}
        begun = parts.store.advance(found, "unshelve", task=task, **values)
        return parts.go_on(context, begun, self.unshelve_instance)

    # --- for conductors and agents -----------------------------------------------------------------------

    def unshelve_instance(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Find a host for a shelved server, and have its agent go on; without one it stays shelved."""
        search = HostRequest(self._find_host, "fail unshelve")
        self._parts.find_and_assign("unshelve_instance", context, server_uuid, generation, search)

    def _find_host(self, context: RequestContext, server: Server) -> Sequence[SelectedHost]:
        data, parts = server.task, self._parts
        if data.attempts and (data.destination or len(data.attempts) >= parts.options.most_attempts):
            raise retries_exhausted(server, attempts_of(data))
        spec = request_for_unshelving(server.spec, parts.wanted_host(data), data.availability_zone, data.tried)
        try:
            return parts.scheduler.select_one(context, spec, server.uuid, False)
        except RemoteNoValidHost as error:
            raise no_valid_host(error, attempts=attempts_of(data)) from None
        except RemoteFailure as error:
            raise scheduler_failure(error) from None
