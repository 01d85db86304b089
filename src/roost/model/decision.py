# SPDX-License-Identifier: Apache-2.0
"""The record of a placement: hosts left after each step, scores, chosen hosts. CLI, API and log print it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from roost.model.request import RequestSpec
    from roost.model.resources import AllocationCandidate


class UncheckedRecord:
    """Base of the records that `build_unchecked` can build."""


_new = object.__new__
_set_fields = vars(UncheckedRecord)["__dict__"].__set__
RecordT = TypeVar("RecordT", bound=UncheckedRecord)


class Step(NamedTuple):
    """One check of the remaining hosts: how many there were before it, and how many after."""

    stage: str
    name: str
    before: int
    after: int
    detail: str = ""
    """What the rejected hosts lacked, in numbers. Computed only if the request fails; else empty."""


class Score(NamedTuple):
    """The result of one weigher for one host: raw number, min-max normalised number (0 to 1), multiplier."""

    raw: float
    normalised: float
    multiplier: float

    @property
    def contribution(self) -> float:
        """The share of the host's weight: multiplier x normalised."""
        return self.multiplier * self.normalised + 0.0  # never -0.0


ScoreParts = tuple[tuple[str, ...], tuple[float, ...], tuple[tuple[float, float], ...], tuple[float, ...]]
"""The inputs of a host's scores, one entry per weigher: names, raw numbers, (minimum, maximum), multipliers."""
ScoredHost = tuple[tuple[str, str], float, ScoreParts]
"""A host as a decision records it: (host, node), weight, and the inputs of its scores."""


class Scores(Mapping[str, Score]):
    """Weigher name -> Score of one host, computed lazily. Weighers with multiplier 0 are left out."""

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

    @property
    def parts(self) -> ScoreParts:
        """The arguments from which equal scores are made."""
        return self._names, self._numbers, self._spans, self._multipliers

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
    """A host with its weight (higher is better) and the scores that the weight is the sum of."""

    host: str
    node: str
    weight: float
    scores: Mapping[str, Score]
    """Weigher name -> score, without weighers of multiplier 0. Empty if there was only one host to choose from."""


class RankedList(Sequence[Ranked]):
    """The best hosts with their scores, best first. `Ranked` records are built lazily, on first access."""

    __slots__ = ("_noted", "_ranked")

    def __init__(self, noted: Sequence[ScoredHost]) -> None:
        self._noted = noted
        self._ranked: tuple[Ranked, ...] | None = None

    @property
    def first(self) -> Ranked:
        """The best host, without building the records of all hosts. IndexError if there is none."""
        (host, node), weight, parts = self._noted[0]
        return Ranked(host, node, weight, Scores(*parts))

    @property
    def noted(self) -> Sequence[ScoredHost]:
        """The hosts as they were noted, from which an equal list can be made."""
        return self._noted

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
        return isinstance(other, (tuple, RankedList)) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all()[:1])

    def __repr__(self) -> str:
        return repr(self._all())


@dataclass(frozen=True)
class Candidate(UncheckedRecord):
    """A host that passed all filters, with the ceilings that its claim must respect."""

    host: str
    node: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Overcommit ceilings, sent to the host with the request."""
    row: int = field(default=-1, repr=False, compare=False, kw_only=True)
    """Row of the host table; -1 if not recorded."""
    allocation: AllocationCandidate | None = field(default=None, repr=False, compare=False, kw_only=True)
    """What it takes from which resource providers; None: the requested amounts, from the host's own."""


@dataclass(frozen=True)
class Selection(Candidate):
    """The chosen host of one instance, and alternates to retry on if the build fails."""

    instance_uuid: str | None = None
    ranked: Ranked | None = None
    alternates: tuple[Candidate, ...] = ()
    placed: RequestSpec | None = field(default=None, repr=False, compare=False)
    """The request as it was consumed by the host; needed to release the resources again."""


@dataclass(frozen=True)
class Decision(UncheckedRecord):
    """The result of placing one request: steps from all hosts to the chosen ones, scores, and time per stage."""

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
        """A copy of the decision with the time of one more stage, in microseconds; `total` grows by it."""
        times = self.time_us
        times = {**times, stage: microseconds, "total": times.get("total", 0.0) + microseconds}
        return build_unchecked(Decision, {**vars(self), "time_us": times})

    @property
    def is_placed(self) -> bool:
        """Whether every instance has a host."""
        return self.failed_at is None

    @property
    def rejected(self) -> dict[str, int]:
        """Step name -> number of hosts it rejected, largest first. On failure the numbers add up to all hosts."""
        counts: dict[str, int] = {}
        for step in self.steps:
            if step.before > step.after:
                counts[step.name] = counts.get(step.name, 0) + step.before - step.after
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def summary(self) -> str:
        """One line: the chosen hosts, or how many hosts each step rejected."""
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


def build_unchecked(kind: type[RecordT], fields: dict[str, Any]) -> RecordT:
    """A record with fields that are known to be valid. Skips the __init__ of a frozen dataclass, which is slow."""
    record = _new(kind)
    _set_fields(record, fields)
    return record


def _in_brackets(details: Mapping[str, str], name: str) -> str:
    return f" ({details[name]})" if name in details else ""
