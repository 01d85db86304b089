# SPDX-License-Identifier: Apache-2.0
"""nova.objects: filled from the fleet of the current PluginContext."""

from roost.model.flavor import Flavor
from roost.model.request import RequestSpec
from roost.plugins.nova_objects import (
    Aggregate,
    AggregateList,
    ImageMeta,
    ImageMetaProps,
    Instance,
    InstanceGroup,
    InstanceList,
    Service,
    ServiceList,
)

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
    "register_all",
]


def register_all() -> None:
    """Do nothing: there is nothing to register."""
