# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.filters.utils: queries about a host's aggregates and instances."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any

from roost.model.aggregate import merged_metadata, raw_values
from roost.plugins.context import current_context


def aggregate_values_from_key(host_state: Any, key_name: str) -> set[str]:
    """The metadata texts under a key, not split, of the host's aggregates."""
    return raw_values(host_state.aggregates, key_name)


def aggregate_values_from_db(context: Any, host: str, key_name: str) -> set[str]:
    """The metadata texts under a key, not split, of the aggregates of a host, which is given by name (Juno)."""
    return raw_values(current_context().fleet.aggregates_of(host), key_name)


def aggregate_metadata_get_by_host(host_state: Any, key: str | None = None) -> dict[str, set[str]]:
    """Metadata key -> set of values, split at commas; an empty set for any other key.

    With `key`, only aggregates that define it are merged.
    """
    return defaultdict(set, merged_metadata(host_state.aggregates, key))


def validate_num_values(
    vals: Collection[Any],
    default: Any = None,
    cast_to: Callable[[Any], Any] = int,
    based_on: Callable[[Iterable[Any]], Any] = min,
) -> Any:
    """One number out of several texts: `based_on` of them, by default the smallest; the default if there are none."""
    return based_on([cast_to(each) for each in vals]) if vals else default


def instance_uuids_overlap(host_state: Any, uuids: str | Iterable[str]) -> bool:
    """Whether at least one of the instances is on the host."""
    wanted = [uuids] if isinstance(uuids, str) else uuids
    return any(each in host_state.instances for each in wanted)


def other_types_on_host(host_state: Any, instance_type_id: Any) -> bool:
    """Whether an instance on the host has a flavor with another id (Kilo)."""
    return any(each.instance_type_id != instance_type_id for each in host_state.instances.values())
