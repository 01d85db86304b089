# SPDX-License-Identifier: Apache-2.0
"""nova.objects: answered from the fleet that Roost places on."""

from roost.compat.objects import (
    Aggregate,
    AggregateList,
    Flavor,
    ImageMeta,
    ImageMetaProps,
    Instance,
    InstanceGroup,
    InstanceList,
    RequestSpec,
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
    """Nothing needs to be registered here."""
