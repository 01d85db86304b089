# SPDX-License-Identifier: Apache-2.0
"""The options of the scheduler, by nova's names, and those that say which kind of cloud it serves.

`[database] connection`, which fills in the templates of cell mappings, is declared in `store/engine.py`; [placement]
is keystoneauth's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from roost.errors import OptionError
from roost.options.declare import option
from roost.plugins.registry import ALL_FILTERS, ALL_WEIGHERS, is_built_in_path, is_class_name
from roost.services.options import HeartbeatOptions, HostOptions, StopOptions

OWN, NOVA = "own", "nova"
API_DATABASE = "[api_database] connection"


@dataclass(frozen=True)
class CloudOptions:
    """Which cloud it is."""

    cloud: str = option(
        OWN,
        choices=(OWN, NOVA),
        group="roost",
        reloads=False,
        in_fleet=False,
        help="own: fleet and claims are in Roost's database; nova: Roost takes the place of nova-scheduler",
    )
    placement_read_interval: int = option(
        5,
        min=1,
        group="roost",
        reloads=False,
        help="in a nova cloud: seconds between two reads of all providers of placement",
    )
    placement_checks_claims: bool = option(
        True,
        group="roost",
        reloads=False,
        help="in a nova cloud: look after each claim whether placement granted the same room twice, and take it back",
    )
    service_record: bool = option(
        False,
        group="roost",
        reloads=False,
        help="in a nova cloud: keep the row of this scheduler in nova's list of services, in [database] connection",
    )
    discover_hosts_in_cells_interval: int = option(
        -1,
        min=-1,
        group="scheduler",
        reloads=False,
        help="in a nova cloud: seconds between two searches for hosts without a host mapping; less than 1: never",
    )
    state_directory: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="in a nova cloud: folder in which a scheduler notes its claims, so that those that a killed one did not "
        "answer are released, and its decisions; default: the one that systemd makes for the service, if any",
    )
    disable_fallback_pcpu_query: bool = option(
        False,
        group="workarounds",
        reloads=False,
        help="in a nova cloud: dedicated CPUs are claimed as PCPU only, never as VCPU of hosts that have no PCPU",
    )


@dataclass(frozen=True)
class ShadowOptions:
    """Whether the scheduler decides beside another one, without claiming anything."""

    shadow: bool = option(
        False,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="decide beside the live scheduler, claim nothing, and report where the choices differ",
    )
    shadow_topic: str = option(
        "scheduler_shadow",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: topic on which requests of clients are answered; it is never the live scheduler's",
    )
    shadow_notifications_topic: str = option(
        "roost_shadow",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: topic of nova's versioned notifications; one of [notifications] "
        "versioned_notifications_topics of the live scheduler",
    )
    shadow_notifications_pool: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: name of a queue of its own on that topic, for a topic on which others listen too; empty: "
        "none",
    )
    shadow_report: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: file to which a line of JSON is added for each request; empty: log and metrics only",
    )
    shadow_outcome_timeout: int = option(
        60,
        min=1,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="with shadow: seconds to wait until it is known which host the live scheduler chose",
    )

    def check_topic(self, live_topic: str) -> None:
        """OptionError where requests of the live scheduler would be answered without a claim."""
        if self.shadow_topic == live_topic:
            problem = f"[roost] shadow_topic = {self.shadow_topic} is the topic of the live scheduler"
            raise OptionError(problem, "name another one: requests would be answered and not claimed")


@dataclass(frozen=True)
class ApiDatabaseOptions:
    """Address of nova's API database; nova 34's defaults."""

    connection: str | None = option(
        None,
        group="api_database",
        reloads=False,
        secret=True,
        in_fleet=False,
        help="address of nova's API database: mysql+pymysql://... or postgresql://...; it is only read",
    )
    connection_recycle_time: int = option(
        3600,
        min=-1,
        group="api_database",
        reloads=False,
        help="seconds after which a connection to the API database is replaced by a new one; -1: never",
    )

    def __repr__(self) -> str:
        """All values except the URL, which may contain a password."""
        return f"ApiDatabaseOptions({vars(self) | {'connection': '***'}})"


@dataclass(frozen=True)
class CellDatabaseOptions:
    """How the databases of nova's cells are read."""

    cell_database_user: str = option(
        "",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="user for the cell databases instead of the one in the cell mappings; the right to SELECT is enough",
    )
    cell_database_password: str = option(
        "",
        group="roost",
        reloads=False,
        secret=True,
        in_fleet=False,
        help="password of cell_database_user",
    )
    database_reconcile_interval: int = option(
        60,
        min=1,
        group="roost",
        reloads=False,
        help="seconds between two comparisons of the replica with all rows of nova's databases",
    )

    def __repr__(self) -> str:
        """All values except the password."""
        return f"CellDatabaseOptions({vars(self) | {'cell_database_password': '***'}})"


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
