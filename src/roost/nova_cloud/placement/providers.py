# SPDX-License-Identifier: Apache-2.0
"""Resource providers as placement's answers describe them, decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from roost.errors import PlacementError
from roost.hosts.record import Inventory

Amounts = Mapping[str, int]
"""Resource class -> amount."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A root provider: what there is, and what was used of it when it was read.

    Two of them are equal if a scheduler would see no difference: generation and times do not count.
    """

    uuid: str
    name: str
    inventories: Mapping[str, Inventory]
    used: Amounts
    """Allocated amount per resource class, to all consumers together."""
    traits: frozenset[str] = frozenset()
    is_assumed_full: bool = False
    """Placement did not list it among those with room; `used` was set to the limits and is not what placement has."""
    generation: int = field(default=0, compare=False)
    """The generation for which inventories and traits are known to be right."""
    read_at: float = field(default=0.0, compare=False)
    """Monotonic time at which the read of `used` began."""
    changed_at: float = field(default=0.0, compare=False)
    """Monotonic time of the last own claim that was added to `used`; `read_at` if there was none since."""


class ProviderChanges(NamedTuple):
    """What changed in the snapshot: uuids of providers that are new or differ, and of those that are gone."""

    changed: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


class Listed(NamedTuple):
    """A provider in the list of all."""

    uuid: str
    name: str
    generation: int
    root_uuid: str


class Details(NamedTuple):
    """What changes seldom, and never without a new generation."""

    generation: int
    inventories: Mapping[str, Inventory]
    traits: frozenset[str] | None
    """None: not known for this generation."""

    def overbooked(self, used: Amounts, classes: Iterable[str]) -> str:
        """The first of these resource classes of which more is used than there is, with figures; empty if none."""
        for name in sorted(classes):
            limit = int(self.inventories[name].limit) if name in self.inventories else 0
            if used.get(name, 0) > limit:
                return f"{name}: {used[name]} of {limit} used"
        return ""


GONE = Details(-1, {}, None)
"""Of a provider that placement does not have any more."""


class Room(NamedTuple):
    """Use and traits of a provider."""

    used: Amounts
    traits: frozenset[str] | None
    """None: not part of the answer."""


def decode_list(answer: Mapping[str, Any]) -> dict[str, Listed]:
    """All providers, uuid -> provider, of an answer of /resource_providers."""
    with decoding("/resource_providers"):
        found = (
            Listed(str(each["uuid"]), str(each["name"]), int(each["generation"]), str(each["root_provider_uuid"]))
            for each in answer["resource_providers"]
        )
        return {each.uuid: each for each in found}


def decode_candidates(answer: Mapping[str, Any]) -> dict[str, Room]:
    """All providers, uuid -> room, in an answer of /allocation_candidates."""
    with decoding("/allocation_candidates"):
        return {
            str(uuid): Room(
                {str(name): int(amounts["used"]) for name, amounts in each["resources"].items()},
                frozenset(map(str, each["traits"])),
            )
            for uuid, each in answer["provider_summaries"].items()
        }


def decode_inventories(answer: Mapping[str, Any]) -> tuple[int, dict[str, Inventory]]:
    """(generation, resource class -> inventory) of one provider."""
    with decoding("inventories"):
        return _generation(answer), {str(name): _inventory(each) for name, each in answer["inventories"].items()}


def decode_usages(answer: Mapping[str, Any]) -> tuple[int, dict[str, int]]:
    """(generation, resource class -> used amount) of one provider."""
    with decoding("usages"):
        return _generation(answer), {str(name): int(used) for name, used in answer["usages"].items()}


def decode_names(answer: Mapping[str, Any], key: str) -> tuple[int, frozenset[str]]:
    """(generation, names under `key`) of one provider: its traits."""
    with decoding(key):
        return _generation(answer), frozenset(map(str, answer[key]))


def _generation(answer: Mapping[str, Any]) -> int:
    return int(answer["resource_provider_generation"])


def _inventory(each: Mapping[str, Any]) -> Inventory:
    return Inventory(
        total=int(each["total"]),
        reserved=int(each["reserved"]),
        allocation_ratio=float(each["allocation_ratio"]),
        min_unit=int(each["min_unit"]),
        max_unit=int(each["max_unit"]),
        step_size=int(each["step_size"]),
    )


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Context in which an answer about `what` is decoded; PlacementError where it has another form."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = f"placement's answer about {what} lacks something: {type(error).__name__}: {error}"
        raise PlacementError(problem) from None
