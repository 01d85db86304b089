# SPDX-License-Identifier: Apache-2.0
"""Host aggregates, with metadata that filters and weighers read, and the state of a host's compute service."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from roost.model.fields import FLAG, IDENTIFIER, NUMBER, Checked, Flag, NameTuple, OptionalText, Text, TextMapping
from roost.model.kinds import OrNull


@dataclass(frozen=True)
class Aggregate(Checked):
    """A named set of hosts with metadata. `hosts` are host names; `metadata` maps keys to texts."""

    name: Text
    metadata: TextMapping = field(default_factory=dict, hash=False)
    hosts: NameTuple = field(default=(), hash=False)
    id: Annotated[Any, IDENTIFIER] = None
    uuid: OptionalText = None

    @property
    def availability_zone(self) -> str | None:
        """The availability zone that the aggregate defines; None if it defines none."""
        return self.metadata.get("availability_zone")


class HasMetadata(Protocol):
    """An aggregate, in any form."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Key -> text."""


def raw_values(aggregates: Collection[HasMetadata], key: str) -> set[str]:
    """The metadata texts under `key`, not split, of all aggregates that define it."""
    return {each.metadata[key] for each in aggregates if key in each.metadata}


def split_values(aggregates: Collection[Aggregate], key: str) -> set[str]:
    """The metadata values under `key`, split at commas and stripped."""
    return {piece.strip() for raw in raw_values(aggregates, key) for piece in raw.split(",")}


def merged_metadata(aggregates: Collection[Aggregate], key: str | None = None) -> dict[str, set[str]]:
    """Metadata key -> set of values, split at commas. With `key`, only aggregates that define it are merged."""
    merged: dict[str, set[str]] = {}
    for aggregate in aggregates:
        if key is None or key in aggregate.metadata:
            for name, raw in aggregate.metadata.items():
                merged.setdefault(name, set()).update(piece.strip() for piece in raw.split(","))
    return merged


def smallest_value(aggregates: Collection[Aggregate], key: str, cast: type[int] | type[float]) -> float | None:
    """The smallest number under `key`; None if no aggregate defines it, or if any value is not a number."""
    raw = raw_values(aggregates, key)
    if not raw:
        return None
    try:
        numbers = [cast(value) for value in raw]
    except ValueError:
        return None
    return next((each for each in numbers if each != each), min(numbers))  # NaN wins, independent of the order


@dataclass(frozen=True)
class Service(Checked):
    """State of a host's compute service: disabled, forced down, and its heartbeat."""

    disabled: Flag = False
    disabled_reason: OptionalText = None
    forced_down: Flag = False
    up: Annotated[bool | None, OrNull(FLAG)] = None
    """Whether the service is up, if reported directly; None if it follows from the heartbeat."""
    seconds_since_seen: Annotated[float | None, OrNull(NUMBER)] = None
    """Age of the last heartbeat in seconds; negative if the host's clock is ahead. None if unknown."""

    def is_up(self, down_after_seconds: float) -> bool:
        """Whether it is not forced down, and its heartbeat is at most `down_after_seconds` old or ahead."""
        if self.forced_down:
            return False
        if self.up is not None:
            return self.up
        return self.seconds_since_seen is None or abs(self.seconds_since_seen) <= down_after_seconds

    def as_record(self, is_up: bool) -> dict[str, Any]:
        """The mapping that filters of nova read as `host_state.service`."""
        return {
            "disabled": self.disabled,
            "disabled_reason": self.disabled_reason,
            "forced_down": self.forced_down,
            "up": is_up,
        }
