# SPDX-License-Identifier: Apache-2.0
"""The driver that picks any host that is up and has room, at random."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from roost.errors import NoValidHost
from roost.filters.compute import ComputeFilter
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.scheduler.choice import Choice, Randomness
from roost.scheduler.claiming import Chooser
from roost.scheduler.drivers.base import Driver
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.pipeline import Pipeline

ALL = 1 << 31
"""As many of the best hosts as there may be."""
_IGNORED: dict[str, Any] = {
    "availability_zone": None,
    "force_hosts": None,
    "force_nodes": None,
    "instance_group": None,
    "requested_destination": None,
    "retry": None,
    "scheduler_hints": {},
}
"""What of a request has no say in a random choice."""


class ChanceScheduler(Driver):
    """One random pick per instance among the hosts that are up, have room and are not to be ignored.

    As in nova it goes by nothing else: no zone, no hint, no group, no forced host. nova's did not look at resources
    either; here the choice is claimed, so a full host would be refused and another one drawn.
    """

    notifies = False
    names_nodes = False

    def chooser(self) -> Chooser:
        """Draws a host."""
        return RandomChoice()

    def why_nowhere(self, error: NoValidHost) -> str:
        """Tells "no host is up" from "those that are up are full, or to be ignored"."""
        with self.replica.lock:
            table = self.replica.table
            is_any_up = bool((table.is_up & ~table.is_disabled).any())
        return "Could not find another compute" if is_any_up else "Is the appropriate service running?"


class RandomChoice:
    """A pipeline that checks capacity and liveness, weighs nothing, and picks one of all hosts that are left."""

    def __init__(self) -> None:
        self._pipeline = Pipeline([ComputeFilter()], [], Choice(host_subset_size=ALL), engine=FullScanEngine)

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
    ) -> Decision:
        """Draw a host for each instance. There are no alternates: the next draw is random, too."""
        return self._pipeline.place(table, spec.changed(**_IGNORED), uuids, randomness=randomness, clock=clock)

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Nothing is cached."""
