# SPDX-License-Identifier: Apache-2.0
"""The options of agents, by nova's names, and those of the fake hypervisor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from roost.errors import OptionError
from roost.options.declare import option

GROUP = "DEFAULT"
FAKE, LIBVIRT = "fake", "libvirt"
DRIVERS = {FAKE: FAKE, "fake.FakeDriver": FAKE, LIBVIRT: LIBVIRT, "libvirt.LibvirtDriver": LIBVIRT}
"""Every spelling of a driver's name -> FAKE or LIBVIRT."""
USUAL_UPDATE_SECONDS = 60.0
"""Seconds between two reports where `update_resources_interval` is 0."""

USUAL_POWER_SECONDS = 600.0
"""Seconds between two comparisons of power states where `sync_power_state_interval` is 0."""


@dataclass(frozen=True)
class ComputeOptions:
    """An agent: its hypervisor, what it keeps for the host itself, how far it overcommits, how often it reports."""

    compute_driver: str = option(
        "libvirt.LibvirtDriver",
        group=GROUP,
        reloads=False,
        in_fleet=False,
        help="hypervisor of an agent: libvirt.LibvirtDriver, or fake.FakeDriver for hosts that do not exist",
    )
    reserved_host_memory_mb: int = option(
        512, min=0, group=GROUP, help="MiB of memory that are kept for the host itself"
    )
    reserved_host_disk_mb: int = option(0, min=0, group=GROUP, help="MiB of disk that are kept for the host itself")
    reserved_host_cpus: int = option(0, min=0, group=GROUP, help="CPUs that are kept for the host itself")
    cpu_allocation_ratio: float = option(
        0.0, min=0.0, group=GROUP, help="vCPUs per CPU; 0: initial_cpu_allocation_ratio"
    )
    ram_allocation_ratio: float = option(
        0.0, min=0.0, group=GROUP, help="memory of servers per memory; 0: initial_ram_allocation_ratio"
    )
    disk_allocation_ratio: float = option(
        0.0, min=0.0, group=GROUP, help="disk of servers per disk; 0: initial_disk_allocation_ratio"
    )
    initial_cpu_allocation_ratio: float = option(
        4.0, min=0.0, group=GROUP, help="vCPUs per CPU of a host for which cpu_allocation_ratio is not set"
    )
    initial_ram_allocation_ratio: float = option(
        1.0, min=0.0, group=GROUP, help="memory of servers per memory where ram_allocation_ratio is not set"
    )
    initial_disk_allocation_ratio: float = option(
        1.0, min=0.0, group=GROUP, help="disk of servers per disk where disk_allocation_ratio is not set"
    )
    update_resources_interval: int = option(
        0,
        group=GROUP,
        help="seconds between two reports of a host that does not change; 0: 60, less than 0: only after a change",
    )
    sync_power_state_interval: int = option(
        600,
        group=GROUP,
        help="seconds between two comparisons of power states; 0: 600, less than 0: only at the start",
    )
    consecutive_build_service_disable_threshold: int = option(
        10,
        min=0,
        group="compute",
        help="0: failed builds are not counted; otherwise they are, for BuildFailureWeigher; no host is disabled",
    )

    @property
    def driver_name(self) -> str:
        """FAKE or LIBVIRT, however it is spelt; OptionError for another driver, which only an agent of nova has."""
        found = DRIVERS.get(self.compute_driver)
        if found is None:
            problem = f"[DEFAULT] compute_driver: Roost has no driver {self.compute_driver!r}"
            raise OptionError(problem, f"write one of: {', '.join(DRIVERS)}")
        return found

    @property
    def update_seconds(self) -> float | None:
        """Seconds between two reports of a host that does not change; None: none is made."""
        if self.update_resources_interval < 0:
            return None
        return float(self.update_resources_interval or USUAL_UPDATE_SECONDS)

    @property
    def power_seconds(self) -> float | None:
        """Seconds between two comparisons of power states with the records; None: only one, at the start."""
        if self.sync_power_state_interval < 0:
            return None
        return float(self.sync_power_state_interval or USUAL_POWER_SECONDS)

    @property
    def ratios(self) -> dict[str, Any]:
        """Allocation ratios by the names that a `HostRecord` has for them."""
        names = "cpu", "ram", "disk"
        return {
            f"{name}_allocation_ratio": getattr(self, f"{name}_allocation_ratio")
            or getattr(self, f"initial_{name}_allocation_ratio")
            for name in names
        }

    @property
    def counts_failed_builds(self) -> bool:
        """Whether failed builds are reported to the schedulers."""
        return self.consecutive_build_service_disable_threshold > 0


@dataclass(frozen=True)
class FakeDriverOptions:
    """Size and behaviour of the fake hypervisors of a process: all of them are alike."""

    vcpus: int = option(16, min=1, group="roost_fake", reloads=False, help="CPUs of a fake host")
    memory_mb: int = option(65536, min=1, group="roost_fake", reloads=False, help="MiB of memory of a fake host")
    local_gb: int = option(1024, min=0, group="roost_fake", reloads=False, help="GiB of disk of a fake host")
    numa_cells: int = option(
        0, min=0, group="roost_fake", reloads=False, help="NUMA cells that share CPUs and memory evenly; 0: none"
    )
    pci_devices: tuple[str, ...] = option(
        (),
        repeats=True,
        group="roost_fake",
        reloads=False,
        in_fleet=False,
        help="PCI devices of a fake host: JSON objects with vendor_id, product_id, count, and numa_node where known",
    )
    build_seconds: float = option(0.0, min=0.0, group="roost_fake", help="how long a fake host takes for a build")
    delete_seconds: float = option(0.0, min=0.0, group="roost_fake", help="how long a fake host takes for a deletion")
    build_failure_rate: float = option(
        0.0, min=0.0, max=1.0, group="roost_fake", help="part of the builds that fail on fake hosts, 0 to 1"
    )
    move_failure_rate: float = option(
        0.0, min=0.0, max=1.0, group="roost_fake", help="part of the live migrations that fail on fake hosts, 0 to 1"
    )
    state_directory: str = option(
        "",
        group="roost_fake",
        reloads=False,
        in_fleet=False,
        help="folder of files in which fake guests outlive their agent; empty: they are in memory only",
    )
