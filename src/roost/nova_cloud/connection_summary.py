# SPDX-License-Identifier: Apache-2.0
"""The connections that a scheduler in a nova cloud would use, as configured. Nothing is connected; no secrets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from roost.nova_cloud.databases.read_only_engine import parse_nova_url
from roost.nova_cloud.placement.keystone_adapter import describe_placement, make_adapter
from roost.nova_cloud.service_record import CELL_DATABASE
from roost.options.settings import Settings
from roost.scheduler.cloud_options import API_DATABASE, NOVA, ApiDatabaseOptions, CellDatabaseOptions, CloudOptions
from roost.store.engine import DatabaseOptions, redacted_url


def summarize_connections(settings: Settings, files: Sequence[Path]) -> dict[str, Any]:
    """The connections as JSON data; an OptionError for the first that cannot be used."""
    return {
        "kind": NOVA,
        "api_database": find_api_database(settings),
        "cell_database_user": settings.fill(CellDatabaseOptions).cell_database_user or None,
        "placement": find_placement(files),
    }


def find_api_database(settings: Settings) -> str:
    """The address of the API database, without its password; DatabaseAddressError if it is wrong."""
    return redacted_url(parse_nova_url(settings.fill(ApiDatabaseOptions).connection, API_DATABASE))


def check_service_record(settings: Settings) -> None:
    """DatabaseAddressError if the service record is switched on and the address of its database is wrong."""
    if settings.fill(CloudOptions).service_record:
        parse_nova_url(settings.fill(DatabaseOptions).connection, CELL_DATABASE)


def find_placement(files: Sequence[Path]) -> dict[str, str]:
    """How placement is found, by the names of keystoneauth's options; OptionError if [placement] is wrong."""
    make_adapter(files)
    return describe_placement(files)
