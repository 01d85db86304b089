# SPDX-License-Identifier: Apache-2.0
"""Everything a pipeline asks of hosts, and ranks them by."""

from __future__ import annotations

from dataclasses import dataclass, field

from roost.filters.base import Filter
from roost.hosts import HostTable
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, capacity_checks, filter_checks, is_forced
from roost.scheduler.prefilters import PrefilterOptions, prefilter_checks
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
