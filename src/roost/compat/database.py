# SPDX-License-Identifier: Apache-2.0
"""What is behind nova.db: what plugins asked the database up to Juno."""

from __future__ import annotations

from typing import Any

from roost.compat.fleet_state import AggregateObject
from roost.compat.objects import AggregateList


def aggregate_get_by_host(context: Any, host: str, key: str | None = None) -> list[AggregateObject]:
    """The aggregates that a host is in; with `key`, those that define it."""
    return AggregateList.get_by_host(context, host, key)


def aggregate_metadata_get_by_host(context: Any, host: str, key: str | None = None) -> dict[str, set[str]]:
    """Key -> set of the values, whole; with `key`, that one alone."""
    merged: dict[str, set[str]] = {}
    for aggregate in aggregate_get_by_host(context, host, key):
        for name, value in aggregate.metadata.items():
            if key is None or name == key:
                merged.setdefault(name, set()).add(value)
    return merged
