# SPDX-License-Identifier: Apache-2.0
"""The options of the scheduler, by nova's names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from roost.options.declare import option
from roost.plugins.registry import ALL_FILTERS, ALL_WEIGHERS, is_built_in_path, is_class_name
from roost.services.options import HeartbeatOptions, HostOptions, StopOptions

NOVA_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
"""The default of nova 34, and of Roost in a nova cloud."""
DEFAULT_FILTERS = (*NOVA_FILTERS, "AvailabilityZoneFilter", "NUMATopologyFilter", "PciPassthroughFilter")
"""nova's, and three that cost nothing where a request does not ask for them."""
BARE_METAL_FILTERS = (
    "RetryFilter",
    "AvailabilityZoneFilter",
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ExactRamFilter",
    "ExactDiskFilter",
    "ExactCoreFilter",
)
"""nova's own list for bare metal."""
BARE_METAL_MANAGERS = (
    "ironic_host_manager",
    "nova.scheduler.ironic_host_manager.IronicHostManager",
    "nova.scheduler.baremetal_host_manager.BaremetalHostManager",
)
HOST_MANAGERS = ("host_manager", "nova.scheduler.host_manager.HostManager", *BARE_METAL_MANAGERS)
"""Every way in which some release of nova spells its host managers."""


@dataclass(frozen=True)
class SchedulerOptions(HeartbeatOptions):
    """Which plugins take part, and how one of the best hosts is picked."""

    decides_placements: ClassVar[bool] = True
    """Its values are part of a snapshot: see `roost.sources.snapshot`."""

    available_filters: tuple[str, ...] = option(
        (ALL_FILTERS[0],),
        repeats=True,
        old=("scheduler_available_filters",),
        in_fleet=is_built_in_path,
        help="dotted paths of filter classes, or of functions that return some; the built-ins by default",
    )
    enabled_filters: tuple[str, ...] = option(
        DEFAULT_FILTERS,
        old=("scheduler_default_filters",),
        in_fleet=is_class_name,
        help="filters to run, by class name, in this order; in a nova cloud the first five by default, as in nova",
    )
    weight_classes: tuple[str, ...] = option(
        (ALL_WEIGHERS[0],),
        old=("scheduler_weight_classes",),
        in_fleet=is_built_in_path,
        help="dotted paths of weigher classes, or of functions that return some; empty: hosts are not weighed",
    )
    host_subset_size: int = option(
        1, min=1, old=("scheduler_host_subset_size",), help="pick at random among so many of the best hosts"
    )
    shuffle_best_same_weighed_hosts: bool = option(
        False, help="put hosts that share the best weight into random order"
    )
    max_attempts: int = option(
        3,
        min=1,
        group="scheduler",
        old=("scheduler_max_attempts",),
        help="hosts to try for an instance: the chosen one and its alternates",
    )
    packing_host_numa_cells_allocation_strategy: bool = option(
        False,
        group="compute",
        reloads=False,
        help="fill up a host's NUMA cells one by one instead of spreading guests over them",
    )
    alias: tuple[str, ...] = option(
        (),
        group="pci",
        repeats=True,
        old=("pci_alias",),
        in_fleet=True,
        help="PCI aliases that flavors name, a JSON object each",
    )
    host_manager: str = option(
        "host_manager",
        choices=HOST_MANAGERS,
        group="scheduler",
        old=("scheduler_host_manager",),
        reloads=False,
        help="host_manager, or ironic_host_manager for bare metal as nova had it before Rocky",
    )
    use_baremetal_filters: bool = option(
        False,
        old=("scheduler_use_baremetal_filters",),
        help="with ironic_host_manager: run baremetal_enabled_filters instead of enabled_filters",
    )
    baremetal_enabled_filters: tuple[str, ...] = option(
        BARE_METAL_FILTERS,
        old=("baremetal_scheduler_default_filters",),
        in_fleet=is_class_name,
        help="filters to run with use_baremetal_filters, by class name, in this order",
    )
    track_instance_changes: bool = option(
        True,
        old=("scheduler_tracks_instance_changes",),
        reloads=False,
        help="listen to what agents say of the instances on their hosts, besides reading it from the database",
    )

    @property
    def is_for_bare_metal(self) -> bool:
        """Whether the host manager is the one for bare metal."""
        return self.host_manager in BARE_METAL_MANAGERS

    @property
    def filters_to_run(self) -> tuple[str, ...]:
        """Filters by class name, in order."""
        is_special = self.is_for_bare_metal and self.use_baremetal_filters
        return self.baremetal_enabled_filters if is_special else self.enabled_filters


@dataclass(frozen=True)
class ServiceOptions(HostOptions, StopOptions):
    """The scheduler as a service: who it is, how it works, what it tells."""

    driver: str = option(
        "filter_scheduler",
        group="scheduler",
        old=("scheduler_driver",),
        in_fleet=False,
        reloads=False,
        help="filter_scheduler, chance_scheduler or caching_scheduler, by nova's class paths too; or your own class",
    )
    periodic_task_interval: int = option(
        60,
        group="scheduler",
        old=("scheduler_driver_task_period",),
        help="seconds between two runs of the driver's periodic task; less than 1: it runs at the start alone",
    )
    workers: int = option(
        1,
        min=0,
        group="scheduler",
        reloads=False,
        help="processes that answer; one does, for each keeps a picture of all hosts; 0: as many as there are CPUs",
    )
    """nova's default is the CPU count. Here one process answers in microseconds, and each has a table of its own."""
    scheduler_json_config_location: str = option(
        "",
        group="DEFAULT",
        in_fleet=False,
        help="JSON file of options that are handed to filters with each request; empty: none",
    )
    periodic_enable: bool = option(True, group="DEFAULT", reloads=False, help="run periodic tasks")
    default_availability_zone: str = option(
        "nova", group="DEFAULT", in_fleet=True, help="zone of hosts whose aggregates name none"
    )
    notification_format: str = option(
        "unversioned",
        choices=("unversioned", "versioned", "both"),
        group="notifications",
        old=("notification_format",),
        reloads=False,
        help="in which form requests are announced: unversioned, versioned or both",
    )
    versioned_notifications_topics: tuple[str, ...] = option(
        ("versioned_notifications",),
        group="notifications",
        reloads=False,
        in_fleet=False,
        help="topics of the versioned form",
    )
    longest_picture_age_seconds: float = option(
        0.5,
        min=0.0,
        group="roost",
        help="a request is answered from a picture of the fleet that is no older than this, in seconds",
    )

    @property
    def worker_count(self) -> int:
        """Processes to start, at least one."""
        return self.workers or os.cpu_count() or 1


@dataclass(frozen=True)
class LiveMigrationOptions:
    """How many destinations live_migration of Icehouse tries."""

    migrate_max_retries: int = option(
        -1,
        min=-1,
        group="DEFAULT",
        help="hosts to try for a live migration after the first that cannot take it; -1: as many as there are",
    )
