# SPDX-License-Identifier: Apache-2.0
"""Compares the answers of nova and Roost to a case, for the recorded vectors and for `make conformance`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

Answer = Mapping[str, Any]
Unequal = tuple[str | None, Any, Any]
"""Filter or weigher that differs (None: the whole key), its value from nova, its value from Roost."""

RELATIVE_TOLERANCE = 1e-9
"""For weights: nova does not guarantee the order in which floats are summed."""
ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """A part of the answer to a case in which nova and Roost differ."""

    case_id: str
    key: str
    rule: str | None
    nova: Any
    roost: Any

    @property
    def place(self) -> str:
        """Key and rule, such as `alone.RamFilter`; only the key where the difference is not about one rule."""
        return f"{self.key}.{self.rule}" if self.rule else self.key


def compare(nova: Answer, roost: Answer, only_recorded: bool = False) -> list[Difference]:
    """All differences. `only_recorded`: ignore what nova's answer lacks, as answers of Rocky do."""
    if "error" in nova and "error" in roost:
        compared = ["error"]
    elif "error" in nova or "error" in roost:
        return [Difference(nova["id"], "error", None, nova.get("error", ABSENT), roost.get("error", ABSENT))]
    else:
        compared = [key for key in KEYS if _is_compared(key, nova, roost, only_recorded)]
    return [
        Difference(nova["id"], key, *unequal)
        for key in compared
        for unequal in _compare_key(key, nova, roost, only_recorded)
    ]


def _is_compared(key: str, nova: Answer, roost: Answer, only_recorded: bool) -> bool:
    return key in nova or (key in roost and not only_recorded)


def _compare_key(key: str, nova: Answer, roost: Answer, only_recorded: bool) -> Iterator[Unequal]:
    if key in nova and key in roost:
        yield from KEYS[key](nova[key], roost[key], only_recorded)
    else:
        yield None, nova.get(key, ABSENT), roost.get(key, ABSENT)


# --- one comparison per kind of value ----------------------------------------------------------------


def _exactly(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    if nova != roost:
        yield None, nova, roost


def _error_types(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    if nova["type"] != roost["type"]:
        yield None, nova, roost


def _each_filter(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    """Compare the hosts that each filter passes, or the type of the error it raises."""
    for name in nova if only_recorded else {**nova, **roost}:
        nova_part, roost_part = nova.get(name, ABSENT), roost.get(name, ABSENT)
        if _without_message(nova_part) != _without_message(roost_part):
            yield name, nova_part, roost_part


def _without_message(value: Any) -> Any:
    return value["error"]["type"] if isinstance(value, Mapping) else value


def _first_step(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    """Find the first step of the chain that differs; later differences are consequences."""
    for nova_part, roost_part in zip_longest(nova, roost):
        if nova_part is None or roost_part is None:
            yield (nova_part or roost_part)["filter"], _passed(nova_part), _passed(roost_part)
            return
        if nova_part["filter"] != roost_part["filter"]:
            yield None, nova_part, roost_part
            return
        if nova_part["passed"] != roost_part["passed"]:
            yield nova_part["filter"], nova_part["passed"], roost_part["passed"]
            return


def _passed(step: Any) -> Any:
    return ABSENT if step is None else step["passed"]


def _each_weigher(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    for name in {**nova, **roost}:
        nova_part, roost_part = nova.get(name), roost.get(name)
        if (
            not nova_part
            or not roost_part
            or not all(_all_close(nova_part[part], roost_part[part]) for part in ("raw", "multiplier"))
        ):
            yield name, nova_part or ABSENT, roost_part or ABSENT


def _weights(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    """Compare lists of [host, node, weight] without their order, which the key `order` covers."""
    nova_part, roost_part = ({(host, node): weight for host, node, weight in each} for each in (nova, roost))
    if nova_part.keys() != roost_part.keys() or not _all_close(
        nova_part.values(), [roost_part[name] for name in nova_part]
    ):
        yield None, nova, roost


def _all_close(nova_part: Any, roost_part: Any) -> bool:
    return len(nova_part) == len(roost_part) and all(
        math.isclose(one, other, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
        for one, other in zip(nova_part, roost_part, strict=True)
    )


def _selections(nova: Any, roost: Any, only_recorded: bool) -> Iterator[Unequal]:
    """Compare [host, node, zone] of each choice and alternate; answers of Rocky have no zone."""
    if isinstance(nova, Mapping) or isinstance(roost, Mapping):
        if _without_message(nova) != _without_message(roost):
            yield None, nova, roost
    elif nova != (_without_zones(roost) if only_recorded else roost):
        yield None, nova, roost


def _without_zones(selections: Any) -> Any:
    return [[entry[:2] for entry in instance] for instance in selections]


KEYS: dict[str, Callable[[Any, Any, bool], Iterator[Unequal]]] = {
    "error": _error_types,
    "alone": _each_filter,
    "chain": _first_step,
    "filtered": _exactly,
    "filter_error": _error_types,
    "raw_weights": _each_weigher,
    "weights": _weights,
    "weigh_error": _error_types,
    "order": _exactly,
    "selections": _selections,
    "consumed": _exactly,
}
"""Key of an answer -> the function that compares its values."""
