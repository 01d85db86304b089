# SPDX-License-Identifier: Apache-2.0
"""The instance of a request that an explanation is about, and the hosts as it meets them.

A request for one instance meets the table as it is. Of several instances it is the first for which no host is left:
those before it have consumed their resources, on a copy of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from roost.errors import NoValidHost
from roost.hosts import HostTable
from roost.model.decision import Decision
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.rules import Rules


class TableCheck(NamedTuple):
    """A check, and the table whose hosts it is put to."""

    check: Check
    table: HostTable


@dataclass(frozen=True)
class ExplainedInstance:
    """One instance of a request, the hosts it meets, and the checks they are put to."""

    rules: Rules
    spec: RequestSpec
    table: HostTable
    checks: tuple[TableCheck, ...]
    """Those that have something to check, in their order."""
    wanted: int
    """How many instances the request asks for."""
    placed: int
    """How many of them have a host before this one; `wanted` if all have one."""

    def unforced(self) -> ExplainedInstance:
        """The same instance, not forced to any host: filters, which forced hosts skip, are asked again."""
        spec = self.spec.changed(force_hosts=None, force_nodes=None)
        checks = [TableCheck(check, self.table) for check in self.rules.checks(self.table, spec, 0)]
        return make_explained_instance(self.rules, spec, self.table, checks, self.placed)


class _NoChance:
    """Randomness for explanations, which show the best host: the first of any choice."""

    def randrange(self, stop: int, /) -> int:
        return 0

    def shuffle(self, items: list[Any], /) -> None:
        pass

    def getrandbits(self, bits: int, /) -> int:
        return 0


def find_explained_instance(pipeline: Pipeline, table: HostTable, spec: RequestSpec) -> ExplainedInstance:
    """The first instance of the request for which no host is left; the first of all if every one has a host."""
    rules = pipeline.rules
    first = [TableCheck(check, table) for check in rules.checks(table, spec, 0)]
    if spec.num_instances == 1:
        return make_explained_instance(rules, spec, table, first, 0)
    failed_at = _place(pipeline, table.copy(), spec, spec.num_instances).failed_at
    if not failed_at:
        return make_explained_instance(rules, spec, table, first, spec.num_instances if failed_at is None else 0)
    later_table = table.copy()
    later_spec = _next_instance(_place(pipeline, later_table, spec, failed_at))
    later = {each.name: each for each in rules.checks(later_table, later_spec, failed_at)}
    checks = [
        each if each.check.is_settled_once else TableCheck(later.pop(each.check.name, each.check), later_table)
        for each in first
    ]
    return make_explained_instance(rules, later_spec, later_table, checks, failed_at)


def make_explained_instance(
    rules: Rules, spec: RequestSpec, table: HostTable, checks: Sequence[TableCheck], placed: int
) -> ExplainedInstance:
    """An instance with those of the checks that have something to check."""
    asked = tuple(each for each in checks if each.check.ask is not None)
    return ExplainedInstance(rules, spec, table, asked, spec.num_instances, placed)


def _place(pipeline: Pipeline, table: HostTable, spec: RequestSpec, count: int) -> Decision:
    """Place so many instances on a table; the decision of a failure if not all have a host."""
    uuids = [spec.instance_uuid or _uuid(0), *map(_uuid, range(1, spec.num_instances))]
    if group := spec.instance_group:
        spec = spec.with_group(group.updated((*group.members, *uuids), group.hosts))
    placing = pipeline.fresh(IncrementalEngine)
    try:
        return placing.place(table, spec, uuids[:count], randomness=_NoChance(), clock=lambda: 0)
    except NoValidHost as failure:
        return failure.decision


def _next_instance(decision: Decision) -> RequestSpec:
    """The request for the instance after those that were placed."""
    last = decision.selections[-1]
    assert last.placed is not None  # noqa: S101 - the pipeline notes it for all of them
    spec = last.placed.for_instance(_uuid(len(decision.selections)))
    return spec.with_group_host(last.host)


def _uuid(number: int) -> str:
    """A uuid for the instance of this number, as good as any other."""
    return f"00000000-0000-4000-8000-{number:012d}"
