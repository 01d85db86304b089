# SPDX-License-Identifier: Apache-2.0
"""What was decided and why: the record that command, API, log and page print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from roost.model.request import RequestSpec


class Step(NamedTuple):
    """One question put to the hosts in the running, and how many were left."""

    stage: str
    name: str
    before: int
    after: int
    detail: str = ""
    """What those who fell out lacked, in numbers. Worked out only when the request fails."""


class Score(NamedTuple):
    """What one weigher said of one host."""

    raw: float
    normalised: float
    multiplier: float

    @property
    def contribution(self) -> float:
        """What it added to the host's weight."""
        return self.multiplier * self.normalised + 0.0  # never -0.0


class Ranked(NamedTuple):
    """A host with its weight and where that came from."""

    host: str
    node: str
    weight: float
    scores: Mapping[str, Score]
    """By weigher; empty where there was but one host and nothing to weigh."""


@dataclass(frozen=True)
class Candidate:
    """A host that would do."""

    host: str
    node: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Overcommit ceilings that travel to the host with the request."""


@dataclass(frozen=True)
class Selection(Candidate):
    """The host of one instance, and where to go if it fails there."""

    instance_uuid: str | None = None
    ranked: Ranked | None = None
    alternates: tuple[Candidate, ...] = ()
    placed: RequestSpec | None = field(default=None, repr=False, compare=False)
    """The request as the host took it in; giving it back releases the resources."""


@dataclass(frozen=True)
class Decision:
    """A request's way through the hosts, from all of them to the chosen ones."""

    hosts: int
    wanted: int
    steps: tuple[Step, ...]
    weighers: tuple[str, ...]
    best: tuple[Ranked, ...]
    """The best hosts for the first instance, best first."""
    selections: tuple[Selection, ...]
    time_us: Mapping[str, float]
    """Microseconds per stage, `total` included."""
    failed_at: int | None = None
    """Number (from 0) of the instance for which no host was left."""

    @property
    def is_placed(self) -> bool:
        """Every instance has a host."""
        return self.failed_at is None

    @property
    def rejected(self) -> dict[str, int]:
        """How many hosts each step took out, the largest first. On failure they add up to all hosts."""
        counts: dict[str, int] = {}
        for step in self.steps:
            if step.before > step.after:
                counts[step.name] = counts.get(step.name, 0) + step.before - step.after
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def summary(self) -> str:
        """One line: what was chosen, or what took out how many."""
        if self.failed_at is None:
            chosen = ", ".join(each.host for each in self.selections[:3])
            more = f" and {len(self.selections) - 3} more" if len(self.selections) > 3 else ""
            return f"{len(self.selections)} of {self.wanted} placed on {chosen}{more}"
        asked = f" instance {self.failed_at + 1} of {self.wanted}" if self.wanted > 1 else ""
        if not self.hosts:
            return f"0 of 0 hosts fit{asked}: there are no hosts"
        details = {step.name: step.detail for step in self.steps if step.detail}
        reasons = [f"{count} {name}{_in_brackets(details, name)}" for name, count in self.rejected.items()]
        return f"0 of {self.hosts} hosts fit{asked}: {', '.join(reasons)}"


def _in_brackets(details: Mapping[str, str], name: str) -> str:
    return f" ({details[name]})" if name in details else ""
