# SPDX-License-Identifier: Apache-2.0
"""The first three stages as yes-or-no checks, put to the hosts that are left one after the other.

`Rules.checks` (`rules.py`) lists them for a request: prefilter (`prefilters.py`), capacity and filter (here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable, HostView, capacity
from roost.hosts.arrays import BoolArray, RowArray
from roost.model.decision import Step
from roost.model.remedy import Remedy
from roost.model.request import RequestSpec
from roost.model.resources import AllocationCandidates
from roost.scheduler.capacity_remedies import amount_remedy, enabling_remedy, traits_remedy

FindRemedy = Callable[[HostView], Remedy | None]
"""What would let one rejected host pass; None where nothing sensible would."""


class Check(NamedTuple):
    """One yes-or-no question to every host that is left."""

    stage: str
    name: str
    ask: Callable[[Hosts], BoolArray] | None
    """True for each host that passes; None where the request gives the check nothing to do: all pass."""
    reason: Callable[[HostView], str]
    """Why one rejected host was rejected."""
    remedy: FindRemedy = lambda host: None
    """What would let one rejected host pass; None where nothing sensible would."""
    shortage: Callable[[Hosts], str] = lambda hosts: ""
    """What these rejected hosts lacked, in numbers; empty where that says nothing."""

    reads: Callable[[], frozenset[str]] = frozenset
    """Gives the columns that the answer depends on; an empty set where they are unknown."""
    is_about_room: bool = False
    """True where the answer depends on the requested amounts, and on nothing else of the request."""
    is_settled_once: bool = False
    """True where it is put for the first instance of a request only."""
    never_fails: bool = False
    """True where the check can be put to any host, also a rejected one, without raising an error."""

    rule: Filter | None = None
    """The filter that asks it."""
    row_asker: Callable[[HostTable], Callable[[int], bool]] | None = None
    """Makes a faster way to put the check to one row."""

    def for_rows(self, table: HostTable) -> Callable[[int], bool]:
        """A function that makes the check for one row of the table."""
        if self.row_asker is not None:
            return self.row_asker(table)
        ask = self.ask
        return lambda row: ask is None or bool(ask(table.one(row))[0])

    def depends_on(self, changed: frozenset[str]) -> bool:
        """Whether a host that changed in these columns may answer differently from before."""
        reads = self.reads()
        return not reads or bool(reads & changed)

    def survivors(self, hosts: Hosts) -> Hosts:
        """The hosts that pass."""
        return hosts if self.ask is None else hosts.keep(self.ask(hosts))

    def split(self, hosts: Hosts) -> tuple[Hosts, Hosts]:
        """The hosts that pass, and the hosts that do not."""
        mask = np.ones(len(hosts), dtype=np.bool_) if self.ask is None else self.ask(hosts)
        return hosts.keep(mask), hosts.take(np.flatnonzero(~mask))


class CheckResult(NamedTuple):
    """A check that was put to the hosts that were left."""

    check: Check
    hosts: Hosts
    """The hosts it was put to, which may include rejected ones."""
    before: BoolArray
    """True for each of them that was left until then."""
    stays: BoolArray
    """True for each of them that is left now."""
    left: int

    @property
    def takes_out(self) -> bool:
        """Whether the check rejected a host."""
        return self.stays is not self.before

    def lost(self) -> RowArray:
        """The rows that the check rejected."""
        return self.hosts.rows_where(self.before & ~self.stays)


def narrow(hosts: Hosts, checks: Iterable[Check]) -> Iterator[CheckResult]:
    """Put every check to the hosts that are left, until none is."""
    left = asked = len(hosts)
    stays = np.ones(left, dtype=np.bool_)
    for check in checks:
        if not left:
            break
        before = stays
        if check.ask is not None:
            passed = _ask_all(check, hosts) if 2 * left >= asked > left else None
            if passed is None:
                if left < asked:
                    hosts, before, asked = hosts.keep(stays), np.ones(left, dtype=np.bool_), left
                passed = check.ask(hosts)
            stays = passed & before
            now = int(np.count_nonzero(stays))
            left, stays = (now, stays) if now < left else (left, before)
        yield CheckResult(check, hosts, before, stays, left)


def _ask_all(check: Check, hosts: Hosts) -> BoolArray | None:
    """The answers for rejected hosts too; None where the check must not be put to these.

    Arithmetic on whole columns is faster than gathering them for the hosts that are left, if these are many. An error
    may be about a rejected host, and is none then; what plugins do with a host is unknown, so they are left out.
    """
    if check.ask is None or not (check.never_fails or check.rule is None or check.rule.is_built_in):
        return None
    try:
        return check.ask(hosts)
    except RoostError:
        return None


def with_details(steps: Iterable[Step], losses: Iterable[tuple[Check, RowArray]], hosts: Hosts) -> list[Step]:
    """The steps, each with what the hosts lacked that it rejected. `losses`: checks with the rows they rejected."""
    checks: dict[str, Check] = {}
    rows: dict[str, list[RowArray]] = {}
    for check, lost in losses:
        checks[check.name] = check
        rows.setdefault(check.name, []).append(lost)
    details = {
        name: check.shortage(Hosts(hosts.table, np.concatenate(rows[name]), {})) for name, check in checks.items()
    }
    return [step._replace(detail=details.get(step.name, "")) for step in steps]


def capacity_checks(spec: RequestSpec) -> Iterator[Check]:
    """In service, with room for every requested resource class, the right traits. A rebuild takes nothing."""
    if spec.is_rebuild:
        return
    yield Check(
        "capacity",
        "disabled",
        partial(capacity.are_enabled, go_by_traits=spec.candidates is None),
        capacity.disabled_reason,
        enabling_remedy,
        reads=lambda: frozenset({"is_disabled", "traits"}),
        never_fails=True,
    )
    if spec.candidates is not None:
        yield _candidates_check(spec.candidates)
        return
    for resource_class, asked in spec.amounts.items():
        yield Check(
            "capacity",
            capacity.short_name(resource_class),
            partial(capacity.fits, resource_class=resource_class, asked=asked),
            partial(capacity.host_shortage_reason, resource_class=resource_class, asked=asked),
            partial(amount_remedy, spec=spec, resource_class=resource_class),
            shortage=partial(capacity.shortage_summary, resource_class=resource_class, asked=asked),
            reads=partial(capacity.columns_of, resource_class),
            never_fails=True,
            is_about_room=True,
            row_asker=partial(capacity.fits_row, resource_class=resource_class, asked=asked),
        )
    required, forbidden = spec.traits
    if required or forbidden:
        yield trait_check("capacity", "traits", spec, required, forbidden)


def _candidates_check(candidates: AllocationCandidates) -> Check:
    """Whether placement offers something on a host, which is noted there for filters to narrow.

    There is no remedy: what would make placement offer more is known to placement alone.
    """

    def ask(hosts: Hosts) -> BoolArray:
        mask = np.zeros(len(hosts), dtype=np.bool_)
        for position, host in enumerate(hosts):
            host.allocation_candidates = candidates.of(host.uuid)
            mask[position] = bool(host.allocation_candidates)
        return mask

    return Check("capacity", "placement", ask, _why_not_offered)


def _why_not_offered(host: HostView) -> str:
    """Placement does not say why; one reason is known: it is asked for hosts that are not marked as disabled."""
    marked = f", which has the trait {capacity.DISABLED_TRAIT}" if capacity.DISABLED_TRAIT in host.traits else ""
    return f"placement offers no allocation candidate on the host{marked}"


def trait_check(
    stage: str, name: str, spec: RequestSpec, required: frozenset[str], forbidden: frozenset[str] = frozenset()
) -> Check:
    """Whether a host has all required traits and no forbidden one."""
    return Check(
        stage,
        name,
        partial(capacity.has_traits, required=required, forbidden=forbidden),
        partial(capacity.traits_reason, required=required, forbidden=forbidden),
        partial(traits_remedy, spec=spec, required=required, forbidden=forbidden),
        reads=lambda: frozenset({"traits"}),
        is_settled_once=stage == "prefilter",
    )


def filter_checks(filters: Iterable[Filter], spec: RequestSpec, index: int) -> list[Check]:
    """The checks of the filters that run for the instance of this number (from 0)."""
    asked = [rule for rule in filters if rule.run_filter_for_index(index)]
    return [filter_check(rule, spec) for rule in asked]


def filter_check(rule: Filter, spec: RequestSpec) -> Check:
    """What one filter asks for this request."""
    is_skipped = rule.is_built_in and rule.applies_if is not None and not rule.applies_if(spec)
    is_asked = not is_skipped and rule.applies_to(spec) and (not spec.is_rebuild or applies_to_rebuild(rule))
    return Check(
        "filter",
        rule.name,
        partial(rule.answers, spec=spec) if is_asked else None,
        partial(_reason_of, rule, spec),
        partial(_remedy_of, rule, spec),
        reads=partial(rule.reads_for, spec),
        is_settled_once=not rule.run_filter_for_index(1),
        never_fails=rule.never_fails,
        rule=rule,
    )


def _reason_of(rule: Filter, spec: RequestSpec, host: HostView) -> str:
    """The filter's own reason; an error raised by it names the filter and the host."""
    try:
        return rule.reason(host, spec)
    except RoostError:
        raise
    except Exception as cause:
        raise PluginFailed(rule.name, host.host, cause) from cause


def _remedy_of(rule: Filter, spec: RequestSpec, host: HostView) -> Remedy | None:
    """The filter's own remedy. None is invented for a plugin, even if it derives from a built-in filter."""
    is_own = rule.is_built_in or not type(rule).remedy.__module__.startswith("roost.")
    try:
        found = rule.remedy(host, spec) if is_own else None
        if not isinstance(found, Remedy | None):
            raise TypeError(f"remedy() returned {type(found).__name__}, not a Remedy")
        return found
    except RoostError:
        raise
    except Exception as cause:
        raise PluginFailed(rule.name, host.host, cause) from cause


def is_forced(spec: RequestSpec) -> bool:
    """Whether hosts are forced, and this is no check of where an instance runs already."""
    forced = bool(spec.force_hosts or spec.force_nodes)
    return forced and not spec.scheduler_hints.get("_nova_check_type")
