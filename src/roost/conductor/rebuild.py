# SPDX-License-Identifier: Apache-2.0
"""Rebuild: a server is built anew where it is, from the same image or from another that its host may run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roost.conductor.evacuation import Evacuations
from roost.conductor.move_errors import MoveRefused, no_valid_host, scheduler_failure
from roost.conductor.new_servers import check_image
from roost.conductor.parts import ConductorParts, HostSearch, Record
from roost.conductor.requests_of_moves import request_for_rebuild
from roost.conductor.server_details import check_details
from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.flavor_image_group import image_from_object, image_to_object
from roost.messages.objects.selections import SelectedHost
from roost.model import RequestSpec
from roost.records.server import EVACUATION, REBUILD, Server


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
        search = HostSearch(self._find_host, "fail rebuild")
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
