# SPDX-License-Identifier: Apache-2.0
"""Any host that is up and has room, by chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roost.errors import NoValidHost
from roost.filters.compute import ComputeFilter
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.scheduler.drivers.base import Driver, Surroundings, is_in_service
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.scoring import Choice, Randomness

ANY = 1 << 31
"""As many of the best hosts as there may be."""


class ChanceScheduler(Driver):
    """One pick per instance among the hosts that are up, have room and are not to be ignored.

    As in nova it heeds nothing else: no zone, no hint, no group, no forced host. nova's did not look at resources
    either; here the choice is claimed, so a host that is full would be refused and another one drawn.
    """

    notifies = False
    names_nodes = False

    def __init__(self, surroundings: Surroundings) -> None:
        self._pipeline = Pipeline([ComputeFilter()], [], Choice(host_subset_size=ANY))
        super().__init__(surroundings)

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
        """Draw. Which hosts it would draw next is left to chance too, so there are no alternates."""
        heeded = spec.changed(
            availability_zone=None,
            force_hosts=None,
            force_nodes=None,
            instance_group=None,
            requested_destination=None,
            retry=None,
            scheduler_hints={},
        )
        return self._pipeline.place(table, heeded, uuids, randomness=randomness, clock=clock)

    def why_nowhere(self, error: NoValidHost) -> str:
        """Nobody is there, or nobody but those who are full or to be ignored."""
        with self.surroundings.picture.lock:
            table = self.surroundings.picture.table
            is_anybody_up = any(is_in_service(table, row) for row in range(len(table.names)))
        return "Could not find another compute" if is_anybody_up else "Is the appropriate service running?"
