# SPDX-License-Identifier: Apache-2.0
"""RPC methods of Icehouse and Juno schedulers besides choosing hosts; later releases ask the conductor.

Methods are named as in messages. `run_instance.py` builds instances; passwords and injected files are passed on to
the host that builds the instance, and nowhere else.

live_migration finds a host that can take a running instance, or checks the one that was named, and sends it there:
start reading at `LiveMigration.migrate`. What the destination finds out about itself is asked of its agent; the agent
of the source does the work. A precondition that fails raises an exception of nova's.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import ClaimRejected, FieldError, RemoteFailure, RpcError
from roost.hosts import HostTable, HostView
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import WireFailure, nova_failure
from roost.messages.interface import Notifier, Transport
from roost.messages.options import RpcOptions
from roost.model import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.nova.icehouse.outcomes import ACTIVE, ERROR, Outcomes, fields_of, request_for, sent_uuid_of, uuid_of
from roost.nova.icehouse.run_instance import (
    COMPUTE_VERSION,
    ClaimRestore,
    PrepResize,
    RunInstance,
    restored_on_failure,
)
from roost.scheduler.claiming import Replica
from roost.scheduler.cloud import NO_VALID_HOST, as_nova_errors
from roost.scheduler.options import LiveMigrationOptions

if TYPE_CHECKING:
    from roost.scheduler.manager import SchedulerManager


MIGRATING = "migrating"
"""task_state of an instance during a live migration."""
RUNNING = 1
"""power_state of a running instance."""
INVALID = 400
"""HTTP-like code of errors in the request."""


class Host(NamedTuple):
    """A compute host as the checks see it."""

    name: str
    node_uuid: str
    is_up: bool
    free_ram_mb: int
    hypervisor_type: str
    hypervisor_version: int


def find_host(replica: Replica, name: str, node: str | None = None) -> Host:
    """The host, up or down; ComputeServiceUnavailable where it is unknown."""
    with replica.lock:
        rows = replica.table.rows_of_host(name)
        row = next((row for row in rows if replica.table.names[row][1] == node), rows[0] if rows else None)
        if row is None:
            raise _unavailable(name)
        view = HostView(replica.table, row)
        return Host(
            name=name,
            node_uuid=view.uuid,
            is_up=bool(view.is_up),
            free_ram_mb=view.free_ram_mb,
            hypervisor_type=str(view.hypervisor_type),
            hypervisor_version=view.hypervisor_version,
        )


def check_source(replica: Replica, uuid: str, instance: Mapping[str, Any]) -> Host:
    """The host that an instance runs on; raises unless the instance is running and the host is up."""
    if instance.get("power_state") != RUNNING:
        problem = f"Instance {uuid} is not running, so it cannot be moved while it runs."
        raise nova_failure("InstanceNotRunning", problem, instance_id=uuid, code=INVALID)
    return _up(find_host(replica, str(instance.get("host") or ""), instance.get("node")))


def check_destination(
    replica: Replica, uuid: str, instance: Mapping[str, Any], source: Host, destination: str
) -> Host:
    """The requested destination; raises unless it is another host, up, with enough memory and the same hypervisor."""
    if destination == source.name:
        problem = f"Instance {uuid} is on host {destination} already."
        raise nova_failure("UnableToMigrateToSelf", problem, instance_id=uuid, host=destination, code=INVALID)
    host = _up(find_host(replica, destination))
    needed = instance.get("memory_mb")
    if not isinstance(needed, int) or not 0 < needed < host.free_ram_mb:
        lack = f"Lack of memory(host:{host.free_ram_mb} <= instance:{needed})"
        problem = f"Unable to migrate {uuid} to {destination}: {lack}"
        raise nova_failure("MigrationPreCheckError", problem, reason=problem)
    check_hypervisors(source, host)
    return host


def check_hypervisors(source: Host, destination: Host) -> None:
    """Raise unless both hypervisors are of one type and the destination's is not older."""
    if destination.hypervisor_type != source.hypervisor_type:
        problem = (
            f"Host {destination.name} has the hypervisor {destination.hypervisor_type}, "
            f"and host {source.name} has {source.hypervisor_type}."
        )
        raise nova_failure("InvalidHypervisorType", problem, code=INVALID)
    if destination.hypervisor_version < source.hypervisor_version:
        problem = (
            f"The hypervisor of host {destination.name} has version {destination.hypervisor_version}, "
            f"which is older than {source.hypervisor_version} of host {source.name}."
        )
        raise nova_failure("DestinationHypervisorTooOld", problem, code=INVALID)


def _up(host: Host) -> Host:
    if not host.is_up:
        raise _unavailable(host.name)
    return host


def _unavailable(name: str) -> Exception:
    problem = f"The compute service of host {name or '(none)'} is not up."
    return nova_failure("ComputeServiceUnavailable", problem, host=name)


LOG = structlog.get_logger(__name__)

METHOD = "live_migration"
MOST_CHOICES = 5
"""How often CPUs and devices of a requested destination are chosen: another scheduler may take them first."""
UNSUITABLE = frozenset(
    {
        "DestinationHypervisorTooOld",
        "Invalid",
        "InvalidCPUInfo",
        "InvalidHypervisorType",
        "InvalidLocalStorage",
        "InvalidSharedStorage",
        "MigrationPreCheckError",
    }
)
"""Errors after which another host is tried."""
EXPECTED = UNSUITABLE - {"Invalid"} | {
    "ComputeServiceUnavailable",
    "InstanceNotRunning",
    "NoValidHost",
    "UnableToMigrateToSelf",
}
"""Errors after which the instance is as it was. InstanceNotRunning and InvalidCPUInfo are among them as in later
releases: Icehouse put a server that was stopped, or stayed where it was, into the state error."""


class LiveMigrationRequest(NamedTuple):
    """A live_migration request."""

    context: RequestContext
    uuid: str
    instance: Any
    block_migration: Any
    disk_over_commit: Any

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields of the instance."""
        return fields_of(self.instance, "instance")


class LiveMigration:
    """Handles live_migration. May be shared by threads."""

    def __init__(self, manager: SchedulerManager, ledger: Ledger, transport: Transport, outcomes: Outcomes) -> None:
        self._manager, self._ledger, self._transport, self._outcomes = manager, ledger, transport, outcomes

    def migrate(self, migration: LiveMigrationRequest, destination: str | None) -> None:
        """Start the migration; raises an exception of nova's where that is impossible."""
        try:
            with as_nova_errors(self._manager.driver.why_nowhere):
                self._migrate(migration, destination)
        except Exception as error:
            name = type(error).__name__ if isinstance(error, WireFailure) else ""
            is_as_before, spelt = name in EXPECTED, sent_uuid_of(migration.instance, "instance")
            self._outcomes.failed(
                migration.context,
                METHOD,
                spelt,
                str(error),
                {"instance_properties": {"uuid": spelt}, "instance_uuids": [spelt]},
                vm_state=str(migration.fields.get("vm_state") or ACTIVE) if is_as_before else ERROR,
                only_from_task=MIGRATING if is_as_before else None,
            )
            raise

    def _migrate(self, migration: LiveMigrationRequest, destination: str | None) -> None:
        self._manager.claims.refresh()
        source = check_source(self._manager.replica, migration.uuid, migration.fields)
        spec, _ = self._manager.parse_request(request_for(migration.instance), {})
        with restored_on_failure(self._ledger, [migration.uuid]) as held:
            if destination:
                found = self._take_named(migration, spec, source, destination, held)
            else:
                destination, found = self._search(migration, spec, source)
            told = {
                "dest": destination,
                "block_migration": migration.block_migration,
                "instance": migration.instance,
                "migrate_data": found,
            }
            self._transport.cast(f"compute.{source.name}", METHOD, COMPUTE_VERSION, told, migration.context)

    def _take_named(
        self, migration: LiveMigrationRequest, spec: RequestSpec, source: Host, destination: str, held: ClaimRestore
    ) -> Any:
        """Check and claim the requested destination; filters are skipped."""
        host = check_destination(self._manager.replica, migration.uuid, migration.fields, source, destination)
        try:
            self._claim_named(migration, spec, source, host, held)
        except ClaimRejected as error:
            problem = f"Unable to migrate {migration.uuid} to {destination}: {error}"
            raise nova_failure("MigrationPreCheckError", problem, reason=problem) from error
        return self._ask_destination(migration, destination)

    def _claim_named(
        self, migration: LiveMigrationRequest, spec: RequestSpec, source: Host, host: Host, held: ClaimRestore
    ) -> None:
        """Claim the requested destination; other CPUs and devices if another scheduler took those chosen first."""
        claims = self._manager.claims
        for attempt in count(1):
            claim = claims.claim_on(spec, migration.uuid, host.name, host.node_uuid)
            try:
                held.claim(claim, source.name)
                return
            except ClaimRejected:
                if claim.guest is None or attempt == MOST_CHOICES:
                    raise
                claims.refresh()

    def _search(self, migration: LiveMigrationRequest, spec: RequestSpec, source: Host) -> tuple[str, Any]:
        """The best host that accepts the instance, and the reply of its agent."""
        attempted = [source.name]
        while True:
            self._check_attempts(migration, len(attempted) - 1)
            elsewhere = spec.changed(ignore_hosts=tuple(attempted), num_instances=1)
            placement = self._manager.place(migration.context, elsewhere, [migration.uuid], is_announced=False)
            name, node = placement.decision.selections[0].host, placement.decision.selections[0].node
            try:
                check_hypervisors(source, find_host(self._manager.replica, name, node))
                return name, self._ask_destination(migration, name)
            except WireFailure as failure:
                if type(failure).__name__ not in UNSUITABLE:
                    raise
                LOG.info("host will not do", instance=migration.uuid, host=name, reason=str(failure))
            attempted.append(name)  # the next place() releases it: its request ignores the source, too

    def _check_attempts(self, migration: LiveMigrationRequest, retries: int) -> None:
        most = self._manager.settings.fill(LiveMigrationOptions).migrate_max_retries
        if most != -1 and retries > most:
            reason = f"Exceeded max scheduling retries {retries} for instance {migration.uuid} during live migration"
            raise nova_failure("NoValidHost", f"{NO_VALID_HOST} {reason}", reason=reason)

    def _ask_destination(self, migration: LiveMigrationRequest, destination: str) -> Any:
        """The reply of the destination's agent, which raises an error if it cannot take the instance."""
        args = {
            "instance": migration.instance,
            "block_migration": migration.block_migration,
            "disk_over_commit": migration.disk_over_commit,
        }
        method, topic = "check_can_live_migrate_destination", f"compute.{destination}"
        timeout = self._manager.settings.fill(RpcOptions).rpc_response_timeout
        try:
            return self._transport.call(topic, method, COMPUTE_VERSION, args, migration.context, timeout)
        except RemoteFailure as error:
            if error.name in UNSUITABLE | EXPECTED:
                raise nova_failure(error.name, error.message, reason=error.reason or error.message) from error
            raise _not_asked(destination, error) from error
        except RpcError as error:
            raise _not_asked(destination, error) from error


def _not_asked(destination: str, error: RpcError) -> WireFailure:
    reason = f"host {destination} could not be asked whether it takes the instance: {error}"
    return nova_failure("MigrationSchedulerRPCError", reason, is_expected=False, reason=reason)


class LegacyMethods:
    """The methods of message versions 2 and 3. Shared by threads."""

    def __init__(
        self,
        manager: SchedulerManager,
        ledger: Ledger,
        transport: Transport,
        engine: Engine,
        notifier: Notifier | None,
        clock: Clock,
    ) -> None:
        """`notifier`: for unversioned notifications; None where they are off."""
        outcomes = Outcomes(engine, notifier, clock)
        self._manager = manager
        self._building = RunInstance(manager, ledger, transport, engine, outcomes, clock)
        self._resizing = PrepResize(manager, ledger, transport, outcomes)
        self._live_migrating = LiveMigration(manager, ledger, transport, outcomes)

    def run_instance(
        self,
        context: RequestContext,
        request_spec: Any,
        admin_password: Any = None,
        injected_files: Any = None,
        requested_networks: Any = None,
        is_first_time: Any = True,
        filter_properties: Any = None,
        legacy_bdm_in_spec: Any = True,
    ) -> None:
        """Choose hosts for the instances of a request, and cast run_instance to them."""
        handed_on = {
            "admin_password": admin_password,
            "injected_files": injected_files,
            "requested_networks": requested_networks,
            "is_first_time": is_first_time,
            "legacy_bdm_in_spec": legacy_bdm_in_spec,
        }
        properties = _mapping(filter_properties or {}, "filter_properties")
        self._building.run(context, _mapping(request_spec, "request_spec"), properties, handed_on)

    def prep_resize(
        self,
        context: RequestContext,
        instance: Any,
        instance_type: Any,
        image: Any,
        request_spec: Any,
        filter_properties: Any,
        reservations: Any,
    ) -> None:
        """Choose a host for an instance that is resized, and cast prep_resize to it."""
        handed_on = {"instance_type": instance_type, "image": image, "reservations": reservations}
        properties = _mapping(filter_properties or {}, "filter_properties")
        self._resizing.prepare(context, instance, _mapping(request_spec or {}, "request_spec"), properties, handed_on)

    def live_migration(
        self, context: RequestContext, instance: Any, dest: Any, block_migration: Any, disk_over_commit: Any
    ) -> None:
        """Live-migrate an instance to the host `dest`, or to the best host if that is None."""
        if dest is not None and not isinstance(dest, str):
            raise FieldError("dest", f"{type(dest).__name__} is no name of a host")
        uuid = uuid_of(instance, "instance")
        migration = LiveMigrationRequest(context, uuid, instance, block_migration, disk_over_commit)
        self._live_migrating.migrate(migration, dest or None)

    def show_host_resources(self, context: RequestContext, host: Any) -> dict[str, Any]:
        """Total and used resources of a host, and usage per project."""
        with self._manager.replica.lock:
            table = self._manager.replica.table
            rows = table.rows_of_host(host) if isinstance(host, str) else range(0)
            if not rows:
                problem = f"There is no compute host {host!r:.260}."
                raise nova_failure("ComputeHostNotFound", problem, host=str(host)[:255], code=404)
            return {"resource": _resources(table, rows), "usage": _usage(table, rows)}

    def get_backdoor_port(self, context: RequestContext) -> None:
        """None: there is no back door."""
        return

    def create_volume(self, context: RequestContext, **arguments: Any) -> None:
        """Always an error: cinder schedules volumes."""
        raise nova_failure("NovaException", "Volumes are not scheduled here: ask cinder's scheduler.")


def _mapping(value: Any, field: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise FieldError(field, f"{type(value).__name__} is no mapping")
    return value


def _resources(table: HostTable, rows: range) -> dict[str, int]:
    """Sums over all nodes of a host."""

    def total(column: str) -> int:
        return int(sum(table.numbers[column][row] for row in rows))

    memory_mb, local_gb = total("total_usable_ram_mb"), total("total_usable_disk_gb")
    return {
        "vcpus": total("vcpus_total"),
        "memory_mb": memory_mb,
        "local_gb": local_gb,
        "vcpus_used": total("vcpus_used"),
        "memory_mb_used": memory_mb - total("free_ram_mb"),
        "local_gb_used": local_gb - total("free_disk_mb") // 1024,
    }


def _usage(table: HostTable, rows: range) -> dict[str, dict[str, int]]:
    """Project -> resources of its instances. Ephemeral disk is not recorded separately: it counts as root."""
    found: dict[str, dict[str, int]] = {}
    for instance in (each for row in rows for each in table.instances.get(row, {}).values()):
        held = found.setdefault(
            instance.project_id or "", {"vcpus": 0, "memory_mb": 0, "root_gb": 0, "ephemeral_gb": 0}
        )
        for name, resource_class in (("vcpus", VCPU), ("memory_mb", MEMORY_MB), ("root_gb", DISK_GB)):
            held[name] += instance.resources.get(resource_class, 0)
    return found
