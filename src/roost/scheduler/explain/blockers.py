# SPDX-License-Identifier: Apache-2.0
"""Which checks reject which hosts: every check put to every host, each as if there were no other.

A placement stops asking about a host at the first check that rejects it. Here each check gets a view of its own of
all hosts, so that nothing that another one noted there - narrowed allocation candidates, limits of a plugin - can
matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roost.errors import HostFault, RoostError, RuleError
from roost.hosts import Hosts, HostTable
from roost.hosts.arrays import BoolArray, RowArray
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check
from roost.scheduler.explain.explained_instance import ExplainedInstance, TableCheck


@dataclass(frozen=True)
class Blockers:
    """For each check of a request, the hosts that it rejects."""

    checks: tuple[TableCheck, ...]
    masks: tuple[BoolArray, ...]
    """Per check, one boolean per row of the table: True if it rejects that host."""
    errors: dict[tuple[int, int], RoostError]
    """(Number of a check, row) -> the error that it raised about that host, which then counts as rejected."""

    def of_row(self, row: int) -> list[int]:
        """The numbers of the checks that reject a row."""
        return [number for number, mask in enumerate(self.masks) if mask[row]]

    def counts(self) -> RowArray:
        """Per row, how many checks reject it."""
        return np.sum(self.masks, axis=0, dtype=np.intp) if self.masks else np.zeros(0, dtype=np.intp)


def find_blockers(instance: ExplainedInstance) -> Blockers:
    """Put every check to all hosts, each by itself. Makes no sentences."""
    masks: list[BoolArray] = []
    errors: dict[tuple[int, int], RoostError] = {}
    for number, (check, table) in enumerate(instance.checks):
        rejects = np.ones(len(table.names), dtype=np.bool_)
        for rows, passes, error in _answers(check, table, instance.spec, None):
            if error is None:
                rejects[slice(None) if rows is None else rows] = ~passes
            else:
                errors |= {(number, row): error for row in _all_rows(table, rows)}
        masks.append(rejects)
    return Blockers(instance.checks, tuple(masks), errors)


Answer = tuple[RowArray | None, BoolArray, RoostError | None]
"""Rows (None: all), which of them pass, and the error that was raised about them in place of an answer."""
_NO_ANSWER: BoolArray = np.zeros(0, dtype=np.bool_)


def _answers(check: Check, table: HostTable, spec: RequestSpec, rows: RowArray | None) -> Iterator[Answer]:
    """What a check says of these rows. After an error it is put to each half, until the error is about one host."""
    assert check.ask is not None  # noqa: S101 - the caller has no others
    hosts = Hosts(table, rows, {})
    if spec.candidates is not None and check.rule is not None:
        _note_candidates(hosts, spec)
    try:
        yield rows, check.ask(hosts), None
    except RoostError as error:
        is_about_request = isinstance(error, RuleError) and not isinstance(error, HostFault)
        if is_about_request or len(hosts) < 2:
            yield rows, _NO_ANSWER, error
            return
        everyone = _all_rows(table, rows)
        for half in (everyone[: len(everyone) // 2], everyone[len(everyone) // 2 :]):
            yield from _answers(check, table, spec, half)


def _all_rows(table: HostTable, rows: RowArray | None) -> RowArray:
    return np.arange(len(table.names)) if rows is None else rows


def _note_candidates(hosts: Hosts, spec: RequestSpec) -> None:
    """Note what placement offers on each host, as its own check does before filters are asked.

    Hosts on which it offers nothing keep what they have: a filter must not be blamed for that.
    """
    assert spec.candidates is not None  # noqa: S101 - asked by the caller
    for host in hosts:
        if offered := spec.candidates.of(host.uuid):
            host.allocation_candidates = offered
