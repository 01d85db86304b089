# SPDX-License-Identifier: Apache-2.0
"""What the pipeline asks of an engine: which hosts are left for a request, and in which order.

Two engines answer: `full_scan.py` asks and weighs every host each time, `incremental/` caches answers between
requests. Their answers are equal to the bit, so one can be exchanged for, and compared with, the other in one line.
What they share is here: the rules of a pipeline, how one of the best hosts is picked (nova's two options, and the
randomness they need), and alternates, the next best hosts of the same nova cell, to try if a build fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable
from roost.model.decision import Ranked, RankedList, Step
from roost.model.kinds import lazy
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidate
from roost.scheduler.checks import Check, capacity_checks, filter_checks, is_forced
from roost.scheduler.prefilters import PrefilterOptions, prefilter_checks
from roost.weighers.base import Weigher


class Randomness(Protocol):
    """What is used of `random.Random`; handed in, so that a seed repeats a run."""

    def randrange(self, stop: int, /) -> int:
        """A whole number from 0 up to, and without, `stop`."""

    def shuffle(self, items: list[Any], /) -> None:
        """Put the items into random order, in place."""

    def getrandbits(self, bits: int, /) -> int:
        """A whole number of that many random bits."""


@dataclass(frozen=True)
class Choice:
    """Whether chance has a part in picking the host; by default the best one is picked."""

    host_subset_size: int = 1
    """Pick at random among so many of the best."""
    shuffles_best: bool = False
    """Put hosts that share the best weight into random order first."""


BEST = Choice()
"""The best host is picked, always."""


STAGES = ("prefilter", "capacity", "filter", "weigh", "choose")
"""The stages that a pipeline times; the sixth, claim, is the ledger's."""
_NOTHING_SPENT = dict.fromkeys(STAGES, 0.0)

Order = list[tuple[float, int]]
"""(Negated weight, row) of hosts, best first."""


class Uncacheable(Exception):
    """The cache cannot hold the answers to a request: too many checks, or weights that are not finite."""


class StageTimes:
    """The time spent in each stage of one request."""

    __slots__ = ("_clock", "_last", "_spent", "_started")

    def __init__(self, clock: Callable[[], int]) -> None:
        """`clock`: nanoseconds that only go forward; the request starts now."""
        self._clock, self._spent = clock, _NOTHING_SPENT.copy()
        self._started = self._last = clock()

    def note(self, stage: str) -> None:
        """Add the time since the last note to this stage."""
        now = self._clock()
        self._spent[stage] += (now - self._last) / 1000
        self._last = now

    def microseconds(self) -> dict[str, float]:
        """Microseconds per stage, and from the start to the last note as `total`."""
        self._spent["total"] = (self._last - self._started) / 1000
        return self._spent


class Request(NamedTuple):
    """A request on its way through the stages, with what it is placed on and with."""

    table: HostTable
    spec: RequestSpec
    uuids: Sequence[str | None]
    alternates: int
    randomness: Randomness
    times: StageTimes


class Placed(NamedTuple):
    """One instance that has its host."""

    row: int
    spec: RequestSpec
    """As the host took it in: releasing this gives the resources back."""
    ranked: Ranked
    alternates: Sequence[int]
    """Rows to try next."""


class HostSearch(Protocol):
    """The hosts that can take one request, instance after instance: `narrow`, then `rank`, for each of them."""

    @property
    def looked_at(self) -> int:
        """How many hosts there were to choose from."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The checks so far, each with the hosts before and after it."""

    def narrow(self, spec: RequestSpec, index: int) -> int:
        """Prefilter, capacity and filter for the instance of this number (from 0): how many hosts are left."""

    def rank(self, count: int) -> Order:
        """Weigh the hosts that are left: the `count` best, best first; the caller may change the list.

        Equal weights keep the order that the instance before left, at first that of the table.
        """

    def reorder(self, order: Order) -> None:
        """The best hosts are in this order from now on: chance has moved one to the front."""

    def scores(self, order: Order) -> RankedList:
        """These hosts, which `rank` gave, with their weights and scores."""

    def next_best(self) -> Iterator[int]:
        """Rows that could take the instance, best first: those that `rank` gave, then the others."""

    def explain(self) -> tuple[Step, ...]:
        """The steps with what the rejected hosts lacked, for a request that found no host."""

    def written_limits(self, row: int) -> dict[str, Any]:
        """Limits that a plugin in nova's shape wrote on a host during this request."""

    def candidate_of(self, row: int) -> AllocationCandidate | None:
        """The first allocation candidate that filters left on a row; None if the request has no candidates."""


class Engine(Protocol):
    """Makes the search for each request."""

    def search(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        times: StageTimes,
        hosts: Hosts | None = None,
    ) -> HostSearch:
        """The search for a request. `hosts`: those to choose from, in the order that breaks ties; None: all."""

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Bring the cache up to date for requests like this one, so that the next need not wait for it."""

    def forget(self) -> None:
        """Drop the cache: a request failed half-way through an update of it."""


def alternates_of_one(request: Request, search: HostSearch, order: Order) -> Sequence[int]:
    """Alternates for the only instance of a request, which goes to the first host of `order`."""
    if len(request.table.encoded["cell"].values) == 1:
        return [row for _, row in order[1 : request.alternates + 1]]
    row = order[0][1]
    return _next_of_cell(request, search, row, {row})


def with_alternates(request: Request, search: HostSearch, placed: Sequence[Placed]) -> list[Placed]:
    """The instances of a request with their alternates; `search` has ranked the hosts after the last one."""
    chosen = {each.row for each in placed}
    return [each._replace(alternates=_next_of_cell(request, search, each.row, chosen)) for each in placed]


def _next_of_cell(request: Request, search: HostSearch, row: int, chosen: set[int]) -> list[int]:
    """The next best rows of the same nova cell as this row, without the chosen ones."""
    cells = request.table.encoded["cell"].codes
    others = (each for each in search.next_best() if each not in chosen and cells[each] == cells[row])
    return list(islice(others, request.alternates))


@dataclass(frozen=True)
class Rules:
    """The enabled filters and weighers, and which checks come before them."""

    filters: tuple[Filter, ...]
    weighers: tuple[Weigher, ...]
    prefilters: PrefilterOptions = field(default_factory=PrefilterOptions)
    checks_capacity: bool = True
    reads_one_cell: bool = False
    """Whether a request bound to a nova cell sees no host of others: nova does not read them."""

    @lazy
    def are_built_in(self) -> bool:
        """Whether no filter and no weigher is a plugin."""
        return all(rule.is_built_in for rule in self.filters) and all(rule.is_built_in for rule in self.weighers)

    @lazy
    def limiting(self) -> list[Filter]:
        """The filters that set limits."""
        return [rule for rule in self.filters if rule.sets_limits]

    def checks(self, table: HostTable, spec: RequestSpec, index: int) -> list[Check]:
        """The checks for the instance of this number (from 0) in order: prefilter, capacity, filter.

        The prefilters are settled with the first instance, and forced hosts skip all filters.
        """
        found = [*prefilter_checks(table, spec, self.prefilters, self.reads_one_cell)] if index == 0 else []
        if self.checks_capacity:
            found += capacity_checks(spec)
        if not is_forced(spec):
            found += filter_checks(self.filters, spec, index)
        return found

    def limits(
        self, table: HostTable, search: HostSearch, rows: Sequence[int], spec: RequestSpec
    ) -> list[dict[str, Any]]:
        """Overcommit limits on each of these rows, by nova's names, which travel with the request to the host.

        A forced request, which skips all filters, has none.
        """
        filters = [rule for rule in self.limiting if rule.applies_to(spec)]
        if not filters and self.are_built_in:
            return [{} for _ in rows]
        written = [search.written_limits(row) for row in rows]
        if spec.is_rebuild:
            filters = [rule for rule in filters if applies_to_rebuild(rule)]
        if not filters or is_forced(spec):
            return written
        hosts = Hosts(table, np.array(rows, dtype=np.intp), {})
        ceilings = {name: values.tolist() for rule in filters for name, values in rule.ceilings(hosts, spec).items()}
        return [
            {name: values[at] for name, values in ceilings.items() if values[at] == values[at]} | own
            for at, own in enumerate(written)
        ]
