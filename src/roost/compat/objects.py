# SPDX-License-Identifier: Apache-2.0
"""The classes of nova.objects: lists filled from the fleet, and Roost's records under nova's names."""

from __future__ import annotations

from typing import Any

from roost.compat.exceptions import InstanceGroupNotFound
from roost.compat.fleet_state import AggregateObject, ServiceObject
from roost.compat.plugin_context import current_context
from roost.hosts.instances import HostedInstance
from roost.model.flavor import Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image, ImageProperties
from roost.model.request import RequestSpec

Aggregate = AggregateObject
ImageMeta = Image
ImageMetaProps = ImageProperties
Instance = HostedInstance
Service = ServiceObject

__all__ = [
    "Aggregate",
    "AggregateList",
    "Flavor",
    "ImageMeta",
    "ImageMetaProps",
    "Instance",
    "InstanceGroup",
    "InstanceList",
    "RequestSpec",
    "Service",
    "ServiceList",
]


class _ObjectList(list[Any]):
    """A list whose elements are also in `objects`, as in nova's list objects."""

    @property
    def objects(self) -> list[Any]:
        """The elements."""
        return self


class AggregateList(_ObjectList):
    """Aggregates of the fleet."""

    @classmethod
    def get_all(cls, context: Any) -> AggregateList:
        """All aggregates of the fleet."""
        return cls(current_context().fleet.aggregates())

    @classmethod
    def get_by_host(cls, context: Any, host: str, key: str | None = None) -> AggregateList:
        """The aggregates of a host; with `key`, only aggregates that define this metadata key."""
        found = current_context().fleet.aggregates_of(host)
        return cls(each for each in found if key is None or key in each.metadata)

    @classmethod
    def get_by_metadata_key(cls, context: Any, key: str, hosts: Any = None) -> AggregateList:
        """The aggregates that define a metadata key; with `hosts`, only aggregates with one of these hosts."""
        found = [each for each in current_context().fleet.aggregates() if key in each.metadata]
        return cls(each for each in found if hosts is None or not set(hosts).isdisjoint(each.hosts))


class InstanceList(_ObjectList):
    """Instances of the fleet."""

    @classmethod
    def get_by_host(cls, context: Any, host: str, *unused: Any, **also_unused: Any) -> InstanceList:
        """The instances on a host."""
        return cls(current_context().fleet.instances_of(host))


class ServiceList(_ObjectList):
    """Services of the fleet: one nova-compute per host."""

    @classmethod
    def get_by_binary(cls, context: Any, binary: str, include_disabled: bool = True) -> ServiceList:
        """The services of one binary; without disabled services if include_disabled is False."""
        found = [each for each in current_context().fleet.services() if each.binary == binary]
        return cls(each for each in found if include_disabled or not each.disabled)


class InstanceGroup(ServerGroup):
    """Server groups of the fleet."""

    @classmethod
    def get_by_uuid(cls, context: Any, uuid: str) -> ServerGroup:
        """The current state of the group; InstanceGroupNotFound if there is none."""
        group = current_context().fleet.group(uuid)
        if group is None:
            raise InstanceGroupNotFound(group_uuid=uuid)
        return group
