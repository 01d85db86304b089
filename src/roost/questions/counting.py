# SPDX-License-Identifier: Apache-2.0
"""Counts how many more instances of a request fit: places them until no host is left, and sees what stopped it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import BoolArray, FloatArray, RowArray
from roost.model.group import ServerGroup
from roost.model.request import RequestSpec
from roost.questions.division import fill_by_division
from roost.questions.headroom import (
    AVAILABILITY_ZONE,
    MOST_PLACED,
    Filled,
    Progress,
    Trial,
    Trials,
    rows_by_value,
    trial_uuid,
)
from roost.questions.host_loss import LossSearch, Prepare
from roost.questions.records import GroupHeadroom, Headroom, HostHeadroom, Shortage
from roost.scheduler.checks import Check, narrow

_PASSED = -1
"""Stands for the number of the check that rejects a host, where none does."""


def count_headroom(
    trials: Trials,
    spec: RequestSpec,
    *,
    by: str = AVAILABILITY_ZONE,
    most: int = MOST_PLACED,
    loses_a_host: bool = False,
    group_of: Mapping[str, ServerGroup],
    prepare: Prepare,
    progress: Progress,
) -> Headroom:
    """How many more instances of the request fit, as many as if one were placed after the other, and what runs out.

    `by`: metadata key of aggregates by which hosts are grouped. `loses_a_host`: also find the host whose loss costs
    most, which needs `group_of` (instance uuid -> its server group) and `prepare` (completes a request).
    """
    trial = trials()
    table, rows_of = trial.table, rows_by_value(trial.table, by, trial.pipeline.rules.filters)
    checks, rejected_before = _first_rejections(trial, spec)
    filled = fill_by_division(trial, spec, checks, np.flatnonzero(rejected_before == _PASSED), most)
    if filled is None:
        about = _estimate(table, spec, most)
        filled = trial.fill(spec, most, lambda done: progress("instances", done, max(about, done)))
    else:
        progress("instances", 0, filled.counts.total())
    checks, rejected = _first_rejections(trial, spec)
    shortages = _Shortages(table, checks, rejected, (rejected != rejected_before) & (rejected_before == _PASSED))
    headroom = Headroom(
        fits=filled.counts.total(),
        is_complete=filled.is_full,
        hosts=len(table.names),
        hosts_used=len(filled.counts),
        shortages=shortages.among(np.arange(len(table.names)), has_details=True),
        by=by,
        groups=tuple(_group(name, rows, filled, shortages) for name, rows in rows_of.items()),
        placed=tuple(HostHeadroom(*table.names[row], filled.counts[row]) for row in sorted(filled.counts)),
    )
    if not loses_a_host or not filled.is_full:
        return headroom
    search = LossSearch(trials, spec, filled, group_of, prepare, progress)
    return replace(headroom, worst_loss=search.find_worst())


@dataclass(frozen=True)
class _Shortages:
    """Which check rejects which host in the end."""

    table: HostTable
    checks: Sequence[Check]
    rejected: RowArray
    """Row -> number of the first check that rejects it; _PASSED if none does."""
    ran_out: BoolArray
    """Rows that passed all checks at the start, and do not in the end."""

    def among(self, rows: RowArray, has_details: bool = False) -> tuple[Shortage, ...]:
        """The checks that reject these rows, first what runs out on most of them."""
        found = []
        for number, check in enumerate(self.checks):
            lost = rows[self.rejected[rows] == number]
            ran_out_on = self._ran_out_on(check, rows[self.ran_out[rows]], lost)
            if len(lost) or ran_out_on:
                detail = check.shortage(Hosts(self.table, lost, {})) if has_details and len(lost) else ""
                found.append(Shortage(check.stage, check.name, len(lost), ran_out_on, detail))
        return tuple(sorted(found, key=lambda each: (-each.ran_out_on, -each.hosts)))

    def _ran_out_on(self, check: Check, ran_out: RowArray, lost: RowArray) -> int:
        """Of how many of the hosts that ran out the check rejects; of amounts, also where another is lacking, too."""
        if check.is_about_room and check.ask is not None:
            return int(np.count_nonzero(~check.ask(Hosts(self.table, ran_out, {}))))
        return int(np.count_nonzero(self.ran_out[lost]))


def _first_rejections(trial: Trial, spec: RequestSpec) -> tuple[list[Check], RowArray]:
    """All checks of one more instance, and per row the number of the first that rejects it, or _PASSED."""
    uuid = trial_uuid(MOST_PLACED)
    spec = trial.with_members(spec, [uuid]).for_instance(uuid)
    checks = trial.pipeline.rules.checks(trial.table, spec, index=0)
    rejected = np.full(len(trial.table.names), _PASSED, dtype=np.intp)
    for number, result in enumerate(narrow(trial.table.in_the_running(), checks)):
        if result.takes_out:
            rejected[result.lost()] = number
    return checks, rejected


def _group(name: str, rows: RowArray, filled: Filled, shortages: _Shortages) -> GroupHeadroom:
    taken = [count for row in rows.tolist() if (count := filled.counts.get(row))]
    return GroupHeadroom(name, len(rows), sum(taken), len(taken), shortages.among(rows))


def _estimate(table: HostTable, spec: RequestSpec, most: int) -> int:
    """About how many instances fit, for a progress bar: by dividing what is free, which ignores most rules."""
    portions: list[FloatArray] = []
    for name, amount in spec.amounts.items():
        if f"limit:{name}" in table.numbers:
            free = table.numbers[f"limit:{name}"] - table.numbers[f"allocated:{name}"]
            portions.append(np.maximum(0, free) // amount)
    fitting = np.minimum.reduce(portions)[~table.is_disabled].sum() if portions else 0
    return min(most, int(fitting))
