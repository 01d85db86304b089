# SPDX-License-Identifier: Apache-2.0
"""What is behind nova.objects: lists that come from the fleet, and Roost's own records under nova's names."""

from __future__ import annotations

from typing import Any

from roost.compat.exceptions import InstanceGroupNotFound
from roost.compat.fleet_state import AggregateObject, ServiceObject
from roost.compat.plugin_context import current_context
from roost.hosts.view import HostedInstance
from roost.model.flavor import Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image
from roost.model.image_properties import ImageProperties
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
    """A list that also has its elements under nova's name."""

    @property
    def objects(self) -> list[Any]:
        """The elements."""
        return self


class AggregateList(_ObjectList):
    """Aggregates of the fleet."""

    @classmethod
    def get_all(cls, context: Any) -> AggregateList:
        """Every one."""
        return cls(current_context().fleet.aggregates())

    @classmethod
    def get_by_host(cls, context: Any, host: str, key: str | None = None) -> AggregateList:
        """Those a host is in; with `key`, those that define it."""
        found = current_context().fleet.aggregates_of(host)
        return cls(each for each in found if key is None or key in each.metadata)

    @classmethod
    def get_by_metadata_key(cls, context: Any, key: str, hosts: Any = None) -> AggregateList:
        """Those that define a key; with `hosts`, those that also hold one of these."""
        found = [each for each in current_context().fleet.aggregates() if key in each.metadata]
        return cls(each for each in found if hosts is None or not set(hosts).isdisjoint(each.hosts))


class InstanceList(_ObjectList):
    """Instances of the fleet."""

    @classmethod
    def get_by_host(cls, context: Any, host: str, *unused: Any, **also_unused: Any) -> InstanceList:
        """Those that run on a host."""
        return cls(current_context().fleet.instances_of(host))


class ServiceList(_ObjectList):
    """Services of the fleet: one nova-compute per host."""

    @classmethod
    def get_by_binary(cls, context: Any, binary: str, include_disabled: bool = True) -> ServiceList:
        """Those of one program."""
        found = [each for each in current_context().fleet.services() if each.binary == binary]
        return cls(each for each in found if include_disabled or not each.disabled)


class InstanceGroup(ServerGroup):
    """Server groups."""

    @classmethod
    def get_by_uuid(cls, context: Any, uuid: str) -> ServerGroup:
        """The group as it is now."""
        group = current_context().fleet.group(uuid)
        if group is None:
            raise InstanceGroupNotFound(group_uuid=uuid)
        return group
