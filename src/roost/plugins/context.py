# SPDX-License-Identifier: Apache-2.0
"""What plugins reach through nova's global names: the options of their pipeline, and its fleet.

`PluginContext` is that of one pipeline; `FleetState` answers queries about the fleet from the host table. A plugin
that reads extra specs of an instance whose flavor is not known is warned of once per process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from roost.hosts import HostTable
from roost.hosts.instances import HostedInstance, UnknownExtraSpecs, instances_at
from roost.model.flavor import AttributesAsItems
from roost.model.group import Aggregate, ServerGroup
from roost.plugins import nova_conf
from roost.plugins.nova_conf import PluginOptions


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


@dataclass(eq=False)
class PluginContext:
    """Options and fleet for the plugins of one pipeline.

    Plugins assume one scheduler per process: `CONF` is a global object. So a context is activated before its plugins
    are called, which costs one comparison if it is already active.
    """

    options: PluginOptions = field(default_factory=PluginOptions)
    fleet: FleetState = field(default_factory=EmptyFleetState)

    @contextmanager
    def activated(self) -> Iterator[None]:
        """Context manager: inside, CONF and nova's objects are those of this context."""
        global _LAST
        with nova_conf.activated(self.options):
            _LAST = self
            token = _CURRENT.set(self)
            try:
                yield
            finally:
                _CURRENT.reset(token)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Context manager: plugins that are loaded or constructed inside are bound to this context."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def options_of(self, plugin: Any) -> Any:
        """The options of a built-in as configured; None if it has no options or nothing is configured."""
        settings = self.options.settings
        return settings.fill(plugin.Options) if settings and plugin.Options else None


_CURRENT: ContextVar[PluginContext] = ContextVar("context of the running plugins")
_LAST = PluginContext()
"""The last active context, for threads started by plugins: they have no value of the context variable."""


def current_context() -> PluginContext:
    """The context of the plugin that is being loaded, constructed or called."""
    return _CURRENT.get(_LAST)


LOG = logging.getLogger(__name__)


def warn_once(owner: str) -> None:
    """Log the first read of unknown extra specs in this process; `owner`: the instance and its host."""
    if not _FIRST:
        _FIRST.append(owner)
        LOG.warning(
            "the flavor of instance %s is not known: a plugin that reads its extra specs gets none, and may decide "
            "wrongly; put the flavor into the fleet file (section flavors, with the id that the instance names), or "
            "let the agent of the host send update_instance_info; not logged again for other instances",
            owner,
        )


_FIRST: list[str] = []
"""The instance that was reported; empty until then."""

UnknownExtraSpecs.on_read = staticmethod(warn_once)
