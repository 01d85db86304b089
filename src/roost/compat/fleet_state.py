# SPDX-License-Identifier: Apache-2.0
"""The state of the fleet as plugins query it through nova's objects, answered from the host table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from roost.hosts import HostTable
from roost.hosts.instances import HostedInstance, instances_at
from roost.model.aggregate import Aggregate
from roost.model.flavor import AttributesAsItems
from roost.model.group import ServerGroup


@dataclass(frozen=True)
class AggregateObject(AttributesAsItems):
    """An aggregate with the fields of nova's object and database row."""

    id: Any
    uuid: str | None
    name: str
    metadata: Mapping[str, str]
    hosts: list[str]

    @property
    def availability_zone(self) -> str | None:
        """The availability zone that the aggregate defines; None if it defines none."""
        return self.metadata.get("availability_zone")

    @property
    def metadetails(self) -> Mapping[str, str]:
        """The metadata, under its database name."""
        return self.metadata


@dataclass(frozen=True)
class ServiceObject(AttributesAsItems):
    """The compute service of one host, with the fields of nova's object."""

    id: int
    host: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    up: bool
    binary: str = field(default="nova-compute")
    topic: str = field(default="compute")


class FleetState(Protocol):
    """Queries of plugins about the whole fleet."""

    def aggregates(self) -> list[AggregateObject]:
        """All aggregates of the fleet."""

    def aggregates_of(self, host: str) -> list[AggregateObject]:
        """The aggregates that the host is in."""

    def instances_of(self, host: str) -> list[HostedInstance]:
        """The instances on the host."""

    def services(self) -> list[ServiceObject]:
        """The compute service of each host."""

    def group(self, uuid: str) -> ServerGroup | None:
        """The server group with this uuid; None if there is none."""


class EmptyFleetState:
    """The state of an empty fleet, for pipelines that are built without one."""

    def aggregates(self) -> list[AggregateObject]:
        """An empty list."""
        return []

    def aggregates_of(self, host: str) -> list[AggregateObject]:
        """An empty list."""
        return []

    def instances_of(self, host: str) -> list[HostedInstance]:
        """An empty list."""
        return []

    def services(self) -> list[ServiceObject]:
        """An empty list."""
        return []

    def group(self, uuid: str) -> ServerGroup | None:
        """None: there are no groups."""
        return None


@dataclass(frozen=True)
class TableState:
    """The state of a fleet in a host table. `get_table` returns the current table."""

    get_table: Callable[[], HostTable]
    find_group: Callable[[str], ServerGroup | None] = lambda uuid: None

    def aggregates(self) -> list[AggregateObject]:
        """All aggregates of the fleet."""
        table = self.get_table()
        return [_object_of(each, table) for each in table.known_aggregates]

    def aggregates_of(self, host: str) -> list[AggregateObject]:
        """The aggregates that any node of the host is in, each once."""
        table = self.get_table()
        column = table.encoded["aggregates"]
        found = {id(each): each for row in table.rows_of_host(host) for each in column.at(row)}
        return [_object_of(each, table) for each in found.values()]

    def instances_of(self, host: str) -> list[HostedInstance]:
        """The instances on all nodes of the host."""
        table = self.get_table()
        return [each for row in table.rows_of_host(host) for each in instances_at(table, row).values()]

    def services(self) -> list[ServiceObject]:
        """One compute service per host name, in table order, numbered from 1."""
        table = self.get_table()
        first_rows: dict[str, int] = {}
        for row, (host, _) in enumerate(table.names):
            first_rows.setdefault(host, row)
        return [_service_at(table, row, at) for at, row in enumerate(first_rows.values(), start=1)]

    def group(self, uuid: str) -> ServerGroup | None:
        """The server group with this uuid; None if there is none."""
        return self.find_group(uuid)


def _service_at(table: HostTable, row: int, number: int) -> ServiceObject:
    service = table.encoded["service"].at(row)
    is_up = bool(table.numbers["is_up"].item(row))
    host = table.names[row][0]
    return ServiceObject(number, host, service.disabled, service.disabled_reason, service.forced_down, is_up)


def _object_of(aggregate: Aggregate, table: HostTable) -> AggregateObject:
    """The aggregate with the hosts it names or, if it names none, the hosts that name it."""
    hosts = list(aggregate.hosts)
    if not hosts:
        column = table.encoded["aggregates"]
        hosts = list(dict.fromkeys(host for row, (host, _) in enumerate(table.names) if aggregate in column.at(row)))
    return AggregateObject(aggregate.id, aggregate.uuid, aggregate.name, aggregate.metadata, hosts)
