# SPDX-License-Identifier: Apache-2.0
"""The raw numbers that the weighers of a pipeline give to hosts, memoised until a host changes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.request import RequestSpec
from roost.scheduler.incremental.scales import Numbers, TrackedScale, finite
from roost.scheduler.search import Uncacheable
from roost.weighers.base import Weigher


class RawNumbers:
    """One scale per weigher that is on, and the raw numbers of rows on each of them."""

    def __init__(self, table: HostTable, weighers: Iterable[Weigher], spec: RequestSpec) -> None:
        self.table, self.spec = table, spec
        hosts = table.in_the_running()
        self.scales: list[TrackedScale] = []
        for weigher in weighers:
            multipliers = weigher.multipliers(hosts)
            if not np.isfinite(multipliers).all():
                raise Uncacheable(f"multipliers of {weigher.name} are not finite")
            if not weigher.is_off(multipliers):
                self.scales.append(TrackedScale(weigher, multipliers, table, spec))
        self.names = tuple(scale.weigher.name for scale in self.scales)
        self.looks_at_size = any(scale.weigher.looks_at_size and not scale.is_constant for scale in self.scales)
        self._varying = [(at, scale) for at, scale in enumerate(self.scales) if not scale.is_constant]
        are_same = all(isinstance(scale.multipliers, float) for scale in self.scales)
        self._multipliers = self._multipliers_of(0) if are_same else ()
        """One per scale, if they are the same for all hosts."""
        self._stale_after: dict[frozenset[str], list[tuple[int, TrackedScale]]] = {}
        """Changed columns -> the scales whose numbers depend on them."""
        self._numbers: dict[int, Numbers] = {}
        """Memoised raw numbers of hosts that passed."""
        self._columns: dict[int, FloatArray] = {}
        """Memoised raw numbers of all rows by scale, while one answer is computed."""

    def renew(self, spec: RequestSpec) -> None:
        """Rank for this request from now on: its group has other members."""
        self.spec = spec
        for scale in self.scales:
            if scale.weigher.looks_at_group:
                scale.renew(spec)

    def numbers_of(self, row: int) -> Numbers:
        """The raw numbers of a host that passed, one per scale."""
        known = self._numbers.get(row)
        if known is None:
            numbers = [0.0] * len(self.scales)
            for at, scale in self._varying:
                numbers[at] = scale.read(row)
            known = self._numbers[row] = tuple(numbers)
        return known

    def numbers_of_many(self, rows: RowArray) -> FloatArray:
        """The raw numbers of these rows, a line per scale."""
        hosts, numbers = Hosts(self.table, rows, {}), np.zeros((len(self.scales), len(rows)))
        for at, scale in self._varying:
            numbers[at] = finite(scale.weigher, scale.weigher.clamped(hosts, self.spec))
        return numbers

    def _column(self, at: int) -> FloatArray:
        """The raw numbers of all rows on one scale."""
        numbers = self._columns.get(at)
        if numbers is None:
            weigher = self.scales[at].weigher
            numbers = self._columns[at] = finite(weigher, weigher.clamped(self.table.in_the_running(), self.spec))
        return numbers

    def _stale(self, columns: frozenset[str]) -> list[tuple[int, TrackedScale]]:
        """The scales whose numbers depend on these columns."""
        stale = self._stale_after.get(columns)
        if stale is None:
            varying = ((at, scale, scale.weigher.reads) for at, scale in self._varying)
            stale = [(at, scale) for at, scale, reads in varying if not reads or reads & columns]
            if len(self._stale_after) > 256:
                self._stale_after.clear()
            self._stale_after[columns] = stale
        return stale

    def _multipliers_of(self, row: int) -> tuple[float, ...]:
        held = [scale.multipliers for scale in self.scales]
        return tuple([each if isinstance(each, float) else each.item(row) for each in held])
