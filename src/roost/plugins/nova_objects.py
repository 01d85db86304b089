# SPDX-License-Identifier: Apache-2.0
"""nova's objects and errors for plugins: lists filled from the fleet, and Roost's records under nova's names.

Errors that plugins raise or catch are message templates, filled from keywords.
"""

from __future__ import annotations

from typing import Any

from roost.hosts.instances import HostedInstance
from roost.model.group import ServerGroup
from roost.model.image import Image, ImageProperties
from roost.plugins.context import AggregateObject, ServiceObject, current_context


class NovaException(Exception):
    """Base of nova's errors. The message is `msg_fmt` filled from the keywords, unless `message` is given."""

    msg_fmt = "an error without a text"
    code = 500

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = {"code": self.code, **kwargs}
        try:
            text = message or self.msg_fmt % kwargs
        except (KeyError, TypeError, ValueError):
            text = self.msg_fmt  # unfilled: formatting must not hide the original error
        self.message = text
        super().__init__(text)

    def format_message(self) -> str:
        """The message."""
        return str(self.args[0])


class Invalid(NovaException):
    """Input is invalid."""

    msg_fmt = "not valid"
    code = 400


class NotFound(NovaException):
    """Something does not exist."""

    msg_fmt = "not found"
    code = 404


class NoValidHost(NovaException):
    """No host fits."""

    msg_fmt = "No valid host was found. %(reason)s"


class ComputeHostMetricNotFound(NotFound):
    """A host does not report a metric."""

    msg_fmt = "host %(host)s, node %(node)s reports no metric %(name)s"


class AggregateNotFound(NotFound):
    """There is no such aggregate."""

    msg_fmt = "there is no aggregate %(aggregate_id)s"


class HostNotFound(NotFound):
    """There is no such host."""

    msg_fmt = "there is no host %(host)s"


class ComputeHostNotFound(HostNotFound):
    """There is no compute service on such a host."""

    msg_fmt = "there is no compute service on host %(host)s"


class InstanceNotFound(NotFound):
    """There is no such instance."""

    msg_fmt = "there is no instance %(instance_id)s"


class InstanceGroupNotFound(NotFound):
    """There is no such server group."""

    msg_fmt = "there is no server group %(group_uuid)s"


class ServiceNotFound(NotFound):
    """There is no such service."""

    msg_fmt = "there is no service %(service_id)s"


Aggregate = AggregateObject
ImageMeta = Image
ImageMetaProps = ImageProperties
Instance = HostedInstance
Service = ServiceObject


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
