# SPDX-License-Identifier: Apache-2.0
"""Where a replica comes from: the interface between the host manager and the databases of a cloud."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Protocol

from roost.hosts import HostTable
from roost.hosts.record import Pair
from roost.records.outages import HeartbeatRule
from roost.scheduler.replica.changed_nodes import ChangedNodes, NodeIndex
from roost.scheduler.replica.heartbeats import Heartbeat


class FleetReader(Protocol):
    """Reads nodes, aggregates and heartbeats, over connections that stay open meanwhile."""

    def read_all(self) -> ChangedNodes:
        """Everything. What changes meanwhile is read again by the next `read_changes`."""

    def read_changes(self, table: HostTable, known: NodeIndex, also: Collection[Pair]) -> ChangedNodes | None:
        """What changed since the last read, and the nodes in `also`; None where everything has to be read."""

    def read_flags(self) -> ChangedNodes:
        """The nodes of services that were disabled, enabled, forced down or deleted since the last read."""

    def read_heartbeats(self) -> list[Heartbeat]:
        """The heartbeats that are due to be read now, possibly none."""

    def read_heartbeats_of(self, hosts: Collection[str]) -> list[Heartbeat]:
        """The last heartbeats of these hosts."""


class FleetSource(Protocol):
    """The fleet as a cloud's databases have it."""

    @property
    def follows_instances(self) -> bool:
        """Whether each read finds the instances that came and left, so that messages of agents tell nothing new."""

    @property
    def reads_flags_first(self) -> bool:
        """Whether flags of services are read before each answer, however young the replica is."""

    def opened(self) -> AbstractContextManager[FleetReader]:
        """A reader."""

    def heartbeat_rule(self) -> HeartbeatRule:
        """What tells living agents from silent ones now, by the clock that heartbeats are compared with."""

    def oldest_read_at(self) -> float | None:
        """When the oldest part was read, by the monotonic clock; None: the last refresh has read all of it."""

    def note_applied(self) -> None:
        """The table has what was read last; until then the next `read_changes` returns it once more."""
