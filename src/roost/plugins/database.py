# SPDX-License-Identifier: Apache-2.0
"""The functions of nova.db: database queries of plugins up to Juno, answered from the fleet."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from roost.plugins.context import AggregateObject
from roost.plugins.nova_objects import AggregateList


def aggregate_get_by_host(context: Any, host: str, key: str | None = None) -> list[AggregateObject]:
    """The aggregates of a host; with `key`, only aggregates that define this metadata key."""
    return AggregateList.get_by_host(context, host, key)


def aggregate_metadata_get_by_host(context: Any, host: str, key: str | None = None) -> dict[str, set[str]]:
    """Metadata key -> set of values, not split, over the host's aggregates; an empty set for any other key.

    With `key`, only this key is in the result.
    """
    merged: dict[str, set[str]] = defaultdict(set)
    for aggregate in aggregate_get_by_host(context, host, key):
        for name, value in aggregate.metadata.items():
            if key is None or name == key:
                merged[name].add(value)
    return merged
