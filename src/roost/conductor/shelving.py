# SPDX-License-Identifier: Apache-2.0
"""Shelving: a server is taken off its host, and gets another when it is unshelved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roost.conductor.move_errors import no_valid_host, refuse_unless_admin, retries_exhausted, scheduler_failure
from roost.conductor.parts import ConductorParts, HostSearch, Record, attempts_of
from roost.conductor.requests_of_moves import request_for_unshelving
from roost.errors import RemoteFailure, RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.request import request_to_object
from roost.messages.objects.selections import SelectedHost
from roost.records.server import UNSHELVE, Server


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
        search = HostSearch(self._find_host, "fail unshelve")
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
