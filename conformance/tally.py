# SPDX-License-Identifier: Apache-2.0
"""Results of a run: counts per filter, weigher and key, and a line of text per difference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from conformance.comparing import KEYS, Answer, Difference, compare
from conformance.explaining import explain

LONGEST = 160
"""Characters of an answer in a line of text; longer ones are truncated."""


@dataclass(frozen=True)
class Verdict:
    """The result of one case: its differences, each with the defect of nova that explains it, or None."""

    case: Mapping[str, Any]
    nova: Answer
    roost: Answer
    differences: tuple[tuple[Difference, str | None], ...]

    @property
    def is_unexplained(self) -> bool:
        """Whether there is a difference without a known reason."""
        return any(reason is None for _, reason in self.differences)

    def places(self) -> Iterator[str]:
        """Names of the filters and weighers that ran, and of the keys that were compared."""
        if "error" not in self.nova:
            yield from self.case["filters"]
        if "raw_weights" in self.roost:
            yield from self.nova.get("raw_weights", ())
        yield from (key for key in KEYS if key in self.nova and key in self.roost)


def judge(case: Mapping[str, Any], nova: Answer, roost: Answer) -> Verdict:
    """Compare the answers to a case, and attribute differences to known defects."""
    found = compare(nova, roost)
    return Verdict(case, nova, roost, tuple((each, explain(case, nova, roost, each)) for each in found))


@dataclass
class Tally:
    """Counts of cases per filter, weigher and key: all, different, and different for a known reason."""

    cases: Counter[str] = field(default_factory=Counter)
    different: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)

    def add(self, verdict: Verdict) -> None:
        """Count one case; under each name an unexplained difference takes precedence over explained ones."""
        different = {name for each, reason in verdict.differences if not reason for name in _names(each)}
        explained = {name for each, reason in verdict.differences if reason for name in _names(each)} - different
        self.cases.update({*verdict.places(), *different, *explained})
        self.different.update(different)
        self.explained.update(explained)

    def table(self, title: str) -> Table:
        """The counts as a table: filters and weighers by name, then the keys of the answer."""
        table = Table(title=title, title_justify="left")
        table.add_column("filter, or key of the answer")
        for heading in ("cases", "equal", "different", "explained"):
            table.add_column(heading, justify="right")
        rules = sorted(self.cases.keys() - KEYS.keys())
        for name in [*rules, *(key for key in KEYS if key in self.cases)]:
            counts = self.cases[name], self.different[name], self.explained[name]
            equal = counts[0] - counts[1] - counts[2]
            row = (counts[0], equal, *counts[1:])
            table.add_row(name, *map(str, row), end_section=bool(rules) and name == rules[-1])
        return table


def _names(difference: Difference) -> set[str]:
    return {difference.key, difference.rule or difference.key}


def describe(difference: Difference, reason: str | None) -> str:
    """A line of text: case, key, reason, and the differing parts of the answers, truncated."""
    nova, roost = difference.nova, difference.roost
    if isinstance(nova, list) and isinstance(roost, list):
        shared = [each for each in nova if each in roost]
        if len(shared) < max(len(nova), len(roost)):
            nova, roost = ([each for each in side if each not in shared] for side in (nova, roost))
    why = f"explained: {reason}" if reason else "unexplained"
    return f"{difference.case_id} {difference.place} ({why}): nova {_short(nova)}; Roost {_short(roost)}"


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, list) and len(each) == 2 for each in value):
        text = ", ".join(host if host == node else f"{host}/{node}" for host, node in value) or "no host more"
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
