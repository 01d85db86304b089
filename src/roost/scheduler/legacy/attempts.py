# SPDX-License-Identifier: Apache-2.0
"""Attempt counting by the rules of Icehouse and Juno."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from roost.options.settings import Settings
from roost.scheduler.legacy.retry_data import (
    last_failure,
    populate_filter_properties,
    populate_retry,
    with_no_host_tried,
)
from roost.scheduler.options import SchedulerOptions

LOG = structlog.get_logger(__name__)


def count_attempt(properties: Mapping[str, Any], settings: Settings, uuid: str) -> dict[str, Any]:
    """The filter_properties with the attempt counter incremented; MaxRetriesExceeded beyond max_attempts."""
    if failure := last_failure(properties):
        LOG.warning("tried before", instance=uuid, host=failure.host, node=failure.node, reason=failure.reason)
    most = settings.fill(SchedulerOptions).max_attempts
    return populate_retry(properties, most, uuid, stays_with_any_force=True)


def properties_for(properties: Mapping[str, Any], chosen: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    """The filter_properties for the chosen host of the instance with this number (from 0).

    Hosts that were tried before concern the first instance only: a retry is for one instance.
    """
    own = with_no_host_tried(properties) if index else properties
    host, node, limits = chosen["host"], chosen["nodename"], chosen["limits"]
    return populate_filter_properties(own, host, node, limits, stays_with_any_force=True)
