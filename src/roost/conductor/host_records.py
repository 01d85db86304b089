# SPDX-License-Identifier: Apache-2.0
"""Hosts as the database has them now: whether they are up, their hypervisor, their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import UnknownName
from roost.hosts import HostRecord
from roost.records.node_reader import read_nodes
from roost.records.node_writer import find_node_ids
from roost.records.outages import read_heartbeat_rule
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors


class HostFacts(NamedTuple):
    """A host and its node, as moves look at them."""

    host: str
    node: str
    uuid: str
    """Of the node."""
    is_up: bool
    hypervisor_type: str
    hypervisor_version: int
    memory_mb: int
    """All of it."""
    free_ram_mb: int
    ram_allocation_ratio: float

    @property
    def available_ram_mb(self) -> float:
        """Memory that may still be promised, with the host's overcommitment, MiB."""
        return self.memory_mb * self.ram_allocation_ratio - (self.memory_mb - self.free_ram_mb)


class HostRecords:
    """Reads hosts, one at a time, by the clock of the database."""

    def __init__(self, engine: Engine, clock: Clock, seconds_until_down: Callable[[], float]) -> None:
        """`seconds_until_down`: without a heartbeat."""
        self._engine, self._times, self._seconds_until_down = engine, StoreClock(engine, clock), seconds_until_down

    def find(self, host: str) -> HostFacts | None:
        """A host, by its first node; None where there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            nodes = find_node_ids(connection, [host])
            down_after = self._seconds_until_down()
            rule = read_heartbeat_rule(connection, self._times, down_after)
            found = read_nodes(connection, nodes, rule=rule) if nodes else iter(())
            return next((_facts_of(each.record, down_after) for each in found), None)

    def get(self, host: str) -> HostFacts:
        """A host; UnknownName in nova's words where there is none."""
        found = self.find(host)
        if found is None:
            raise UnknownName(f"Compute host {host[:60]} could not be found.", "roost host list shows them")
        return found

    def is_up(self, host: str | None) -> bool:
        """Whether the service of a host is up; False for one that does not exist."""
        found = self.find(host) if host else None
        return found is not None and found.is_up


def _facts_of(record: HostRecord, down_after: float) -> HostFacts:
    return HostFacts(
        record.host,
        record.nodename,
        record.uuid,
        record.service.is_up(down_after),
        record.hypervisor_type or "",
        record.hypervisor_version,
        record.total_usable_ram_mb,
        record.ram_mb_left,
        record.ram_allocation_ratio,
    )
