# SPDX-License-Identifier: Apache-2.0
"""Any host that is up and has room, by chance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roost.errors import NoValidHost
from roost.filters.compute import ComputeFilter
from roost.hosts import HostTable
from roost.model import Decision, RequestSpec
from roost.scheduler.choice import Choice
from roost.scheduler.claiming import Chooser
from roost.scheduler.drivers.base import Driver
from roost.scheduler.pipeline import Pipeline

ANY = 1 << 31
"""As many of the best hosts as there may be."""


class ChanceScheduler(Driver):
    """One pick per instance among the hosts that are up, have room and are not to be ignored.

    As in nova it heeds nothing else: no zone, no hint, no group, no forced host. nova's did not look at resources
    either; here the choice is claimed, so a host that is full would be refused and another one drawn.
    """

    notifies = False
    names_nodes = False

    def chooser(self) -> Chooser:
        """Draws."""
        return _AnyHost([ComputeFilter()], [], Choice(host_subset_size=ANY))

    def why_nowhere(self, error: NoValidHost) -> str:
        """Nobody is there, or nobody but those who are full or to be ignored."""
        with self.surroundings.picture.lock:
            hosts = self.surroundings.picture.table
            is_anybody_up = bool((hosts.is_up & ~hosts.is_disabled).any())
        return "Could not find another compute" if is_anybody_up else "Is the appropriate service running?"


class _AnyHost(Pipeline):
    """Asks for room and a living agent, and picks one of all who are left. There are no alternates: the next draw is
    left to chance too.
    """

    def place(
        self, table: HostTable, spec: RequestSpec, uuids: Sequence[str | None], *, alternates: int = 0, **how: Any
    ) -> Decision:
        """Draw, without a look at the rest of the request."""
        heeded = spec.changed(
            availability_zone=None,
            force_hosts=None,
            force_nodes=None,
            instance_group=None,
            requested_destination=None,
            retry=None,
            scheduler_hints={},
        )
        return super().place(table, heeded, uuids, **how)
