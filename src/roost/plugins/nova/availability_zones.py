# SPDX-License-Identifier: Apache-2.0
"""nova.availability_zones: the zone of a host."""

from typing import Any

from oslo_config import cfg

from roost.plugins.context import current_context


def get_host_availability_zone(context: Any, host: str, *unused: Any) -> str:
    """The availability zone that one of the host's aggregates defines, or else the default zone."""
    zones = [each.availability_zone for each in current_context().fleet.aggregates_of(host)]
    return str(next((each for each in zones if each), cfg.CONF.default_availability_zone))
