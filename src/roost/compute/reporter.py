# SPDX-License-Identifier: Apache-2.0
"""Reports of an agent to the database: what its host has, what happens there, and that the agent is alive."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from roost.clock import Clock
from roost.compute.drivers.base import ComputeDriver, HostDescription
from roost.compute.tracker import ResourceTracker
from roost.hosts import HostRecord
from roost.hosts.guests import GuestSpace
from roost.records.reports import save_report, save_statistics
from roost.store.store_clock import StoreClock


class HostReporter:
    """Reports one host. Thread-safe: of several changes in a burst at most two reports are made."""

    def __init__(
        self, host: str, driver: ComputeDriver, tracker: ResourceTracker, engine: Engine, clock: Clock
    ) -> None:
        """`clock`: stamps reports and heartbeats where the database has no clock of its own (SQLite)."""
        self.host, self._driver, self._tracker = host, driver, tracker
        self._engine, self._times = engine, StoreClock(engine, clock)
        self._lock = threading.Lock()
        self._turn = threading.RLock()
        """Held by a report under way: an older one must not overwrite a newer one."""
        self._is_reporting = self._has_changed = False
        self.node = host
        """Name of the node, by the last report."""
        self._reported: tuple[HostDescription, HostRecord] | None = None

    def report(self) -> None:
        """Report the host now; its heartbeat is in it. Use is what the ledger has, so no claim is lost by it."""
        with self._turn:
            found = self._driver.describe()
            self.node = found.hostname
            self._tracker.note_space(GuestSpace(found.numa, found.pci_pools))
            record = make_record(self.host, found, self._tracker)
            save_report(self._engine, record, self._times, found.disk_available_least)
            self._reported = found, record

    def _report_statistics(self) -> None:
        """Report what happens on the host, if that has changed: all else is as it was in the last report.

        The use of the host is the ledger's, and changes without a report.
        """
        with self._turn:
            if self._reported is None:
                self.report()
                return
            found, before = self._reported
            record = replace(before, **statistics(found, self._tracker))
            if record == before:
                return
            if save_statistics(self._engine, record, self._times):
                self._reported = found, record
            else:
                self.report()

    def note_change(self) -> None:
        """Something happened to a server of the host: report the statistics. Hardware is told by `report` alone.

        While another thread reports, this returns at once, and that thread makes one more report afterwards.
        """
        with self._lock:
            self._has_changed = True
            if self._is_reporting:
                return
            self._is_reporting = True
        try:
            while self._take_change():
                self._report_statistics()
        except BaseException:
            with self._lock:
                self._is_reporting = False
            raise

    def _take_change(self) -> bool:
        """Whether there is a change that no report has; if not, reporting ends."""
        with self._lock:
            found, self._has_changed = self._has_changed, False
            self._is_reporting = found
            return found


def make_record(host: str, found: HostDescription, tracker: ResourceTracker) -> HostRecord:
    """The report of a host: all but its use, which is the ledger's."""
    reserved = tracker.reserved
    return HostRecord(
        host=host,
        node=found.hostname,
        total_usable_ram_mb=found.memory_mb,
        total_usable_disk_gb=found.local_gb,
        vcpus_total=found.vcpus,
        reserved_ram_mb=min(reserved.memory_mb, found.memory_mb),
        reserved_disk_gb=min(reserved.disk_gb, found.local_gb),
        reserved_vcpus=min(reserved.vcpus, found.vcpus),
        hypervisor_type=found.hypervisor_type,
        hypervisor_version=found.hypervisor_version,
        host_ip=found.host_ip,
        supported_instances=found.supported_instances,
        cpu_info=found.cpu_info,
        traits=found.traits,
        pci_pools=found.pci_pools,
        numa=found.numa,
        **tracker.options.ratios,
        **statistics(found, tracker),
    )


def statistics(found: HostDescription, tracker: ResourceTracker) -> dict[str, Any]:
    """The fields of a report that say what happens on the host."""
    stats = tracker.stats()
    return {
        "num_io_ops": stats["io_workload"],
        "failed_builds": stats["failed_builds"],
        "stats": {**found.stats, **stats},
    }
