# SPDX-License-Identifier: Apache-2.0
"""nova's objects and database calls, answered from the table of hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from roost.hosts import HostTable
from roost.hosts.view import HostedInstance, instances_at
from roost.model.aggregate import Aggregate
from roost.model.group import ServerGroup
from roost.model.item_access import AttributesAsItems


@dataclass(frozen=True)
class AggregateObject(AttributesAsItems):
    """An aggregate as nova's objects and its database rows have it."""

    id: Any
    uuid: str | None
    name: str
    metadata: Mapping[str, str]
    hosts: list[str]

    @property
    def availability_zone(self) -> str | None:
        """The zone this aggregate stands for, if it stands for one."""
        return self.metadata.get("availability_zone")

    @property
    def metadetails(self) -> Mapping[str, str]:
        """The metadata, under the name that the database gave it."""
        return self.metadata


@dataclass(frozen=True)
class ServiceObject(AttributesAsItems):
    """The compute service of one host."""

    id: int
    host: str
    disabled: bool
    disabled_reason: str | None
    forced_down: bool
    up: bool
    binary: str = field(default="nova-compute")
    topic: str = field(default="compute")


class FleetState(Protocol):
    """What plugins can ask about the fleet as a whole."""

    def aggregates(self) -> list[AggregateObject]:
        """All of them."""

    def aggregates_of(self, host: str) -> list[AggregateObject]:
        """Those the host is in."""

    def instances_of(self, host: str) -> list[HostedInstance]:
        """What runs on the host."""

    def services(self) -> list[ServiceObject]:
        """The compute service of each host."""

    def group(self, uuid: str) -> ServerGroup | None:
        """The server group with this uuid."""


class NoFleet:
    """Where a pipeline was built without a fleet: there is nothing in it."""

    def aggregates(self) -> list[AggregateObject]:
        """None."""
        return []

    def aggregates_of(self, host: str) -> list[AggregateObject]:
        """None."""
        return []

    def instances_of(self, host: str) -> list[HostedInstance]:
        """None."""
        return []

    def services(self) -> list[ServiceObject]:
        """None."""
        return []

    def group(self, uuid: str) -> ServerGroup | None:
        """None."""
        return None


@dataclass(frozen=True)
class TableState:
    """The state of a fleet whose hosts are in a table. `get_table` returns the current one."""

    get_table: Callable[[], HostTable]
    find_group: Callable[[str], ServerGroup | None] = lambda uuid: None

    def aggregates(self) -> list[AggregateObject]:
        """All of them."""
        table = self.get_table()
        return [_object_of(each, table) for each in table.known_aggregates]

    def aggregates_of(self, host: str) -> list[AggregateObject]:
        """Those the host is in: of its nodes each once."""
        table = self.get_table()
        column = table.encoded["aggregates"]
        found = {id(each): each for row in table.rows_of_host(host) for each in column.at(row)}
        return [_object_of(each, table) for each in found.values()]

    def instances_of(self, host: str) -> list[HostedInstance]:
        """What runs on the host, on any of its nodes."""
        table = self.get_table()
        return [each for row in table.rows_of_host(host) for each in instances_at(table, row).values()]

    def services(self) -> list[ServiceObject]:
        """One per host name, in the order of the table, numbered from 1."""
        table = self.get_table()
        first_rows: dict[str, int] = {}
        for row, (host, _) in enumerate(table.names):
            first_rows.setdefault(host, row)
        return [_service_at(table, row, at) for at, row in enumerate(first_rows.values(), start=1)]

    def group(self, uuid: str) -> ServerGroup | None:
        """The server group with this uuid."""
        return self.find_group(uuid)


def _service_at(table: HostTable, row: int, number: int) -> ServiceObject:
    service = table.encoded["service"].at(row)
    is_up = bool(table.numbers["is_up"].item(row))
    host = table.names[row][0]
    return ServiceObject(number, host, service.disabled, service.disabled_reason, service.forced_down, is_up)


def _object_of(aggregate: Aggregate, table: HostTable) -> AggregateObject:
    """With its hosts: those it names, or else those that name it."""
    hosts = list(aggregate.hosts)
    if not hosts:
        column = table.encoded["aggregates"]
        hosts = list(dict.fromkeys(host for row, (host, _) in enumerate(table.names) if aggregate in column.at(row)))
    return AggregateObject(aggregate.id, aggregate.uuid, aggregate.name, aggregate.metadata, hosts)
