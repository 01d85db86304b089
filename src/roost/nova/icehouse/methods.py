# SPDX-License-Identifier: Apache-2.0
"""RPC methods of Icehouse and Juno schedulers besides choosing hosts; later releases ask the conductor.

Methods are named as in messages; `run_instance.py` and `live_migration.py` do the work of most. Passwords and
injected files are passed on to the host that builds the instance, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import FieldError
from roost.hosts import HostTable
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import nova_failure
from roost.messages.interface import Notifier, Transport
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.nova.icehouse.live_migration import LiveMigration, LiveMigrationRequest
from roost.nova.icehouse.outcomes import Outcomes, uuid_of
from roost.nova.icehouse.run_instance import PrepResize, RunInstance

if TYPE_CHECKING:
    from roost.scheduler.manager import SchedulerManager


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
