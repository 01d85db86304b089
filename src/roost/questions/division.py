# SPDX-License-Identifier: Apache-2.0
"""Counts what fits by dividing what is free, where nothing but amounts can run out: all hosts in one step.

Placing one instance after the other takes some 35 microseconds each, however small the instance is: a large fleet
takes many. The result is the same: hosts fill up in another order, and end with the same instances.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from roost.hosts import HostTable
from roost.hosts.arrays import FloatArray, RowArray
from roost.hosts.updates import add_usage_to_rows
from roost.model.request import RequestSpec
from roost.questions.headroom import Filled, Trial
from roost.scheduler.checks import Check

_UNCHANGED = frozenset({"num_io_ops"})
"""Columns that are after a placement what they were before: an instance counts as built at once."""


def fill_by_division(
    trial: Trial, spec: RequestSpec, checks: Sequence[Check], rows: RowArray, most: int
) -> Filled | None:
    """Fill the hosts of these rows, which pass all checks of the request, with as many instances as fit.

    None, and nothing is placed, where instances have to be placed one after the other: where a group, a plugin, NUMA
    cells, devices or a rule about what is in use has a say, or more fit than `most`, among which the weighers choose.
    """
    table, rules = trial.table, trial.pipeline.rules
    if not len(rows) or not (rules.are_built_in and rules.checks_capacity) or not _has_plain_amounts(spec):
        return None
    if _can_anything_else_run_out(table, spec, checks) or np.any(table.numbers["is_bare_metal"][rows]):
        return None
    counts = np.minimum.reduce([_times(table, rows, name, amount) for name, amount in spec.amounts.items()])
    if counts.sum() >= most or np.any(counts < 1):
        return None
    add_usage_to_rows(table, rows, spec, counts)
    return Filled(Counter(dict(zip(rows.tolist(), counts.astype(np.int64).tolist(), strict=True))), True)


def _has_plain_amounts(spec: RequestSpec) -> bool:
    """Whether the request takes amounts of its host, and nothing else."""
    is_plain = not (spec.instance_group or spec.numa_topology or spec.pci_requests)
    return is_plain and bool(spec.amounts) and min(spec.amounts.values()) > 0


def _can_anything_else_run_out(table: HostTable, spec: RequestSpec, checks: Iterable[Check]) -> bool:
    """Whether the answer of a check that is not about amounts may change with what is placed."""
    changing = table.columns_consumed(spec) - _UNCHANGED
    return any(each.ask is not None and not each.is_about_room and each.depends_on(changing) for each in checks)


def _times(table: HostTable, rows: RowArray, resource_class: str, asked: int) -> FloatArray:
    """How often each host has the amount, by the same comparison as `roost.hosts.capacity.fits`."""
    allocated = table.numbers[f"allocated:{resource_class}"][rows]
    highest = table.numbers[f"limit:{resource_class}"][rows] - asked
    """The most that may be allocated before an instance is placed."""
    times: FloatArray = np.floor((highest - allocated) / asked) + 1
    times -= allocated + (times - 1) * asked > highest  # the division was rounded up
    times += allocated + times * asked <= highest  # or down
    return times
