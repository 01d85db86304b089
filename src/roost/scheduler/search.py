# SPDX-License-Identifier: Apache-2.0
"""What the pipeline asks of an engine: which hosts are left for a request, and in which order.

Two engines answer: `full_scan.py` asks and weighs every host each time, `incremental/` caches answers between
requests. Their answers are equal to the bit, so one can be exchanged for, and compared with, the other in one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from roost.hosts import Hosts, HostTable
from roost.model.decision import Ranked, RankedList, Step
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidate
from roost.scheduler.choice import Randomness

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
