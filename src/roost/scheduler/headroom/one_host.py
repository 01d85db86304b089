# SPDX-License-Identifier: Apache-2.0
"""How many instances fit on one host alone: placed there one after the other, and taken back."""

from __future__ import annotations

from collections.abc import Callable

from roost.errors import NoValidHost
from roost.model.request import RequestSpec
from roost.scheduler.headroom.trial import Placement, Trial, release_all, trial_uuid


class OneHostCount:
    """Counts on single hosts of one trial. Only for requests whose answer for a host depends on that host alone.

    Instances without NUMA cells or PCI devices are put to the checks of the pipeline row by row, as the incremental
    engine does; there is nothing to weigh. Counts are memoised by what is in use on the host.
    """

    def __init__(self, trial: Trial, spec: RequestSpec) -> None:
        self._trial, self._spec = trial, spec
        self._is_fitted = bool(spec.numa_topology or spec.pci_requests)
        self._columns = sorted(trial.table.columns_consumed(spec) & trial.table.numbers.keys())
        self._generation = -1
        self._askers: list[Callable[[int], bool]] = []
        self._is_memoised = False
        self._memo: dict[tuple[float, ...], int] = {}

    def count(self, row: int) -> int:
        """How many instances fit on this row now. The table is left as it is."""
        if self._is_fitted:
            return self._count(row, self._place)
        self._refresh()
        if not self._is_memoised:
            return self._count(row, self._place_checked)
        buffers = self._trial.table.buffers
        state = (row, *[buffers[name][row] for name in self._columns])
        known = self._memo.get(state)
        if known is None:
            known = self._memo[state] = self._count(row, self._place_checked)
        return known

    def _count(self, row: int, place: Callable[[int, str], Placement | None]) -> int:
        placements: list[Placement] = []
        while (placed := place(row, trial_uuid(len(placements)))) is not None:
            placements.append(placed)
        release_all(self._trial.table, placements)
        return len(placements)

    def _place(self, row: int, uuid: str) -> Placement | None:
        try:
            return self._trial.place(self._spec, uuid, self._trial.table.one(row))
        except NoValidHost:
            return None

    def _place_checked(self, row: int, uuid: str) -> Placement | None:
        for passes in self._askers:
            if not passes(row):
                return None
        table = self._trial.table
        return row, table.finish_build(row, table.consume(row, self._spec.for_instance(uuid)))

    def _refresh(self) -> None:
        """Make the checks anew where the columns that they refer to were replaced."""
        table = self._trial.table
        if self._generation == table.generation:
            return
        checks = self._trial.pipeline.rules.checks(table, self._spec.for_instance(trial_uuid(0)), index=0)
        asked = [check for check in checks if check.ask is not None]
        self._askers = [check.for_rows(table) for check in asked]
        self._is_memoised = not any(check.depends_on(frozenset({"instances"})) for check in asked)
        self._generation = table.generation
