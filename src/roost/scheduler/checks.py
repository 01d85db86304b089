# SPDX-License-Identifier: Apache-2.0
"""The questions that a request puts to the hosts, in order: prefilter, capacity, filter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable, HostView, capacity
from roost.hosts.arrays import BoolArray, RowArray
from roost.model.decision import Step
from roost.model.request import RequestSpec
from roost.model.request_parts import Destination
from roost.weighers.base import Weigher


class Check(NamedTuple):
    """One yes-or-no question to every host in the running."""

    stage: str
    name: str
    ask: Callable[[Hosts], BoolArray] | None
    """One truth value per host; None where the request gives the check nothing to do: all pass."""
    reason: Callable[[HostView], str]
    """Why one rejected host was rejected."""
    shortage: Callable[[Hosts], str] = lambda hosts: ""
    """What these rejected hosts lacked, in numbers; empty where that says nothing."""

    reads: frozenset[str] = frozenset()
    """The columns that the answer depends on; empty where that is not known."""
    is_about_room: bool = False
    """True where the answer depends on the amounts that are asked for, and on nothing else of the request."""
    is_settled_once: bool = False
    """True where it is put for the first instance of a request only."""
    never_fails: bool = False
    """True where the question can be put to any host, also one that is out already, without raising an error."""

    rule: Filter | None = None
    """The filter that asks it."""
    row_asker: Callable[[HostTable], Callable[[int], bool]] | None = None
    """Makes a faster way to put the question to one row."""

    def for_rows(self, table: HostTable) -> Callable[[int], bool]:
        """The same question to one row."""
        if self.row_asker is not None:
            return self.row_asker(table)
        ask = self.ask
        return lambda row: ask is None or bool(ask(table.one(row))[0])

    def depends_on(self, changed: frozenset[str]) -> bool:
        """Whether a host that changed in these columns may answer otherwise than before."""
        return not self.reads or bool(self.reads & changed)

    def survivors(self, hosts: Hosts) -> Hosts:
        """Those who pass."""
        return hosts if self.ask is None else hosts.keep(self.ask(hosts))

    def split(self, hosts: Hosts) -> tuple[Hosts, Hosts]:
        """Those who pass, and those who do not."""
        mask = np.ones(len(hosts), dtype=np.bool_) if self.ask is None else self.ask(hosts)
        return hosts.keep(mask), hosts.take(np.flatnonzero(~mask))


class CheckResult(NamedTuple):
    """A question that was put to the hosts in the running."""

    check: Check
    hosts: Hosts
    """Those to whom it was put, and some who were out already."""
    before: BoolArray
    """Which of them were left until then."""
    stays: BoolArray
    """Which of them are left."""
    left: int

    @property
    def takes_out(self) -> bool:
        """Whether somebody fell out here."""
        return self.stays is not self.before

    def lost(self) -> RowArray:
        """The rows that fell out here."""
        return self.hosts.rows_where(self.before & ~self.stays)


def narrow(hosts: Hosts, checks: Iterable[Check]) -> Iterator[CheckResult]:
    """Put every question to the hosts in the running until none is left."""
    stays, left = np.ones(len(hosts), dtype=np.bool_), len(hosts)
    for check in checks:
        if not left:
            break
        before = stays
        if check.ask is not None:
            passed = _ask_all(check, hosts) if 2 * left >= len(hosts) > left else None
            if passed is None:
                if left < len(hosts):
                    hosts, before = hosts.keep(stays), np.ones(left, dtype=np.bool_)
                passed = check.ask(hosts)
            stays = passed & before
            now = int(np.count_nonzero(stays))
            left, stays = (now, stays) if now < left else (left, before)
        yield CheckResult(check, hosts, before, stays, left)


def _ask_all(check: Check, hosts: Hosts) -> BoolArray | None:
    """The answers also of hosts that are out already; None where it must not be put to these.

    Arithmetic on whole columns is faster than gathering them for those who are left, if these are many. An error may
    be about a host that is out, and is none then; and what people's own filters do with a host nobody knows.
    """
    if check.ask is None or not (check.never_fails or check.rule is None or is_ours(check.rule)):
        return None
    try:
        return check.ask(hosts)
    except RoostError:
        return None


def with_details(steps: Iterable[Step], losses: Iterable[tuple[Check, RowArray]], hosts: Hosts) -> list[Step]:
    """The steps with what those lacked whom each of them took out."""
    checks: dict[str, Check] = {}
    rows: dict[str, list[RowArray]] = {}
    for check, lost in losses:
        checks[check.name] = check
        rows.setdefault(check.name, []).append(lost)
    details = {
        name: check.shortage(Hosts(hosts.table, np.concatenate(rows[name]), {})) for name, check in checks.items()
    }
    return [step._replace(detail=details.get(step.name, "")) for step in steps]


def may_be_in_cell(destination: Destination | None, table: HostTable) -> Callable[[str], bool]:
    """Whether a request for this destination may go to a host of a cell.

    Where all hosts are in one cell there is nothing to leave, whatever name others have for it.
    """
    names = destination.bound_to_cell if destination else ()
    may_be_anywhere = not names or len(table.encoded["cell"].used()) < 2
    return lambda cell: may_be_anywhere or cell in names


def cell_checks(spec: RequestSpec) -> Iterator[Check]:
    """The cell that the request must not leave: nova reads no hosts of others."""
    destination = spec.requested_destination
    if destination is None or not destination.bound_to_cell:
        return

    def ask(hosts: Hosts) -> BoolArray:
        return hosts.per_value("cell", may_be_in_cell(destination, hosts.table))

    reason = f"the request must stay in cell {destination.cell}"
    yield Check("prefilter", "cell", ask, lambda host: reason, reads=frozenset({"cell"}), is_settled_once=True)


def prefilter_checks(spec: RequestSpec) -> Iterator[Check]:
    """The hosts the caller names or rules out. Ignoring comes first: a host that is both is gone."""
    destination = spec.requested_destination
    if destination and destination.host:
        host, node = destination.host, destination.node
        yield _by_name(
            "requested_destination",
            lambda table: [row for row in table.rows_of_host(host) if node in (None, "", table.names[row][1])],
            f"the request is for {host}",
        )
    if spec.ignore_hosts:
        ignored = spec.ignore_hosts
        reason = "the request says to ignore this host"
        yield _by_name("ignore_hosts", lambda table: table.rows_called(ignored), reason, stays=False)
    if spec.force_hosts:
        forced = spec.force_hosts
        reason = f"the request is forced to {', '.join(forced)}"
        yield _by_name("force_hosts", lambda table: table.rows_called(forced), reason)
    if spec.force_nodes:
        nodes = set(spec.force_nodes)
        yield _by_name(
            "force_nodes",
            lambda table: [row for row, (_, node) in enumerate(table.names) if node in nodes],
            f"the request is forced to node {', '.join(spec.force_nodes)}",
        )


def _by_name(name: str, find: Callable[[HostTable], list[int]], reason: str, stays: bool = True) -> Check:
    """Whether a host is one of those that the request names; of these, whether they stay or go."""

    def ask(hosts: Hosts) -> BoolArray:
        mask = np.full(len(hosts.table.names), not stays, dtype=np.bool_)
        mask[find(hosts.table)] = stays
        return mask[hosts.rows]

    return Check("prefilter", name, ask, lambda host: reason, reads=frozenset({"name"}), is_settled_once=True)


def capacity_checks(spec: RequestSpec) -> Iterator[Check]:
    """In service, with room for every resource class asked, the right traits. A rebuild takes nothing."""
    if spec.is_rebuild:
        return
    yield Check(
        "capacity",
        "disabled",
        lambda hosts: ~hosts.is_disabled,
        _why_disabled,
        reads=frozenset({"is_disabled"}),
        never_fails=True,
    )
    for resource_class, asked in spec.amounts.items():
        yield Check(
            "capacity",
            capacity.word_for(resource_class),
            partial(capacity.fits, resource_class=resource_class, asked=asked),
            partial(capacity.why_not, resource_class=resource_class, asked=asked),
            partial(capacity.shortage, resource_class=resource_class, asked=asked),
            reads=capacity.columns_of(resource_class),
            never_fails=True,
            is_about_room=True,
            row_asker=partial(capacity.fits_row, resource_class=resource_class, asked=asked),
        )
    required, forbidden = spec.traits
    if required or forbidden:
        yield Check(
            "capacity",
            "traits",
            partial(capacity.has_traits, required=required, forbidden=forbidden),
            partial(capacity.why_not_traits, required=required, forbidden=forbidden),
            reads=frozenset({"traits"}),
        )


def _why_disabled(host: HostView) -> str:
    said = host.service["disabled_reason"]
    return f"the host is disabled: {said}" if said else "the host is disabled"


def filter_checks(
    filters: Sequence[Filter], spec: RequestSpec, index: int, skips_forced: bool = True
) -> Iterator[Check]:
    """The enabled filters that run for this instance of the request. Forced hosts skip them all."""
    if skips_forced and is_forced(spec):
        return
    for rule in filters:
        if rule.run_filter_for_index(index):
            yield filter_check(rule, spec)


def filter_check(rule: Filter, spec: RequestSpec) -> Check:
    """What one filter asks for this request."""
    is_asked = rule.applies_to(spec) and (not spec.is_rebuild or applies_to_rebuild(rule))
    return Check(
        "filter",
        rule.name,
        partial(rule.answers, spec=spec) if is_asked else None,
        partial(_reason_of, rule, spec),
        reads=rule.reads_for(spec),
        is_settled_once=not rule.run_filter_for_index(1),
        never_fails=rule.never_fails,
        rule=rule,
    )


def _reason_of(rule: Filter, spec: RequestSpec, host: HostView) -> str:
    """The filter's own words; where it stumbles over them, the error names it and the host."""
    try:
        return rule.reason(host, spec)
    except RoostError:
        raise
    except Exception as cause:
        raise PluginFailed(rule.name, host.host, cause) from cause


def is_forced(spec: RequestSpec) -> bool:
    """Hosts are forced, and this is no check of where an instance is already."""
    forced = bool(spec.force_hosts or spec.force_nodes)
    return forced and not spec.scheduler_hints.get("_nova_check_type")


def is_ours(rule: Filter | Weigher) -> bool:
    """A built-in: what it says about itself can be relied on."""
    return type(rule).__module__.partition(".")[0] == "roost"
