# SPDX-License-Identifier: Apache-2.0
"""Host aggregates: named sets of hosts with metadata that filters and weighers read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from roost.validation.records import Checked
from roost.validation.vocabulary import IDENTIFIER, NameTuple, OptionalText, Text, TextMapping


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
