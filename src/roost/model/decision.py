# SPDX-License-Identifier: Apache-2.0
"""What was decided and why: the record that command, API, log and page print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from roost.model.request import RequestSpec


class Record:
    """What `made` can put together."""


_new = object.__new__
_set_fields = vars(Record)["__dict__"].__set__
Made = TypeVar("Made", bound=Record)


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


ScoreParts = tuple[tuple[str, ...], tuple[float, ...], tuple[tuple[float, float], ...], tuple[float, ...]]
"""What the scores of a host follow from, each one per weigher: name, raw number, its extremes, multiplier."""
ScoredHost = tuple[tuple[str, str], float, ScoreParts]
"""What a decision notes of a host: (host, node), its weight, and the parts of its scores."""


class Scores(Mapping[str, Score]):
    """Score by weigher, worked out lazily from what a decision noted of a host."""

    __slots__ = ("_multipliers", "_names", "_numbers", "_spans")

    def __init__(
        self,
        names: tuple[str, ...],
        numbers: tuple[float, ...],
        spans: tuple[tuple[float, float], ...],
        multipliers: tuple[float, ...],
    ) -> None:
        """The four parts of `ScoreParts`."""
        self._names, self._numbers, self._spans, self._multipliers = names, numbers, spans, multipliers

    def __getitem__(self, name: str) -> Score:
        if name not in self._names or not self._multipliers[self._names.index(name)]:
            raise KeyError(name)
        at = self._names.index(name)
        number, (low, high) = self._numbers[at], self._spans[at]
        return Score(number, 0.0 if low == high else (number - low) / (high - low), self._multipliers[at])

    def __iter__(self) -> Iterator[str]:
        return (name for name, each in zip(self._names, self._multipliers, strict=True) if each)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class Ranked(NamedTuple):
    """A host with its weight and where that came from."""

    host: str
    node: str
    weight: float
    scores: Mapping[str, Score]
    """By weigher, but those that count for nothing here; empty where there was but one host and nothing to weigh."""


class Standings(Sequence[Ranked]):
    """The best hosts with their scores, best first; each worked out lazily from what a decision noted of it."""

    __slots__ = ("_noted", "_ranked")

    def __init__(self, noted: Sequence[ScoredHost]) -> None:
        self._noted = noted
        self._ranked: tuple[Ranked, ...] | None = None

    @property
    def first(self) -> Ranked:
        """The best host, without working out the others."""
        (host, node), weight, parts = self._noted[0]
        return Ranked(host, node, weight, Scores(*parts))

    def _all(self) -> tuple[Ranked, ...]:
        if self._ranked is None:
            self._ranked = tuple(Ranked(*pair, weight, Scores(*parts)) for pair, weight, parts in self._noted)
        return self._ranked

    def __len__(self) -> int:
        return len(self._noted)

    @overload
    def __getitem__(self, at: int) -> Ranked: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Ranked, ...]: ...
    def __getitem__(self, at: int | slice) -> Ranked | tuple[Ranked, ...]:
        return self._all()[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, Standings)) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all()[:1])

    def __repr__(self) -> str:
        return repr(self._all())


@dataclass(frozen=True)
class Candidate(Record):
    """A host that would do."""

    host: str
    node: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Overcommit ceilings that travel to the host with the request."""
    row: int = field(default=-1, repr=False, compare=False, kw_only=True)
    """Of the table that it was chosen from; -1 where nobody noted it."""


@dataclass(frozen=True)
class Selection(Candidate):
    """The host of one instance, and where to go if it fails there."""

    instance_uuid: str | None = None
    ranked: Ranked | None = None
    alternates: tuple[Candidate, ...] = ()
    placed: RequestSpec | None = field(default=None, repr=False, compare=False)
    """The request as the host took it in; giving it back releases the resources."""


@dataclass(frozen=True)
class Decision(Record):
    """A request's way through the hosts, from all of them to the chosen ones."""

    hosts: int
    wanted: int
    steps: tuple[Step, ...]
    weighers: tuple[str, ...]
    best: Sequence[Ranked]
    """The best hosts for the first instance, best first."""
    selections: tuple[Selection, ...]
    time_us: Mapping[str, float]
    """Microseconds per stage, `total` included."""
    failed_at: int | None = None
    """Number (from 0) of the instance for which no host was left."""

    def with_stage(self, stage: str, microseconds: float) -> Decision:
        """The decision after one more stage, which took so long."""
        times = self.time_us
        times = {**times, stage: microseconds, "total": times.get("total", 0.0) + microseconds}
        return build_unchecked(Decision, {**vars(self), "time_us": times})

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


def build_unchecked(kind: type[Made], fields: dict[str, Any]) -> Made:
    """A record whose fields are known to be good: spares the hot path what a frozen dataclass spends on them."""
    record = _new(kind)
    _set_fields(record, fields)
    return record


def _in_brackets(details: Mapping[str, str], name: str) -> str:
    return f" ({details[name]})" if name in details else ""
