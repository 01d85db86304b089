# SPDX-License-Identifier: Apache-2.0
"""The funnel of a request: its checks put one after the other to the hosts that are left, as a placement does it.

An explanation is about one instance. A request for one instance meets the table as it is. Of several instances it is
the first for which no host is left: those before it have consumed their resources, on a copy of the table. Checks
that ask for the same thing in two places, such as RamFilter and capacity, have one subject: they are lifted together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from roost.errors import MOST_COMPARED, NoValidHost, UnknownName, nearest
from roost.hosts import Hosts, HostTable, HostView
from roost.hosts.encoded import BoolArray, RowArray
from roost.model.decision import Decision
from roost.model.request import RequestSpec
from roost.questions.records import FunnelStep, Reason, Rejection
from roost.scheduler.checks import Check
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Rules


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


def find_row(table: HostTable, host: str, node: str | None = None) -> int:
    """The row of a host; upper and lower case are not distinguished, as by the scheduler.

    `node`: for a host with several. UnknownName for a host or node that the table does not have.
    """
    rows = sorted(table.rows_of_hosts_ignoring_case([host]))
    if not rows:
        raise UnknownName(f"unknown host {host!r}", nearest_host(table, host))
    by_node = {table.names[row][1]: row for row in rows}
    if node is None and len(rows) > 1:
        raise UnknownName(f"host {host} has {len(rows)} nodes", f"name one of them: {', '.join(list(by_node)[:8])}")
    if node is not None and node not in by_node:
        raise UnknownName(f"host {host} has no node {node!r}", nearest(node, by_node))
    return rows[0] if node is None else by_node[node]


def nearest_host(table: HostTable, name: str) -> str:
    """A hint that names the host whose name is closest; only names of about the same length are compared."""
    alike = (host for host, _ in table.names if abs(len(host) - len(name)) < 3)
    return nearest(name, set(islice(alike, MOST_COMPARED)))


_ALIKE: tuple[tuple[str, ...], ...] = (
    ("disabled", "ComputeFilter"),
    ("vcpu", "CoreFilter", "AggregateCoreFilter"),
    ("ram", "RamFilter", "AggregateRamFilter"),
    ("disk", "DiskFilter", "AggregateDiskFilter"),
    ("availability_zone", "AvailabilityZoneFilter"),
    ("tenant_aggregate", "AggregateMultiTenancyIsolation"),
    ("force_hosts", "force_nodes"),
)
_FIRST_OF = {name: names[0] for names in _ALIKE for name in names}


def subject_of(check: Check) -> str:
    """What a check is about: its name, or that of the first of several that ask for the same thing."""
    if check.rule is not None and not check.rule.is_built_in:
        return check.name
    return _FIRST_OF.get(check.name, check.name)


def by_subject(checks: Sequence[Check]) -> dict[str, list[int]]:
    """Subject -> the numbers of the checks about it, in their order."""
    found: dict[str, list[int]] = {}
    for number, check in enumerate(checks):
        found.setdefault(subject_of(check), []).append(number)
    return found


NONE = -1
"""In place of the number of a check: no check rejects the host."""


@dataclass(frozen=True)
class Funnel:
    """Who was rejected by which check first, and who is left."""

    instance: ExplainedInstance
    steps: tuple[FunnelStep, ...]
    first: RowArray
    """Per row of the table, the number of the first check that rejects it, or NONE."""
    left: Hosts
    """The hosts that can take the instance."""
    views: dict[int, Hosts]
    """By `id` of a table: all its hosts, with what checks noted on them."""

    def host(self, row: int, of: TableCheck) -> HostView:
        """A host as the check saw it."""
        return self.views[id(of.table)].view_of(row)

    def rejections(self) -> tuple[Rejection, ...]:
        """Every rejected host with its reason; the table, and so the result, is sorted by host and node."""
        checks = self.instance.checks
        found = []
        for row in np.flatnonzero(self.first != NONE).tolist():
            put = checks[self.first[row]]
            host = self.host(row, put)
            found.append(Rejection(host.host, host.nodename, put.check.stage, put.check.name, put.check.reason(host)))
        return tuple(found)

    def reasons(self, rejects: Sequence[BoolArray]) -> tuple[Reason, ...]:
        """The histogram, largest first. `rejects`: per check, the rows that it rejects, put to each by itself."""
        checks = [check for check, _ in self.instance.checks]
        # A check may reject a host only because an earlier one took allocation candidates away there.
        masks = [mask | (self.first == number) for number, mask in enumerate(rejects)]
        of_subject = {
            subject: int(np.count_nonzero(np.logical_or.reduce([masks[number] for number in numbers])))
            for subject, numbers in by_subject(checks).items()
        }
        firsts = Counter(self.first.tolist())
        found = [
            Reason(check.stage, check.name, subject, firsts[number], in_all, of_subject[subject])
            for number, check in enumerate(checks)
            for subject, in_all in [(subject_of(check), int(np.count_nonzero(masks[number])))]
            if in_all
        ]
        return tuple(sorted(found, key=lambda each: (-each.hosts, -each.hosts_in_all)))


def run_funnel(instance: ExplainedInstance, without: Collection[int] = ()) -> Funnel:
    """Put the checks, `without` those of these numbers, to the hosts that are left. Raises what a check raises."""
    views = {id(table): Hosts(table, None, {}) for table in _tables(instance)}
    left = dict(views)
    first = np.full(len(instance.table.names), NONE, dtype=np.intp)
    steps: list[FunnelStep] = []
    remaining = len(first)
    for number, (check, table) in enumerate(instance.checks):
        if not remaining:
            break
        if number in without:
            continue
        hosts = left[id(table)]
        assert check.ask is not None  # noqa: S101 - an ExplainedInstance has no others
        passes = check.ask(hosts)
        before, remaining = remaining, int(np.count_nonzero(passes))
        if remaining < before:
            first[hosts.rows[~passes]] = number
            left = {key: each.keep(passes) for key, each in left.items()}
        steps.append(FunnelStep(check.stage, check.name, before, remaining))
    return Funnel(instance, tuple(steps), first, left[id(instance.table)], views)


def _tables(instance: ExplainedInstance) -> list[HostTable]:
    return [instance.table, *(each.table for each in instance.checks)]
