# SPDX-License-Identifier: Apache-2.0
"""The engine that answers from a cache per class of request, and knows which requests have none."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from roost.errors import RoostError
from roost.hosts import Hosts, HostTable
from roost.model.request import RequestSpec
from roost.scheduler.choice import BEST, Choice
from roost.scheduler.full_scan import FullScan
from roost.scheduler.incremental.cached_search import CachedSearch, TieBreakingSearch
from roost.scheduler.incremental.overlay import RequestOverlay, shared_part
from roost.scheduler.incremental.request_cache import RequestCache, is_cacheable
from roost.scheduler.incremental.request_class import RequestClass
from roost.scheduler.rules import Rules
from roost.scheduler.search import StageTimes, Uncacheable


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
