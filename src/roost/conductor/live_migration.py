# SPDX-License-Identifier: Apache-2.0
"""Live migration: checks, a destination that is named, forced or chosen, and the source's agent goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from roost.conductor.parts import (
    TOO_MANY_RETRIES,
    ConductorParts,
    HostFacts,
    HostRequest,
    MoveRefused,
    Record,
    no_valid_host,
    refuse_unless_admin,
)
from roost.conductor.questions import NamedHost, request_for_live_migration
from roost.errors import BadInput, RemoteFailure, RemoteNoValidHost, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.selections import SelectedHost
from roost.records.server import LIVE_MIGRATION, PAUSED, RUNNING, Attempt, Server

LOG = structlog.get_logger(__name__)
QUEUED, PREPARING = "queued", "preparing"
CHECK = "check_can_live_migrate_destination"
HYPERVISOR_TYPE = "The supplied hypervisor type of is invalid."
HYPERVISOR_TOO_OLD = "The instance requires a newer hypervisor version than has been provided."
MOST_SILENT = 3
"""Destinations that may give no answer before a live migration is given up."""
_NO_ANSWER = (RpcTimeout, RpcUnreachable)


class LiveMigrations:
    """Moves of running servers."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {"live_migrate_server": self.live_migrate_server}
        """What clients call, by name."""
        self.internal_methods: Mapping[str, Method] = {"live_migrate_instance": self.live_migrate_instance}
        """What conductors and agents call: with context, server_uuid, generation."""

    def live_migrate_server(
        self,
        context: RequestContext,
        server: str,
        host: str | None = None,
        force: bool = False,
        dry_run: bool = False,
    ) -> Record:
        """Begin to move a running server; `force`: to the named host, whatever the filters say."""
        refuse_unless_admin(context, "migrate a server live")
        parts = self._parts
        found = parts.find(context, server, "live-migrate", "os-migrateLive")
        named = parts.named_host(host, force)
        if dry_run:
            return self._plan(context, found, named)
        data = parts.new_move(context, found, LIVE_MIGRATION, destination=host, is_forced=force)
        begun = parts.begin_move(found, "live-migrate", data, QUEUED)
        return parts.go_on(context, begun, self.live_migrate_instance)

    def _plan(self, context: RequestContext, server: Server, named: NamedHost | None) -> Record:
        try:
            self._check_server(server)
            if named and named.is_forced:
                self._check_forced(server, named.host)
        except MoveRefused as refusal:
            raise BadInput(refusal.message) from None
        spec = request_for_live_migration(server.spec, [str(server.host)], named)
        return self._parts.plan(context, server, LIVE_MIGRATION, spec)

    # --- for conductors and agents -----------------------------------------------------------------------

    def live_migrate_instance(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Check the server, find a destination, and have the agent on the source go on.

        Without one, the server is what it was before, and runs where it is, with a fault that says why.
        """
        search = HostRequest(self._find_destination, "undo live migration", PREPARING)
        self._parts.find_and_assign("live_migrate_instance", context, server_uuid, generation, search)

    def _check_server(self, server: Server) -> None:
        """The server runs, and the service of its host is up."""
        if server.power_state != RUNNING and server.vm_state != PAUSED:
            state = f"Instance {server.uuid} in power_state {server.power_state or 'unknown'}."
            raise MoveRefused("InstanceInvalidState", f"{state} Cannot live migrate while it is in this state.")
        if not self._parts.hosts.is_up(server.host):
            raise _unavailable(server.host)

    def _find_destination(self, context: RequestContext, server: Server) -> list[SelectedHost]:
        """The host that was chosen and passed the checks; MoveRefused where there is none.

        Empty where the chosen one refused: a conductor goes on with the next message.
        """
        self._check_server(server)
        data = server.task
        if data.is_forced and data.destination:
            self._check_forced(server, data.destination)
        named = self._parts.wanted_host(data)
        self._check_retries(server)
        address = self._call(context, str(server.host), "get_migration_address", {})
        attempted = [str(server.host), *(each.host for each in data.attempts)]
        spec = request_for_live_migration(server.spec, attempted, named)
        try:
            chosen = self._parts.scheduler.select_one(context, spec, server.uuid, False)[0]
        except RemoteNoValidHost as error:
            raise no_valid_host(error, attempts=_reasons(server)) from None
        except RemoteFailure as error:
            raise MoveRefused("MigrationSchedulerRPCError", _scheduler_error(error)) from None
        try:
            self._check_hypervisor(server, self._get_host(chosen.host))
            self._call(context, chosen.host, CHECK, {"server_uuid": server.uuid, "source": address})
        except MoveRefused as refusal:
            if data.is_forced:
                raise
            self._try_another(context, server, Attempt(chosen.host, chosen.node, refusal.message))
            return []
        return [chosen]

    def _try_another(self, context: RequestContext, server: Server, attempt: Attempt) -> None:
        """Record a destination that refused, and have a conductor ask for another one.

        Only after it is recorded: of two conductors that work on the same message, the slower one must not move the
        claim to yet another host.
        """
        LOG.info("destination refused", server=server.uuid, host=attempt.host, reason=attempt.reason)
        data = replace(server.task, attempts=(*server.task.attempts, attempt))
        noted = self._parts.store.advance(server, "assign", task=data)
        self._parts.messages.wake(context, None, "live_migrate_instance", noted.uuid, noted.generation)

    def _check_retries(self, server: Server) -> None:
        most, retries = self._parts.options.most_retries, len(server.task.attempts)
        if most != -1 and retries > most:
            reason = f"Exceeded max scheduling retries {retries} for instance {server.uuid} during live migration"
            raise MoveRefused("MaxRetriesExceeded", f"{TOO_MANY_RETRIES} {reason}", _reasons(server), "failed")
        silent = [each for each in server.task.attempts if each.reason.startswith(_unavailable(each.host).message)]
        if len(silent) >= MOST_SILENT:  # each costs a timeout, and more of them are not likely to answer
            reason = f"{len(silent)} destinations did not answer during live migration of instance {server.uuid}"
            raise MoveRefused("MaxRetriesExceeded", f"{TOO_MANY_RETRIES} {reason}", _reasons(server), "failed")

    # --- checks of a destination -------------------------------------------------------------------------

    def _check_forced(self, server: Server, host: str) -> None:
        """What a scheduler would have looked at: it is another host, its service is up, it has memory to spare."""
        if host == server.host:
            message = f"Unable to migrate instance ({server.uuid}) to current host ({host})."
            raise MoveRefused("UnableToMigrateToSelf", message)
        found = self._parts.hosts.find(host)
        if found is None or not found.is_up:
            raise _unavailable(host)
        needed, available = server.spec.flavor.memory_mb, found.available_ram_mb
        if not needed or available <= needed:
            lack = f"Lack of memory(host:{available:.0f} <= instance:{needed})"
            message = f"Migration pre-check error: Unable to migrate {server.uuid} to {host}: {lack}"
            raise MoveRefused("MigrationPreCheckError", message)
        self._check_hypervisor(server, found)

    def _check_hypervisor(self, server: Server, target: HostFacts) -> None:
        """Both hosts have the same type of hypervisor, and the target's is not older."""
        source = self._get_host(str(server.host))
        if source.hypervisor_type != target.hypervisor_type:
            raise MoveRefused("InvalidHypervisorType", HYPERVISOR_TYPE)
        if target.hypervisor_version < source.hypervisor_version:
            raise MoveRefused("DestinationHypervisorTooOld", HYPERVISOR_TOO_OLD)

    def _get_host(self, host: str) -> HostFacts:
        found = self._parts.hosts.find(host)
        if found is None:
            raise MoveRefused("ComputeHostNotFound", f"Compute host {host} could not be found.")
        return found

    def _call(self, context: RequestContext, host: str, method: str, args: Mapping[str, Any]) -> Any:
        """The answer of the agent on a host; MoveRefused if it refuses, or does not answer."""
        try:
            return self._parts.messages.call_agent(context, host, method, args)
        except _NO_ANSWER as error:
            raise MoveRefused("ComputeServiceUnavailable", f"{_unavailable(host).message} {error.message}") from None
        except RemoteFailure as error:
            raise MoveRefused("MigrationPreCheckError", f"Migration pre-check error: {error.message}") from None


def _unavailable(host: str | None) -> MoveRefused:
    message = f"Compute service of {host} is unavailable at this time."
    return MoveRefused("ComputeServiceUnavailable", message)


def _scheduler_error(error: RemoteFailure) -> str:
    return f"Migration select destinations error: {error.message}"


def _reasons(server: Server) -> str:
    """Destinations that refused, a line each."""
    return "\n".join(f"{each.host}: {each.reason}" for each in server.task.attempts)
