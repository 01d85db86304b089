# SPDX-License-Identifier: Apache-2.0
"""The six stages of a placement: prefilter, capacity, filter, weigh, choose, claim. `Pipeline.place` is their loop.

Which hosts are left, and in which order, the loop asks a search (`search.py`): a full scan, or one that answers from
the cache of the incremental engine; the decision is the same. Pure: the table, the request, randomness and the clock
come in, a Decision comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from roost.errors import NoValidHost
from roost.filters.base import Filter
from roost.hosts import Hosts, HostTable
from roost.model.decision import Candidate, Decision, Ranked, RankedList, Selection, Step, build_unchecked
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidate
from roost.scheduler.full_scan import FullScan
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.prefilters import PrefilterOptions
from roost.scheduler.search import (
    BEST,
    Choice,
    Engine,
    HostSearch,
    Order,
    Placed,
    Randomness,
    Request,
    Rules,
    StageTimes,
    Uncacheable,
    alternates_of_one,
    with_alternates,
)
from roost.weighers.base import Weigher

SHOWN_BEST = 5
"""How many hosts a decision shows with their scores."""
NO_RANKED = RankedList(())

MakeEngine = Callable[[Rules, Choice], Engine]
"""An engine class, or a function that makes one."""


class Pipeline:
    """The enabled filters and weighers, how one of the best hosts is picked, and the engine that finds them."""

    def __init__(
        self,
        filters: Sequence[Filter],
        weighers: Sequence[Weigher],
        choice: Choice | None = None,
        checks_capacity: bool = True,
        prefilters: PrefilterOptions | None = None,
        reads_one_cell: bool = False,
        engine: MakeEngine = IncrementalEngine,
    ) -> None:
        """See `Rules` for the arguments that it holds."""
        options = prefilters or PrefilterOptions()
        self.rules = Rules(tuple(filters), tuple(weighers), options, checks_capacity, reads_one_cell)
        self.choice = choice or BEST
        self._make_engine = engine
        self.engine = engine(self.rules, self.choice)
        self._picks_best = self.choice == BEST
        self.weigher_names = tuple(weigher.name for weigher in weighers)
        self.plugin_names = frozenset(rule.name for rule in filters) | frozenset(self.weigher_names)

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
        hosts: Hosts | None = None,
    ) -> Decision:
        """Choose a host for each instance and consume it there; NoValidHost, and no change, if one has none.

        `clock`: nanoseconds. `hosts`: those to choose from, in the order that breaks ties; None: all of the table.
        """
        request = Request(table, spec, uuids, alternates, randomness, StageTimes(clock))
        search: HostSearch | None = None
        try:
            search = self.engine.search(table, spec, uuids, request.times, hosts)
            return self._place_all(request, search)
        except NoValidHost:
            raise
        except Uncacheable:
            self.engine.forget()
            return self._place_all(request, FullScan(self.rules, table, request.times, hosts))
        except BaseException:  # half-way through an update of the cache; a full scan does not touch it
            if not isinstance(search, FullScan):
                self.engine.forget()
            raise

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Bring the engine's cache up to date for requests like this one."""
        self.engine.warm(table, spec)

    def fresh(self, engine: MakeEngine | None = None) -> Pipeline:
        """A pipeline of the same rules with nothing cached, or with another engine."""
        twin = copy(self)
        twin._make_engine = engine or self._make_engine
        twin.engine = twin._make_engine(self.rules, self.choice)
        return twin

    def _place_all(self, request: Request, search: HostSearch) -> Decision:
        """The loop over the instances: each starts from the hosts that the one before it left."""
        table, spec, times = request.table, request.spec, request.times
        placed: list[Placed] = []
        best = NO_RANKED
        try:
            for index, uuid in enumerate(request.uuids):
                if uuid != spec.instance_uuid:
                    spec = spec.for_instance(uuid)
                left = search.narrow(spec, index)  # prefilter, capacity, filter
                if not left:
                    raise NoValidHost(self._failure(request, search, best, index))
                order = self._choose(request, search, left, index)  # weigh, choose
                scores = search.scores(order[:SHOWN_BEST] if index == 0 else order[:1])
                times.note("weigh")
                best, ranked, (_, row) = scores if index == 0 else best, scores.first, order[0]
                has_own = request.alternates and len(request.uuids) == 1
                others = alternates_of_one(request, search, order) if has_own else ()
                limits = self.rules.limits(table, search, [row], spec)[0] if spec.numa_topology else {}
                if (candidate := search.candidate_of(row)) is not None:
                    spec = spec.with_candidate(candidate)
                spec = table.consume(row, spec, limits.get("numa_topology"))  # claim
                placed.append(Placed(row, spec, ranked, others))
                if spec.instance_group is not None and len(request.uuids) > 1:
                    spec = spec.with_group_host(ranked.host)
            steps = search.steps
            if request.alternates and len(placed) > 1:  # what the last instance took may have changed who is left
                left = search.narrow(spec, len(placed) - 1)
                if left:
                    self._choose(request, search, left, len(placed) - 1)
                placed = with_alternates(request, search, placed)
            selections = tuple([self._select(table, search, each) for each in placed])
            times.note("choose")
            return make_decision(
                search.looked_at, len(placed), steps, selections, times.microseconds(), self.weigher_names, best
            )
        except BaseException:
            for each in reversed(placed):
                table.release(each.row, each.spec)
            raise

    def _failure(self, request: Request, search: HostSearch, best: RankedList, failed_at: int) -> Decision:
        """The record of a request for which no host was left at the instance of this number."""
        wanted, steps, times_us = len(request.uuids), search.explain(), request.times.microseconds()
        return make_decision(
            search.looked_at, wanted, steps, (), times_us, self.weigher_names, best, failed_at=failed_at
        )

    def _choose(self, request: Request, search: HostSearch, left: int, index: int) -> Order:
        """The best hosts, the chosen one first: the best of all, or by chance one of the best."""
        depth = SHOWN_BEST if index == 0 else 1
        if len(request.uuids) == 1 and request.alternates >= depth:
            depth = request.alternates + 1
        if self._picks_best:
            return search.rank(depth)
        choice = self.choice
        order = search.rank(left if choice.shuffles_best else max(depth, choice.host_subset_size))
        if choice.shuffles_best:
            tied = [entry for entry in order if entry[0] == order[0][0]]
            request.randomness.shuffle(tied)
            order[: len(tied)] = tied
        if choice.host_subset_size > 1:
            order.insert(0, order.pop(request.randomness.randrange(min(choice.host_subset_size, left))))
        search.reorder(order)
        return order

    def _select(self, table: HostTable, search: HostSearch, placed: Placed) -> Selection:
        """The host of one instance and its alternates, each with the limits that travel there."""
        row, spec, ranked, alternates = placed
        limits = self.rules.limits(table, search, [row, *alternates], spec)
        taken = [spec.candidate, *map(search.candidate_of, alternates)] if spec.candidate else ()
        return make_selection(
            table, row, spec.instance_uuid, limits, alternates, ranked=ranked, placed=spec, allocations=taken
        )


def make_selection(
    table: HostTable,
    row: int,
    uuid: str | None,
    limits: Sequence[Mapping[str, Any]] = (),
    alternates: Sequence[int] = (),
    *,
    ranked: Ranked | None = None,
    placed: RequestSpec | None = None,
    allocations: Sequence[AllocationCandidate | None] = (),
) -> Selection:
    """The host of one instance and the rows to try next.

    `limits` and, for requests with candidates, `allocations`: of the host, then of each alternate.
    """
    names = table.names
    others = [
        build_unchecked(Candidate, {"host": names[each][0], "node": names[each][1], "limits": limit, "row": each})
        for each, limit in zip(alternates, limits[1:], strict=True)
    ]
    if allocations:
        others = [replace(each, allocation=own) for each, own in zip(others, allocations[1:], strict=True)]
    return build_unchecked(
        Selection,
        {
            "host": names[row][0],
            "node": names[row][1],
            "limits": limits[0] if limits else {},
            "instance_uuid": uuid,
            "ranked": ranked,
            "alternates": tuple(others),
            "placed": placed,
            "row": row,
            "allocation": allocations[0] if allocations else None,
        },
    )


def make_decision(
    hosts: int,
    wanted: int,
    steps: tuple[Step, ...],
    selections: tuple[Selection, ...],
    time_us: Mapping[str, float],
    weighers: tuple[str, ...] = (),
    best: Sequence[Ranked] = (),
    *,
    failed_at: int | None = None,
) -> Decision:
    """The record of a request, however its hosts were found. `wanted`: how many instances it asked for."""
    return build_unchecked(
        Decision,
        {
            "hosts": hosts,
            "wanted": wanted,
            "steps": steps,
            "weighers": weighers,
            "best": best,
            "selections": selections,
            "time_us": time_us,
            "failed_at": failed_at,
        },
    )
