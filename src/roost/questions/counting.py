# SPDX-License-Identifier: Apache-2.0
"""Counts how many more instances of a request fit, and finds the host whose loss costs most of them.

`count_headroom` places instances until no host is left, and sees what stopped it: some 35 microseconds each, however
small the instance is. Where nothing but amounts can run out, `fill_by_division` divides what is free instead, for all
hosts in one step: hosts fill up in another order, and end with the same instances.

`LossSearch` places the servers of a host again on the others, then counts what still fits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from roost.errors import BadInput, FieldError, NoValidHost, UnsupportedPolicy
from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import BoolArray, FloatArray, RowArray
from roost.hosts.instances import Instance, flavors_by_key
from roost.hosts.updates import add_usage_to_rows, set_instances
from roost.model.flavor import Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image, parse_properties
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.questions.headroom import (
    AVAILABILITY_ZONE,
    MOST_PLACED,
    Filled,
    OneHostCount,
    Placement,
    Progress,
    Trial,
    Trials,
    release_all,
    rows_by_value,
    trial_uuid,
)
from roost.questions.records import GroupHeadroom, Headroom, HostHeadroom, HostLoss, Shortage
from roost.scheduler.checks import Check, narrow
from roost.scheduler.incremental.engine import make_distinguish
from roost.scheduler.search import Rules


def headroom_key(rules: Rules, spec: RequestSpec) -> Hashable:
    """Equal for requests that differ in the names of their flavors alone, where no rule looks at these.

    None where that is not known, as a plugin may look at anything. Other differences than in flavors do not count.
    """
    if not rules.are_built_in:
        return None
    distinguish = make_distinguish(rules.filters, rules.prefilters.limit_tenants_to_placement_aggregate)
    size = replace(spec.flavor, name="", id=None, flavorid=None)
    return size, distinguish(spec) if distinguish else None


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


Prepare = Callable[[RequestSpec], RequestSpec]
"""Completes a request before hosts are chosen; BadInput for an impossible one, UnsupportedPolicy among that."""


@dataclass(frozen=True)
class Displaced:
    """The servers of one host."""

    requests: tuple[RequestSpec, ...]
    """To place them again, the largest first: by memory, then CPUs, then disk."""
    unknown: int
    """How many servers there are besides, of which neither flavor nor size is known, or no valid request comes."""
    has_unlisted_use: bool
    """Whether more memory or CPUs of the host are in use than these servers account for."""


def displaced_servers(table: HostTable, row: int, group_of: Mapping[str, ServerGroup], prepare: Prepare) -> Displaced:
    """The servers on a row of the table. `group_of`: instance uuid -> its server group.

    The zone and the hints that a server was asked for with are not recorded on its host: it may go anywhere.
    """
    instances = list(table.instances.get(row, {}).values())
    found = (_request_for(table, each, group_of.get(each.uuid), prepare) for each in instances)
    requests = sorted((spec for spec in found if spec is not None), key=_largest_first)
    has_unlisted_use = _has_unlisted_use(table, row, requests)
    return Displaced(tuple(requests), len(instances) - len(requests), has_unlisted_use)


def _request_for(
    table: HostTable, instance: Instance, group: ServerGroup | None, prepare: Prepare
) -> RequestSpec | None:
    """A request for a server as it is; None where its size is not known, or its flavor not valid."""
    flavor = _flavor_of(table, instance)
    if flavor is None:
        return None
    local_gb = flavor.ephemeral_gb + -(-flavor.swap // 1024)
    spec = RequestSpec(
        flavor=flavor,
        image=_image_of(instance),
        instance_uuid=instance.uuid,
        project_id=instance.project_id,
        is_bfv=bool(instance.resources and flavor.root_gb and instance.resources.get(DISK_GB, 0) == local_gb),
    )
    try:
        return prepare(spec if group is None else spec.with_group(group))
    except UnsupportedPolicy:  # no enabled plugin enforces it
        return prepare(spec)
    except BadInput:
        return None


def _flavor_of(table: HostTable, instance: Instance) -> Flavor | None:
    """The flavor of a server, or one of the size of what it holds; None where both are unknown."""
    known = instance.flavor or flavors_by_key(table.flavors).get(instance.flavor_id)
    if known is not None or not instance.resources:
        return known
    held = dict(instance.resources)
    vcpus, memory_mb, disk_gb = (held.pop(name, 0) for name in (VCPU, MEMORY_MB, DISK_GB))
    others = {f"resources:{name}": str(amount) for name, amount in held.items()}
    return Flavor(vcpus, memory_mb, disk_gb, extra_specs=others)


def _image_of(instance: Instance) -> Image | None:
    if not (instance.image_ref or instance.image_props):
        return None
    try:
        return Image(id=instance.image_ref, properties=parse_properties(instance.image_props))
    except FieldError:  # a property that only another release of nova knows
        return Image(id=instance.image_ref)


def _largest_first(spec: RequestSpec) -> tuple[int, int, int, str]:
    memory_mb, vcpus, disk_gb = (spec.amounts.get(name, 0) for name in (MEMORY_MB, VCPU, DISK_GB))
    return -memory_mb, -vcpus, -disk_gb, str(spec.instance_uuid)


def _has_unlisted_use(table: HostTable, row: int, requests: list[RequestSpec]) -> bool:
    if table.is_bare_metal[row]:
        return False
    columns = {name: f"allocated:{name}" for name in (VCPU, MEMORY_MB)}
    used = {name: table.buffers[column][row] for name, column in columns.items() if column in table.numbers}
    return any(amount > sum(spec.amounts.get(name, 0) for spec in requests) for name, amount in used.items())


MOST_RECOUNTED = 200_000
"""So many instances are placed at most, in all, where the loss of a host means counting everything anew."""
_SERVERS_OF_A_HOST = 50
"""A guess at how many servers are placed again per host."""
_DISABLED = frozenset({"is_disabled"})


@dataclass(frozen=True)
class _Loss:
    """A host that was taken out, and where its servers went."""

    row: int
    displaced: Displaced
    placements: tuple[Placement, ...]
    homeless: int
    was_disabled: bool
    instances: tuple[Instance, ...]


class LossSearch:
    """Tries the loss of one host after the other.

    Usually what a host can take depends on that host alone. After a loss only the hosts that took servers of the
    lost one are counted anew, by placing on them; and not even these where the loss cannot cost more than the worst
    so far. With a server group or plugins all hosts are counted anew, and the number of losses tried is bounded.
    """

    def __init__(
        self,
        trials: Trials,
        spec: RequestSpec,
        filled: Filled,
        group_of: Mapping[str, ServerGroup],
        prepare: Prepare,
        progress: Progress,
    ) -> None:
        """`filled`: what fits without a loss. `group_of`: instance uuid -> its server group."""
        self._trials, self._spec = trials, spec
        self._counts, self._fits = filled.counts, filled.counts.total()
        self._group_of, self._prepare, self._progress = group_of, prepare, progress

    def find_worst(self) -> HostLoss | None:
        """The loss after which most servers have no host, or else the fewest instances fit; None if no host is up."""
        trial = self._trials()
        rows = self._candidates(trial.table)
        if not rows:
            return None
        if trial.pipeline.rules.are_built_in and self._spec.instance_group is None:
            return self._worst_by_touched_hosts(trial, rows)
        return self._worst_by_recounting(rows)

    def _candidates(self, table: HostTable) -> list[int]:
        """The rows that are up, first those that have and could take most."""
        rows: list[int] = np.flatnonzero(table.is_up).tolist()
        return sorted(rows, key=lambda row: (-self._counts[row] - len(table.instances.get(row, ())), row))

    def _worst_by_touched_hosts(self, trial: Trial, rows: list[int]) -> HostLoss | None:
        worst: HostLoss | None = None
        trial.table.writable_column("is_disabled")
        one_host = OneHostCount(trial, self._spec)
        for done, row in enumerate(rows):
            self._progress("hosts", done, len(rows))
            loss = self._lose(trial, row)
            touched = list({at for at, _ in loss.placements})
            fits = self._fits - self._counts[row] - sum(self._counts[at] for at in touched)
            while touched and _may_be_worse(worst, loss.homeless, fits):
                fits += one_host.count(touched.pop())
            if _may_be_worse(worst, loss.homeless, fits):
                worst = _record(trial.table, loss, fits, len(rows), len(rows))
            _restore(trial.table, loss)
        return worst

    def _worst_by_recounting(self, rows: list[int]) -> HostLoss | None:
        worst: HostLoss | None = None
        tried = rows[: max(1, MOST_RECOUNTED // (self._fits + _SERVERS_OF_A_HOST))]
        for done, row in enumerate(tried):
            self._progress("hosts", done, len(tried))
            trial = self._trials()
            loss = self._lose(trial, row)
            filled = trial.fill(self._spec, MOST_PLACED, lambda done: None)
            fits = filled.counts.total()
            if _may_be_worse(worst, loss.homeless, fits):
                worst = _record(trial.table, loss, fits, len(tried), len(rows))
        return worst

    def _lose(self, trial: Trial, row: int) -> _Loss:
        """Take a host out, and place its servers on the others."""
        table = trial.table
        displaced = displaced_servers(table, row, self._group_of, self._prepare)
        instances = tuple(table.instances.get(row, {}).values())
        was_disabled = bool(table.is_disabled[row])
        _set_disabled(table, row, True)
        set_instances(table, row, (), [each.uuid for each in instances])
        placements = []
        for spec in displaced.requests:
            try:
                placements.append(trial.place_again(spec))
            except (NoValidHost, BadInput):  # BadInput: a rule cannot be applied to the request
                continue
        homeless = len(displaced.requests) - len(placements)
        return _Loss(row, displaced, tuple(placements), homeless, was_disabled, instances)


def _restore(table: HostTable, loss: _Loss) -> None:
    """Undo `LossSearch._lose`."""
    release_all(table, loss.placements)
    set_instances(table, loss.row, loss.instances, ())
    _set_disabled(table, loss.row, loss.was_disabled)


def _set_disabled(table: HostTable, row: int, is_disabled: bool) -> None:
    if table.set_numbers(row, {"is_disabled": is_disabled}):
        table.changes.note(row, _DISABLED)


def _record(table: HostTable, loss: _Loss, fits: int, tried: int, candidates: int) -> HostLoss:
    host, node = table.names[loss.row]
    return HostLoss(
        host=host,
        node=node,
        fits=fits,
        servers=len(loss.placements),
        homeless=loss.homeless,
        unknown_servers=loss.displaced.unknown,
        has_unlisted_use=loss.displaced.has_unlisted_use,
        tried=tried,
        candidates=candidates,
    )


def _may_be_worse(worst: HostLoss | None, homeless: int, fits: int) -> bool:
    """Whether a loss costs more than the worst so far, if after it at least so many instances fit."""
    return worst is None or (homeless, -fits) > (worst.homeless, -worst.fits)
