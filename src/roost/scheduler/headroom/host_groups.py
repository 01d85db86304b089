# SPDX-License-Identifier: Apache-2.0
"""Hosts by availability zone, or by another metadata key of their aggregates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from roost.errors import UnknownName, nearest
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.base import Filter
from roost.hosts import HostTable
from roost.hosts.arrays import RowArray
from roost.model.aggregate import Aggregate, split_values

AVAILABILITY_ZONE = "availability_zone"
NO_VALUE = "(none)"
"""The group of hosts of which no aggregate has the key."""


def rows_by_value(table: HostTable, key: str, filters: Sequence[Filter]) -> dict[str, RowArray]:
    """Value of the metadata key -> rows of the hosts with that value, sorted by value.

    Several values of a host are joined by commas. `filters`: an AvailabilityZoneFilter among them knows the zone of
    hosts without one. Raises UnknownName for a key that no aggregate has.
    """
    check_group_key(table, key)
    values_of = _values_of(key, filters)
    names = table.per_value("aggregates", lambda each: ", ".join(sorted(values_of(each))) or NO_VALUE, np.object_)
    return {name: np.flatnonzero(names == name) for name in sorted(set(names.tolist()))}


def check_group_key(table: HostTable, key: str) -> None:
    """UnknownName, with the nearest, for a metadata key that no aggregate has."""
    known = {name for each in table.known_aggregates for name in each.metadata} | table.metadata_keys
    if key not in known and key != AVAILABILITY_ZONE:
        raise UnknownName(f"no aggregate has the metadata key {key!r}", nearest(key, known | {AVAILABILITY_ZONE}))


def _values_of(key: str, filters: Sequence[Filter]) -> Callable[[Collection[Aggregate]], Collection[str]]:
    if key == AVAILABILITY_ZONE:
        enabled = (rule for rule in filters if isinstance(rule, AvailabilityZoneFilter))
        return next(enabled, AvailabilityZoneFilter()).zones_of
    return lambda aggregates: split_values(aggregates, key)
