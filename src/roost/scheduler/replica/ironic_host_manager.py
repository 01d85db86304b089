# SPDX-License-Identifier: Apache-2.0
"""Bare metal as nova had it before Rocky: a service host with many nodes, each of which is given out whole."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import Engine

from roost.scheduler.options import SchedulerOptions
from roost.scheduler.replica.host_manager import HostManager, RefreshMetrics


class IronicHostManager(HostManager):
    """Sees nodes of hypervisor type `ironic` as nova's manager of this name did, and all others as usual.

    Of such a node totals, free amounts and stats count; who is on it is not followed, what it reports as metrics, PCI
    devices and NUMA cells is not looked at, and `disk_available_least` does not lower its disk. An instance takes the
    node as a whole: so does `HostTable.consume`, whichever host manager there is.

    With `use_baremetal_filters` the pipeline runs `baremetal_enabled_filters`: see `SchedulerOptions.filters_to_run`.
    """

    reads_bare_metal = True


def make_host_manager(
    engine: Engine,
    options: SchedulerOptions,
    wall_clock: Callable[[], datetime],
    monotonic_clock: Callable[[], float],
    metrics: RefreshMetrics | None = None,
) -> HostManager:
    """The host manager that `[scheduler] host_manager` names, in any of nova's spellings."""
    kind = IronicHostManager if options.is_for_bare_metal else HostManager
    return kind(engine, options, wall_clock, monotonic_clock, metrics)
