# SPDX-License-Identifier: Apache-2.0
"""The engine that answers from a cache per class of request, and knows which requests cannot be cached.

A pipeline has one `RequestCache` on its table: request families by what they ask for, with an LRU bound. A request
with checks of its own - hosts to ignore, or on which a build failed before - shares the cache of its class, with a
`RequestOverlay` on top. `CachedSearch` answers for one instance, `TieBreakingSearch` for several.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from roost.errors import RoostError
from roost.filters.base import Filter
from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import RowArray
from roost.model.decision import RankedList, Step
from roost.model.group import ServerGroup
from roost.model.request import NO_PARAMS, RequestSpec
from roost.scheduler.checks import Check, with_details
from roost.scheduler.full_scan import FullScan
from roost.scheduler.incremental.order import Round, RowNumbers, TieBreaks
from roost.scheduler.incremental.request_class import RequestClass, RequestFamily, drop_oldest
from roost.scheduler.incremental.survivors import PASSED, SurvivorsOfOneRequest
from roost.scheduler.search import BEST, Choice, Order, Rules, StageTimes, Uncacheable

BOUND_TO_HOSTS = ("affinity", "legacy")
"""Group policies by which the host of one member decides about all hosts for the next."""
_OWN_HINTS = ("same_host", "different_host")
_FEW_LEFT = 64
"""Up to so many survivors, weighing all of them is faster than asking the ranking of the class."""


class RequestOverlay:
    """The cached answers of a class, with one request's own checks on top."""

    def __init__(self, shared: RequestClass, checks: Sequence[Check]) -> None:
        """`checks`: all checks of the request, those that it shares with the class included."""
        self._shared = shared
        self.survivors = SurvivorsOfOneRequest(shared.survivors, checks)
        self.ranking = shared.ranking

    def best(self, count: int) -> Order:
        """The `count` best hosts, best first; of equal ones the first rows."""
        found = None
        if self.survivors.left > _FEW_LEFT:
            found = self.ranking.best(count, self.survivors)
        return self.ranking.best_of_all(count, self.survivors) if found is None else found

    def refusal(self) -> tuple[Step, ...]:
        """The steps with what the rejected hosts lacked, where no host passed."""
        return tuple(with_details(self.survivors.steps, self.survivors.fallen(), self._shared.family.table))


def shared_part(spec: RequestSpec) -> RequestSpec:
    """The request without its own checks: hosts it failed on, ignores, or is bound to. Itself if it has none."""
    if spec.retry is None and not (spec.ignore_hosts or spec.scheduler_hints or spec.instance_group):
        return spec
    changed: dict[str, Any] = {}
    if spec.retry is not None or spec.ignore_hosts:
        changed = {"retry": None, "ignore_hosts": None}
    if spec.instance_group is not None and spec.instance_group.policy in BOUND_TO_HOSTS:
        changed["instance_group"] = None
    if any(hint in spec.scheduler_hints for hint in _OWN_HINTS):
        hints = spec.scheduler_hints.items()
        changed["scheduler_hints"] = MappingProxyType({key: value for key, value in hints if key not in _OWN_HINTS})
    return spec.changed(**changed) if changed else spec


class CachedSearch:
    """A request for one instance, answered from a class of requests that is up to date."""

    def __init__(self, cached: RequestClass | RequestOverlay, table: HostTable, times: StageTimes) -> None:
        self._cached, self._table, self._times = cached, table, times
        self.looked_at = len(table.names)
        self.steps = cached.survivors.steps

    def narrow(self, spec: RequestSpec, index: int) -> int:
        """How many hosts are left: the class knows."""
        self._times.note("filter")
        return self._cached.survivors.left

    def rank(self, count: int) -> Order:
        """The `count` best hosts, best first; of equal ones the first rows."""
        self._order: Order = self._cached.best(count)
        return self._order

    def reorder(self, order: Order) -> None:
        """The best hosts are in this order from now on."""
        self._order = order

    def scores(self, order: Order) -> RankedList:
        """These hosts with their weights and scores; a host that is the only one left is not weighed."""
        if self._cached.survivors.left == 1:
            return RankedList([(self._table.names[row], 0.0, ((), (), (), ())) for _, row in order])
        return RankedList(self._cached.ranking.noted_of(order))

    def next_best(self) -> Iterator[int]:
        """Rows that are left, best first; more are looked for only if those that were ranked do not suffice."""
        rows = [row for _, row in self._order]
        yield from rows
        known, left = set(rows), self._cached.survivors.left
        while len(known) < left:
            for _, row in self._cached.best(min(left, 4 * len(known))):
                if row not in known:
                    known.add(row)
                    yield row

    def explain(self) -> tuple[Step, ...]:
        """The steps with what the rejected hosts lacked."""
        return self._cached.refusal()

    def written_limits(self, row: int) -> dict[str, Any]:
        """Empty: requests with plugins in nova's shape, which write limits on hosts, get a full scan."""
        return {}

    def candidate_of(self, row: int) -> None:
        """None: requests with allocation candidates get a full scan."""


class TieBreakingSearch(CachedSearch):
    """A request for several instances: only what the instance before changed is looked at for the next.

    Hosts of equal weight are in the order that the instance before left, see `TieBreaks` in `order.py`.
    """

    _cached: RequestClass

    def __init__(self, rules: Rules, cached: RequestClass, table: HostTable, times: StageTimes) -> None:
        super().__init__(cached, table, times)
        self._rules = rules
        self._tie_breaks = TieBreaks(cached)
        self._index = 0
        self._round: Round | None = None
        """What the latest instance was weighed by, and the host it goes to."""
        self._last_row = -1
        """The host of the instance before."""
        self._others: list[int] = []
        self._ties_left: Iterator[list[RowNumbers]] | None = None
        """Where `next_best` goes on after the rows in `_others`."""

    def narrow(self, spec: RequestSpec, index: int) -> int:
        """Bring the class up to date after the instance before: how many hosts are left."""
        self._spec, self._index, self._ties_left = spec, index, None
        if self._round is None:
            return super().narrow(spec, index)
        self._last_row = self._round.row
        self._tie_breaks.note(self._round)
        self._cached.follow(spec)
        survivors = self._cached.survivors
        code = survivors.codes[self._last_row]  # no other host can have been rejected
        if code != PASSED:
            lost, left = survivors.checks[code], survivors.left
            self.steps = (*self.steps, Step(lost.stage, lost.name, left + 1, left))
        self._times.note("filter")
        return survivors.left

    def rank(self, count: int) -> Order:
        """The `count` best hosts of the first instance; of further ones the best alone, its ties broken."""
        order = self._cached.best(count) if self._index == 0 else [self._best_after_ties()]
        row, ranking = order[0][1], self._cached.ranking
        self._round = Round(ranking.terms, row, ranking.numbers_of(row))
        return order

    def _best_after_ties(self) -> tuple[float, int]:
        (key, row), *others = self._cached.best(2)
        if others and others[0][0] == key:
            ties = self._tie_breaks
            row = ties.first(self._cached.ranking.tied(key, self._cached.survivors, ties.changed, ties.order))
        return key, row

    def next_best(self) -> Iterator[int]:
        """Rows that could take another instance and took none, best first; put in order only as far as asked for."""
        if self._ties_left is None:
            self._others, self._ties_left = [], self._cached.ranking.in_order(self._rows_left())
        yield from self._others
        for tied in self._ties_left:
            start = len(self._others)
            self._others += self._tie_breaks.in_order(tied)
            yield from self._others[start:]

    def _rows_left(self) -> RowArray:
        """Rows that are left; an anti-affinity group lets its last member stay where it is."""
        rows, group = self._cached.survivors.passed(), self._spec.instance_group
        if group is None or group.policy != "anti-affinity":
            return rows
        last = self._last_row
        if self._cached.survivors.codes[last] != PASSED:
            checks = self._rules.checks(self._table, self._spec, self._index)
            if all(check.for_rows(self._table)(last) for check in checks):
                return np.sort(np.append(rows, last))
        return rows

    def explain(self) -> tuple[Step, ...]:
        """The steps with what the hosts lacked that each of them rejected, for whichever instance."""
        if self._index == 0:
            return super().explain()
        return tuple(with_details(self.steps, self._cached.survivors.fallen(), self._table))


MOST_FAMILIES = 32
MOST_SEEN = 1024
"""Families that were seen but not cached."""
MOST_BYTES = 96 << 20
"""For the codes of all families and classes together."""

Distinguish = Callable[[RequestSpec], Hashable]


class RequestCache:
    """Request families by key; one that was not used for long is dropped."""

    def __init__(self, table: HostTable, rules: Rules) -> None:
        self._table, self._rules = table, rules
        self._distinguish = make_distinguish(rules.filters, rules.prefilters.limit_tenants_to_placement_aggregate)
        self._families: OrderedDict[Hashable, RequestFamily] = OrderedDict()
        self._seen: OrderedDict[Hashable, int] = OrderedDict()
        """Family -> how many of its requests got a full scan."""

    def find(self, spec: RequestSpec, scans_before_caching: int = 0) -> RequestClass | None:
        """The class of this request, up to date; None for the first requests of a family, which get a full scan."""
        key = self._key_of(spec)
        family = self._families.get(key)
        if family is None:
            if self._is_to_be_scanned(key, scans_before_caching):
                return None
            family = self._families[key] = RequestFamily(self._table, spec, self._rules)
            drop_oldest(self._families, MOST_FAMILIES)
        else:
            self._families.move_to_end(key)
        before = len(family.classes)
        found = family.find(spec)
        if len(family.classes) > before:
            self._bound_memory()
        return found

    def _is_to_be_scanned(self, key: Hashable, scans_before_caching: int) -> bool:
        scans = self._seen.get(key, 0)
        if scans >= scans_before_caching:
            return False
        self._seen[key] = scans + 1
        drop_oldest(self._seen, MOST_SEEN)
        return True

    def catch_up(self, spec: RequestSpec) -> None:
        """Bring the class of this request up to date, if it is cached."""
        family = self._families.get(self._key_of(spec))
        if family is not None:
            family.catch_up(spec)
            known = family.class_of(spec)
            if known is not None:
                known.catch_up(spec)

    def _bound_memory(self) -> None:
        """A class takes a byte per host, a family two."""
        most = max(8, MOST_BYTES // max(1, len(self._table.names)))
        while len(self._families) > 1 and sum(2 + len(each.classes) for each in self._families.values()) > most:
            self._families.popitem(last=False)

    def forget(self, spec: RequestSpec) -> None:
        """Drop the family of this request: an update of it failed half-way."""
        self._families.pop(self._key_of(spec), None)

    def _key_of(self, spec: RequestSpec) -> Hashable:
        """All that an answer can depend on, except size, uuid and the members of the group, which are tracked."""
        extra_specs, image, group = spec.flavor.extra_specs, spec.image, spec.instance_group
        return (
            tuple(extra_specs.items()) if extra_specs else None,
            None if image is None else (image.properties, image.disk_format, spec.is_bfv),
            spec.availability_zone,
            tuple(spec.scheduler_hints.items()) if spec.scheduler_hints else None,
            None if group is None else _key_of_group(group),
            (spec.ignore_hosts, spec.force_hosts, spec.force_nodes, spec.requested_destination),
            spec.additional_needs if spec.requested_resources or spec.request_level_params is not NO_PARAMS else None,
            None if spec.retry is None else spec.retry.hosts,
            self._distinguish(spec) if self._distinguish else None,
        )


def _key_of_group(group: ServerGroup) -> Hashable:
    """Affinity goes by the group's hosts; all other policies by its members, which are tracked."""
    hosts = group.hosts if group.policy in BOUND_TO_HOSTS else ()
    return group.uuid, group.name, group.policy, group.max_server_per_host, hosts


def is_cacheable(rules: Rules) -> bool:
    """Whether all answers follow from the columns that the rules declare; those of a plugin may not."""
    return rules.are_built_in and not any(weigher.may_fail() for weigher in rules.weighers)


def make_distinguish(filters: Sequence[Filter], by_project: bool) -> Distinguish | None:
    """A function that gives what these filters look at in a request besides what always distinguishes requests.

    None if that is nothing.
    """
    asked = [each.distinguishes for each in filters if type(each).distinguishes is not Filter.distinguishes]
    if by_project:
        asked.append(lambda spec: spec.project_id)
    return (lambda spec: tuple([ask(spec) for ask in asked])) if asked else None


class IncrementalEngine:
    """Caches who passes and who is best, and patches only the rows that changed since.

    A request that has no cache - the first of its kind, NUMA cells, PCI devices, few hosts to look at - gets a full
    scan, and so does every request where a rule is not Roost's own.
    """

    def __init__(self, rules: Rules, choice: Choice, scans_before_caching: int = 1) -> None:
        """`scans_before_caching`: how many requests of a kind, for one instance, get a full scan before it is cached.

        Most kinds are seen once; what is cached for them would cost more than their answer.
        """
        self._rules, self._choice = rules, choice
        self._scans_before_caching = scans_before_caching
        self.is_enabled = is_cacheable(rules) and not choice.shuffles_best
        self._cache: RequestCache | None = None
        self._table: Callable[[], HostTable | None] = lambda: None

    def search(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        times: StageTimes,
        hosts: Hosts | None = None,
    ) -> CachedSearch | FullScan:
        """The cached answers for this request, brought up to date; a full scan where there are none."""
        found = self._find(table, spec, uuids) if hosts is None and self.is_enabled else None
        if found is None:
            return FullScan(self._rules, table, times, hosts)
        if len(uuids) > 1 and isinstance(found, RequestClass):
            return TieBreakingSearch(self._rules, found, table, times)
        return CachedSearch(found, table, times)

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Bring the cache for requests like this one up to date, if there is one: the next need not wait for it."""
        if self._cache is None or self._table() is not table or spec.instance_group is not None:
            return  # the next request of a group finds other members in it
        shared = _cached_part(spec)
        if shared is None:
            return
        try:
            self._cache.catch_up(shared)
        except (RoostError, Uncacheable):
            self._cache.forget(shared)
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Drop the cache."""
        self._cache = None

    def _find(
        self, table: HostTable, spec: RequestSpec, uuids: Sequence[str | None]
    ) -> RequestClass | RequestOverlay | None:
        """The cached answers for requests like this one; None where it needs a full scan."""
        shared, group = _cached_part(spec), spec.instance_group
        if shared is None:
            return None
        if group is not None and any(table.rows_of_instance(uuid) for uuid in uuids if uuid):
            return None  # a member may stay where it runs, whatever the policy says: that answer is for it alone
        is_for_one = len(uuids) == 1
        if not is_for_one and not (self._choice == BEST and shared is spec):
            return None
        cache = self._cache
        if cache is None or self._table() is not table:
            self._table = weakref.ref(table)
            cache = self._cache = RequestCache(table, self._rules)
        try:
            found = cache.find(shared, self._scans_before_caching if is_for_one else 0)
            if found is None:
                return None
            if shared is not spec:
                return RequestOverlay(found, self._rules.checks(table, spec, index=0))
            return found if is_for_one or found.can_follow(spec) else None
        except (RoostError, Uncacheable):  # the full scan will say what is wrong
            cache.forget(shared)
            return None


def _cached_part(spec: RequestSpec) -> RequestSpec | None:
    """The part of a request that others share, for which answers are cached; None where there is no cache for it."""
    if spec.candidates is not None:
        return None  # what placement offers is for this request alone
    if spec.numa_topology or spec.pci_requests or (spec.scheduler_hints and spec.is_rebuild):
        return None
    if spec.force_hosts or spec.force_nodes or spec.requested_destination:
        return None  # few hosts are looked at: there is nothing to save
    return shared_part(spec)
