# SPDX-License-Identifier: Apache-2.0
"""Preconditions of a live migration. A check that fails raises an exception of nova's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from roost.hosts import HostView
from roost.messages.dispatcher import nova_failure
from roost.scheduler.claiming import Replica

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
