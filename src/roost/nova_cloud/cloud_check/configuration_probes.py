# SPDX-License-Identifier: Apache-2.0
"""Tries the broker, and loads the filters and weighers, of a configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roost.errors import OptionError, RoostError
from roost.messages.open_transport import try_connection
from roost.messages.oslo import RpcOptions
from roost.nova_cloud.cloud_check.probe_result import FAILED, OK, ProbeResult, failure
from roost.options.settings import Settings
from roost.plugins.context import PluginContext
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import places_of
from roost.scheduler.build import build_pipeline

BROKER, CONFIGURATION = "broker", "configuration"


def probe_broker(settings: Settings, files: Sequence[Path]) -> ProbeResult:
    """Connect to the broker and log in; no queue is declared or read."""
    address = settings.redacted("DEFAULT", "transport_url")
    try:
        try_connection(settings.fill(RpcOptions), files)
    except OptionError as error:
        return failure(BROKER, "connection", error)
    except RoostError as error:
        return ProbeResult(BROKER, "connection", FAILED, f"{address}: {error.message}", error.hint)
    return ProbeResult(BROKER, "connection", OK, address)


def probe_plugins(settings: Settings, files: Sequence[Path]) -> ProbeResult:
    """Load the filters and weighers that are enabled."""
    try:
        rules = build_pipeline(settings, places_of(files), PluginContext(PluginOptions(settings, files))).rules
    except RoostError as error:
        return failure(CONFIGURATION, "plugins", error)
    return ProbeResult(CONFIGURATION, "plugins", OK, f"{len(rules.filters)} filters, {len(rules.weighers)} weighers")
