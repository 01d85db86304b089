# SPDX-License-Identifier: Apache-2.0
"""Bare metal as nova had it before Rocky: a service host with many nodes, each allocated as a whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine

from roost.scheduler.options import SchedulerOptions
from roost.scheduler.replica.host_manager import HostManager, RefreshMetrics
from roost.scheduler.replica.store_source import StoreSource
from roost.store.store_clock import StoreClock


class IronicHostManager(HostManager):
    """Reads nodes of hypervisor type `ironic` as nova's manager of this name did, and all other nodes as usual.

    Of an ironic node totals, free amounts and stats are read; instances, metrics, PCI devices and NUMA cells are not,
    and `disk_available_least` does not lower its disk. `HostTable.consume` allocates the whole node to one instance,
    with any host manager.

    With `use_baremetal_filters` the pipeline runs `baremetal_enabled_filters`: see `SchedulerOptions.filters_to_run`.
    """

    reads_bare_metal = True


def make_host_manager(
    engine: Engine,
    options: SchedulerOptions,
    wall_clock: Callable[[], datetime],
    monotonic_clock: Callable[[], float],
    metrics: RefreshMetrics | None = None,
    times: StoreClock | None = None,
) -> HostManager:
    """The host manager that `[scheduler] host_manager` names, in any of nova's spellings, over Roost's database.

    `times`: the clock of the database, with which heartbeats are compared; None: `wall_clock`.
    """
    kind = IronicHostManager if options.is_for_bare_metal else HostManager
    seconds = options.seconds_until_down
    source = StoreSource(engine, seconds, kind.reads_bare_metal, wall_clock, monotonic_clock, times)
    return kind(source, options, wall_clock, monotonic_clock, metrics)
