# SPDX-License-Identifier: Apache-2.0
"""nova.exception: the errors that plugins raise and catch."""

from roost.plugins.nova_objects import (
    AggregateNotFound,
    ComputeHostMetricNotFound,
    ComputeHostNotFound,
    HostNotFound,
    InstanceGroupNotFound,
    InstanceNotFound,
    Invalid,
    NotFound,
    NovaException,
    NoValidHost,
    ServiceNotFound,
)

__all__ = [
    "AggregateNotFound",
    "ComputeHostMetricNotFound",
    "ComputeHostNotFound",
    "HostNotFound",
    "InstanceGroupNotFound",
    "InstanceNotFound",
    "Invalid",
    "NoValidHost",
    "NotFound",
    "NovaException",
    "ServiceNotFound",
]
