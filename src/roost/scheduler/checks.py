# SPDX-License-Identifier: Apache-2.0
"""Prefilter, capacity and filter as yes-or-no checks, put one after the other to the hosts that are left.

`Rules.checks` in `search.py` lists them for a request; the prefilter stage has its own in `prefilters.py`. With each
check of amounts and traits comes the remedy for the hosts that it rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from roost.errors import PluginFailed, RoostError
from roost.filters.base import Filter, applies_to_rebuild
from roost.hosts import Hosts, HostTable, HostView, capacity
from roost.hosts.capacity import DISABLED_TRAIT, ClassCapacity
from roost.hosts.encoded import BoolArray, RowArray
from roost.hosts.host_changes import change_host, count_of, enable, name_of, plural, room_remedy
from roost.model.decision import Step
from roost.model.remedy import HostChange, Remedy, RequestChange, disk_changes
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU, AllocationCandidates, resource_class_of

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


_WORDS = {VCPU: "CPUs", MEMORY_MB: "MiB of memory", DISK_GB: "GB of disk"}
"""Resource class -> what is counted; any other class is its own word."""


def amount_remedy(host: HostView, spec: RequestSpec, resource_class: str) -> Remedy | None:
    """How the amount that the request asks of a resource class can fit on the host."""
    asked, words = spec.amounts[resource_class], _WORDS.get(resource_class, resource_class)
    has = capacity.capacity_of(host, resource_class)
    if has is None or has.limit < 1:
        return _without_class(spec, resource_class, words)
    left, most, step = has.limit - has.allocated, min(has.limit, has.max_unit), int(has.step_size)
    if asked < has.min_unit or asked % step:
        amount = _nearest_unit(has, asked)
        changes = _ask_for(spec, resource_class, amount) if amount <= min(left, most) else ()
        return Remedy(f"ask for {count_of(amount, words)}", changes) if changes else None
    return room_remedy(
        host,
        words,
        asked=asked,
        left=left // step * step,
        most=most // step * step,
        free=lambda amount: _free(host, resource_class, amount),
        ask=lambda amount: _ask_for(spec, resource_class, amount // step * step) if amount >= has.min_unit else (),
    )


def _without_class(spec: RequestSpec, resource_class: str, words: str) -> Remedy | None:
    """A request that asks for nothing of a class that the host has not; None where it cannot do without."""
    keys = _extra_specs_of(spec, resource_class)
    if keys:
        text = f"ask for a flavor without {plural('the extra spec', keys)}"
        return Remedy(text, tuple(RequestChange(f"flavor.extra_specs.{key}", None) for key in keys))
    changes = _ask_for(spec, DISK_GB, 0) if resource_class == DISK_GB else ()
    return Remedy(f"ask for no {words}: boot from a volume", changes) if changes else None


def _nearest_unit(has: ClassCapacity, asked: int) -> int:
    """The largest amount up to `asked` in the units that the host gives out, or else the smallest beyond it."""
    step, least = int(has.step_size), int(has.min_unit)
    lower = asked // step * step
    return lower if lower >= least else -(-max(least, asked) // step) * step


def _free(host: HostView, resource_class: str, amount: int) -> HostChange:
    """The change of the host after which this much less of the class is allocated."""
    if resource_class == MEMORY_MB:
        return change_host(host, "free_ram_mb", host.free_ram_mb + amount)
    if resource_class == DISK_GB:
        return change_host(host, "free_disk_mb", host.free_disk_mb + 1024 * amount)
    if resource_class == VCPU and host.vcpus_used >= amount:
        return change_host(host, "vcpus_used", host.vcpus_used - amount)
    allocated = getattr(host, f"allocated:{resource_class}")
    return change_host(host, f"allocations.{resource_class}", allocated - amount)


def _ask_for(spec: RequestSpec, resource_class: str, amount: int) -> tuple[RequestChange, ...]:
    """Changes after which the request asks for this amount; empty where its flavor does not decide about it."""
    if any(resource_class in group.resources for group in spec.requested_resources):
        return ()
    if keys := _extra_specs_of(spec, resource_class):
        first, *others = (f"flavor.extra_specs.{key}" for key in keys)
        return RequestChange(first, str(amount)), *(RequestChange(each, None) for each in others)
    if resource_class == DISK_GB:
        return disk_changes(spec.flavor, 1024 * amount, counts_root=not spec.is_bfv)
    fields = {VCPU: "flavor.vcpus", MEMORY_MB: "flavor.memory_mb"}
    return (RequestChange(fields[resource_class], amount),) if resource_class in fields else ()


def _extra_specs_of(spec: RequestSpec, resource_class: str) -> list[str]:
    return [key for key in spec.flavor.extra_specs if resource_class_of(key) == resource_class]


def enabling_remedy(host: HostView) -> Remedy:
    """How a disabled host is enabled: in its service, and in its traits where these say that it is disabled."""
    found = enable(host)
    if DISABLED_TRAIT not in host.traits:
        return found
    changes = (*found.changes, change_host(host, "traits", sorted(host.traits - {DISABLED_TRAIT})))
    if host.is_disabled:
        return Remedy(f"{found.text}, which must take the trait {DISABLED_TRAIT} from it, too", changes)
    text = f"take the trait {DISABLED_TRAIT} from {name_of(host)}"
    return Remedy(f"{text}: in a nova cloud, disable it and enable it again while its nova-compute runs", changes)


def traits_remedy(
    host: HostView, spec: RequestSpec, required: frozenset[str], forbidden: frozenset[str]
) -> Remedy | None:
    """How the host can have the required traits and none of the forbidden ones.

    Custom traits an operator gives to a host; of others the host says itself, so the flavor must not ask for them.
    """
    missing, present = sorted(required - host.traits), sorted(forbidden & host.traits)
    extra_specs = [key for key in spec.flavor.extra_specs if key.startswith("trait:")]
    asking = [key for key in extra_specs if key.removeprefix("trait:") in (*missing, *present)]
    parts = [f"give {name_of(host)} {plural('the trait', missing)}"] if missing else []
    parts += [f"take {plural('the trait', present)} from {name_of(host)}"] if present else []
    text = " and ".join(parts)
    if len(asking) == len(missing) + len(present):  # nothing else asks for them
        text += f", or ask for a flavor without {plural('the extra spec', asking)}"
        if not all(each.startswith("CUSTOM_") for each in (*missing, *present)):
            return Remedy(text, tuple(RequestChange(f"flavor.extra_specs.{key}", None) for key in asking))
    else:
        text += ", or use a flavor and an image that do not need this"
    return Remedy(text, (change_host(host, "traits", sorted((host.traits | required) - forbidden)),))
