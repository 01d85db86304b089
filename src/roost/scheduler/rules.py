# SPDX-License-Identifier: Apache-2.0
"""Everything a pipeline asks of hosts, and ranks them by; and the limits that its filters set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable
from roost.model.lazy import lazy
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, capacity_checks, filter_checks, is_forced
from roost.scheduler.prefilters import PrefilterOptions, prefilter_checks
from roost.scheduler.search import HostSearch
from roost.weighers.base import Weigher


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
