# SPDX-License-Identifier: Apache-2.0
"""What an agent needs of a hypervisor. Every operation is idempotent: an agent repeats it after a crash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from roost.hosts.guests import Guest
from roost.hosts.numa_cells import HostTopology
from roost.hosts.pci import Pool


@dataclass(frozen=True)
class HostDescription:
    """What a hypervisor has. Amounts are totals of the machine; the agent counts what guests use."""

    hostname: str
    """Name of the node."""
    hypervisor_type: str
    hypervisor_version: int
    vcpus: int
    memory_mb: int
    local_gb: int
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    """(architecture, hypervisor, mode), such as ("x86_64", "qemu", "hvm")."""
    cpu_info: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()
    numa: HostTopology | None = None
    pci_pools: tuple[Pool, ...] = ()
    host_ip: str | None = None
    disk_available_least: int | None = None
    """GiB that can really be written; None if it is not known."""
    stats: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class GuestSpec:
    """A guest as it has to be defined."""

    uuid: str
    name: str
    vcpus: int
    memory_mb: int
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap_mb: int = 0
    image: Mapping[str, Any] = field(default_factory=dict)
    """Properties of the image, by name."""
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    placement: Guest | None = None
    """Pinned CPUs, NUMA cells and PCI devices that the ledger has booked for it; None: none."""


@dataclass(frozen=True)
class FoundGuest:
    """A guest that the hypervisor has."""

    uuid: str
    name: str
    power_state: str
    """One of `roost.records.server.POWER_STATES`."""
    is_own: bool
    """Whether Roost defined it; others are reported and never touched."""
    memory_mb: int = 0
    """Of a foreign guest that runs: what servers cannot have. 0 if it is not known, as `vcpus`."""
    vcpus: int = 0


class ComputeDriver(Protocol):
    """A hypervisor, or something that behaves like one. Thread-safe; HypervisorError where it refuses something."""

    def open(self) -> None:
        """Connect; HypervisorError where that fails. A lost connection is opened again by the next operation."""

    def close(self) -> None:
        """Disconnect. Guests go on running."""

    def describe(self) -> HostDescription:
        """What the hypervisor has, as of now."""

    def list_guests(self) -> Sequence[FoundGuest]:
        """All guests that are defined or running, foreign ones included."""

    def spawn(self, guest: GuestSpec, powered_on: bool = True) -> None:
        """Define the guest and start it. One that is there already is made so: started, or left alone."""

    def destroy(self, uuid: str) -> None:
        """Stop the guest at once and remove its definition and disks. One that is not there is no error."""

    def power_on(self, uuid: str) -> None:
        """Start a defined guest; one that runs is no error."""

    def power_off(self, uuid: str) -> None:
        """Stop a guest; its definition stays. One that is stopped is no error."""

    def migration_address(self) -> Mapping[str, Any]:
        """How another host of this kind reaches this one for a live migration: JSON data for `live_migrate` there."""

    def check_migration_source(self, source: Mapping[str, Any]) -> None:
        """HypervisorError if a guest of a host with this `migration_address` cannot be taken over here."""

    def live_migrate(self, guest: GuestSpec, target: Mapping[str, Any]) -> None:
        """Move a running guest to the host with this `migration_address`; it is gone here afterwards."""
