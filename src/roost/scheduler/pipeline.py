# SPDX-License-Identifier: Apache-2.0
"""One request from all hosts to the chosen ones: prefilter, capacity, filter, weigh, choose, consume.

Pure: the table, the request, randomness and the clock come in, a Decision comes out. What was worked out for a
request is kept for others like it (`classes.py`) and makes no difference but in time; requests that allow no keeping
go the plain way (`placing.py`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from roost.errors import NoValidHost, RoostError
from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable
from roost.model.decision import Decision
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, capacity_checks, cell_checks, filter_checks, is_forced, prefilter_checks
from roost.scheduler.incremental.request_classes import (
    RequestClass,
    RequestClassCache,
    RequestOverlay,
    Rules,
    distinguisher,
    is_cacheable,
    shared_part,
)
from roost.scheduler.incremental.survivors import Uncacheable
from roost.scheduler.kept_placing import KeptPlacing
from roost.scheduler.placing import Given, PlainPlacing
from roost.scheduler.prefilters import PrefilterOptions, request_checks
from roost.scheduler.single import place_single
from roost.scheduler.weighing import Choice, Randomness
from roost.weighers.base import Weigher


class Pipeline:
    """The enabled filters and weighers, and how one of the best is picked."""

    def __init__(
        self,
        filters: Sequence[Filter],
        weighers: Sequence[Weigher],
        choice: Choice | None = None,
        checks_capacity: bool = True,
        prefilters: PrefilterOptions | None = None,
        reads_one_cell: bool = False,
    ) -> None:
        """`reads_one_cell`: hosts are left out here that nova would not have read, see `cell_checks`."""
        self.filters = tuple(filters)
        self.weighers = tuple(weighers)
        self.weigher_names = tuple(weigher.name for weigher in weighers)
        self.plugin_names = frozenset(rule.name for rule in filters) | frozenset(self.weigher_names)
        self.choice = choice or Choice()
        self.checks_capacity = checks_capacity
        self.prefilters = prefilters or PrefilterOptions()
        self.reads_one_cell = reads_one_cell
        self._limiting = [rule for rule in self.filters if type(rule).ceilings is not Filter.ceilings]
        self.keeps_classes = is_cacheable(self.filters, self.weighers) and not self.choice.shuffles_best
        """Whether answers are kept from one request to the next. Setting it to False changes nothing but the time."""
        by_project = self.prefilters.limit_tenants_to_placement_aggregate
        distinguish = distinguisher(self.filters, by_project)
        self._rules = Rules(self._first_checks, self.weighers, self._has_limits, distinguish)
        self._classes: RequestClassCache | None = None
        self._table: Callable[[], HostTable | None] = lambda: None

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

        `hosts`: those to choose from, in the order that settles ties; all of the table by default.
        """
        given = Given(self, table, spec, randomness, clock, clock())
        kept = self._class_of(table, spec, uuids) if hosts is None and self.keeps_classes else None
        if kept is None:
            return PlainPlacing(given, hosts).run(uuids, alternates)
        try:
            if len(uuids) == 1 or isinstance(kept, RequestOverlay):
                return place_single(given, kept, uuids[0], alternates)
            return KeptPlacing(given, kept).run(uuids, alternates)
        except NoValidHost:
            raise
        except Uncacheable:
            self._classes = None
            return PlainPlacing(given, hosts).run(uuids, alternates)
        except BaseException:  # somewhere half-way: what is kept may not be trusted
            self._classes = None
            raise

    def get_ready(self, table: HostTable, spec: RequestSpec) -> None:
        """Take in what changed, where something is kept for requests like this one: the next finds it done."""
        if self._classes is None or self._table() is not table or spec.instance_group is not None:
            return  # a group has other members when it is asked for again
        common = _common_part(spec)
        if common is None:
            return
        try:
            self._classes.catch_up(common)
        except (RoostError, Uncacheable):
            self._classes.forget(common)
        except BaseException:  # somewhere half-way: what is kept may not be trusted
            self._classes = None
            raise

    def twin(self) -> Pipeline:
        """The same rules, and nothing kept."""
        return Pipeline(
            self.filters, self.weighers, self.choice, self.checks_capacity, self.prefilters, self.reads_one_cell
        )

    def checks(self, table: HostTable, spec: RequestSpec, index: int) -> list[Check]:
        """The questions for the instance of this number. The prefilters are settled with the first."""
        return list(self._checks(table, spec, index))

    def _first_checks(self, table: HostTable, spec: RequestSpec) -> list[Check]:
        return self.checks(table, spec, index=0)

    def _checks(self, table: HostTable, spec: RequestSpec, index: int) -> Iterator[Check]:
        if index == 0:
            if self.reads_one_cell:
                yield from cell_checks(spec)
            yield from prefilter_checks(spec)
            yield from request_checks(spec, table.known_aggregates, self.prefilters)
        if self.checks_capacity:
            yield from capacity_checks(spec)
        yield from filter_checks(self.filters, spec, index)

    def _class_of(
        self, table: HostTable, spec: RequestSpec, uuids: Sequence[str | None]
    ) -> RequestClass | RequestOverlay | None:
        """What is known for requests like this one; None where it has to go the plain way."""
        common, group = _common_part(spec), spec.instance_group
        if common is None:
            return None
        if group is not None and any(table.rows_of_instance(uuid) for uuid in uuids if uuid):
            return None  # it may stay where it is, whatever the group says: that is no one else's answer
        if len(uuids) > 1 and (self.choice != Choice() or common is not spec):
            return None
        try:
            kept = self._classes_on(table).find(common, only_if_met=len(uuids) == 1)
            if kept is None:
                return None
            if common is not spec:
                return RequestOverlay(kept, self.checks(table, spec, index=0))
            return kept if len(uuids) == 1 or kept.can_follow(spec) else None
        except (RoostError, Uncacheable):
            self._classes_on(table).forget(common)
            return None  # the plain way says what is wrong

    def _classes_on(self, table: HostTable) -> RequestClassCache:
        if self._classes is None or self._table() is not table:
            self._table = weakref.ref(table)
            self._classes = RequestClassCache(table, self._rules)
        return self._classes

    def _has_limits(self, spec: RequestSpec) -> bool:
        return bool(self._limiting_for(spec))

    def _limiting_for(self, spec: RequestSpec) -> list[Filter]:
        """The filters that set ceilings for this request."""
        asked = [rule for rule in self._limiting if rule.applies_to(spec)]
        return [rule for rule in asked if applies_to_rebuild(rule)] if spec.is_rebuild else asked

    def numa_limits(self, hosts: Hosts, row: int, spec: RequestSpec) -> Any:
        """The overcommit to which the guest's NUMA cells are fitted; none where no filter sets one."""
        return self.limits(hosts, [row], spec)[0].get("numa_topology") if spec.numa_topology else None

    def limits(self, hosts: Hosts, rows: Sequence[int], spec: RequestSpec) -> list[dict[str, Any]]:
        """The ceilings that the filters set on these hosts, for whoever builds the instance there."""
        if is_forced(spec):
            return [{} for _ in rows]
        asked = self._limiting_for(spec)
        if not asked:
            return [hosts.written_limits(row) for row in rows]
        those = Hosts(hosts.table, np.array(rows, dtype=np.intp), {})
        ceilings = {name: values.tolist() for rule in asked for name, values in rule.ceilings(those, spec).items()}
        return [
            {name: values[at] for name, values in ceilings.items() if values[at] == values[at]}
            | hosts.written_limits(row)
            for at, row in enumerate(rows)
        ]


def _common_part(spec: RequestSpec) -> RequestSpec | None:
    """What the request has in common with others; None where nothing is kept for it."""
    if spec.numa_topology or spec.pci_requests or (spec.scheduler_hints and spec.is_rebuild):
        return None
    if spec.force_hosts or spec.force_nodes or spec.requested_destination:
        return None  # few hosts are looked at: there is nothing to save
    return shared_part(spec)
