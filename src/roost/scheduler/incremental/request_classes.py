# SPDX-License-Identifier: Apache-2.0
"""Requests that differ in their uuid alone are of one class and share what was worked out for them.

Classes that differ in size alone are of one family and share most of that: who may take the request but for room, and
the order of preference. Both are brought up to date from the table's change log: only rows that changed are asked
again, and only what depends on the changed columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostTable, capacity
from roost.hosts.arrays import FloatArray, RowArray
from roost.model.decision import Step
from roost.model.group import ServerGroup
from roost.model.lazy import IdentityCache
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, filter_check, is_ours, with_details
from roost.scheduler.incremental.ranking import Ranking
from roost.scheduler.incremental.survivors import (
    FEW,
    PASSED,
    SurvivorsOfAnySize,
    SurvivorsOfOneRequest,
    SurvivorsOfOneSize,
)
from roost.weighers.base import Weigher

MOST_FAMILIES = 32
MOST_SIZES = 64
MOST_MET = 1024
SMALL_FLEET = 1 << 15
FEW_WEIGHERS = 4
MOST_BYTES = 96 << 20
"""For the codes of all families and classes together."""
BOUND_TO_HOSTS = ("affinity", "legacy")
"""Policies by which the host of one member decides about all hosts for the next."""
_OWN_HINTS = ("same_host", "different_host")
_FEW_LEFT = 64
_INSTANCES = frozenset({"instances"})
_NOTHING: frozenset[str] = frozenset()
_MOST_CLOSE_CALLS = 1 << 16

Distinguish = Callable[[RequestSpec], Hashable]
Kept = TypeVar("Kept")


class Rules(NamedTuple):
    """What a pipeline asks of the hosts."""

    make_checks: Callable[[HostTable, RequestSpec], list[Check]]
    weighers: Sequence[Weigher]
    has_limits: Callable[[RequestSpec], bool]
    """Whether some filter sets ceilings for such a request."""
    distinguish: Distinguish
    """What tells requests apart besides their size, extra specs, image, zone, hints, group and named hosts."""


class RequestFamily:
    """What requests of all sizes have in common, as of some version of the table."""

    def __init__(self, table: HostTable, spec: RequestSpec, rules: Rules) -> None:
        self.table, self._rules = table, rules
        self.classes: OrderedDict[Hashable, RequestClass] = OrderedDict()
        self._sizes = IdentityCache[tuple[tuple[str, int], ...]]()
        self._build(spec)

    def _build(self, spec: RequestSpec) -> None:
        self._generation, self._aggregates = self.table.generation, self.table.known_aggregates
        self._portioned = self.table.portioned
        self._version = self.table.changes.version
        self._group = spec.instance_group
        self.classes.clear()
        self.close_calls: list[int] = []
        """Changed rows, but for those that have room for every size before and after."""
        self.regrouped: list[int] = []
        """Rows where somebody runs who joined the group, or left it."""
        self._largest: dict[str, int] = {}
        """The most that any class asks for, per resource class."""
        self._lack: Callable[[int], int | None] | None = None
        self._is_roomy = bytearray(len(self.table.names))
        anybody = spec.for_instance(None)
        checks = self._rules.make_checks(self.table, anybody)
        self._made = tuple(spec.amounts.items()), checks
        """The questions of the request that this was built for: its class needs them next."""
        self.survivors = SurvivorsOfAnySize(self.table, _but_room(checks))
        self.ranking = Ranking(self.survivors, self._rules.weighers, anybody)

    def catch_up(self, spec: RequestSpec) -> None:
        """Everything as it is now, for this request of the family."""
        log, group = self.table.changes, spec.instance_group
        if not self._still_fits_table():
            self._build(spec)
            return
        if self._version == log.version and self._group is group:
            return
        changes = self.changes_since(self._version)
        if changes is None:
            self._build(spec)
            return
        self._version = log.version
        if group is not self._group:
            for row in self._rows_of_other_members(group):
                changes[row] = changes.get(row, _INSTANCES) | _INSTANCES
                self.regrouped.append(row)
            self._follow_group(spec.for_instance(None))
        if changes:
            self.ranking.update(changes, self.survivors.recheck(changes))
            self._note_close_calls(changes)

    def _still_fits_table(self) -> bool:
        """Whether all is there that this was built on, besides rows and columns."""
        table = self.table
        return (
            self._aggregates is table.known_aggregates
            and self._generation == table.generation
            and self._portioned == table.portioned
        )

    def _follow_group(self, spec: RequestSpec) -> None:
        """The request's group has other members from now on."""
        self._group = spec.instance_group
        checks, numbers = list(self.survivors.checks), []
        for number, check in enumerate(checks):
            if check.rule is not None and check.rule.looks_at_group:
                checks[number] = filter_check(check.rule, spec)
                numbers.append(number)
        self.survivors.renew(checks, numbers)
        self.ranking.renew(spec)

    def _note_close_calls(self, rows: Collection[int]) -> None:
        """Which of the changed rows the classes have to look at: most have room for any of them."""
        if len(rows) > FEW:
            self._note_many_close_calls(np.fromiter(rows, dtype=np.intp, count=len(rows)))
        else:
            codes, is_roomy, first_lack = self.survivors.codes, self._is_roomy, self._first_lack
            for row in rows:
                was_roomy, is_roomy[row] = is_roomy[row], codes[row] == PASSED and first_lack(row) is None
                if not (was_roomy and is_roomy[row]):
                    self.close_calls.append(row)
        if max(len(self.close_calls), len(self.regrouped)) > _MOST_CLOSE_CALLS:
            self.classes.clear()
            self.close_calls.clear()
            self.regrouped.clear()

    def _note_many_close_calls(self, rows: RowArray) -> None:
        """The same for many at once."""
        hosts, is_roomy = Hosts(self.table, rows, {}), np.frombuffer(self._is_roomy, dtype=np.bool_)
        has_room = np.frombuffer(self.survivors.codes, dtype=np.uint8)[rows] == PASSED
        has_room &= self._first_lack is not _lacks_all
        for name, amount in self._largest.items():
            has_room &= capacity.fits(hosts, name, amount)
        self.close_calls += rows[~(is_roomy[rows] & has_room)].tolist()
        is_roomy[rows] = has_room

    def _make_room_for(self, spec: RequestSpec) -> None:
        """A class that asks for more than any before it: nobody is known to have room for that."""
        if any(amount > self._largest.get(name, 0) for name, amount in spec.amounts.items()):
            for name, amount in spec.amounts.items():
                self._largest[name] = max(amount, self._largest.get(name, 0))
            self._lack = None
            self._is_roomy = bytearray(len(self.table.names))

    @property
    def _first_lack(self) -> Callable[[int], int | None]:
        """What a row has no room for of the most that any class asks for; made when somebody first asks."""
        if self._lack is None:
            # Where a class is given out in portions, room for much does not mean room for less.
            is_unclear = not self._largest or any(name in self.table.portioned for name in self._largest)
            self._lack = _lacks_all if is_unclear else capacity.first_lack(self.table, self._largest)
        return self._lack

    def changes_since(self, version: int) -> dict[int, frozenset[str]] | None:
        """What changed; None where that is too much to follow, or sets other multipliers for the weights."""
        log = self.table.changes
        if version < log.aggregates_version:
            return None
        rows = log.rows_since(version)
        return None if rows is not None and len(rows) > 64 + len(self.table.names) // 8 else rows

    def _rows_of_other_members(self, group: ServerGroup | None) -> list[int]:
        """Where those run who are members now and were not, or the other way round."""
        before = self._group.members if self._group else ()
        now = group.members if group else ()
        has_grown = now[: len(before)] == before
        others: Iterable[str] = now[len(before) :] if has_grown else set(before) ^ set(now)
        return [row for uuid in others for row in self.table.rows_of_instance(uuid)]

    def find(self, spec: RequestSpec) -> RequestClass:
        """The class of this request, up to date."""
        self.catch_up(spec)
        size = self._size_of(spec)
        found = self.classes.get(size)
        if found is None:
            self._make_room_for(spec)
            checks = self._made[1] if self._made[0] == size else []
            found = self.classes[size] = RequestClass(self, size, spec, self._rules, checks)
            self._made = (), []
            _forget_oldest(self.classes, MOST_SIZES)
        else:
            self.classes.move_to_end(size)
            found.catch_up(spec)
        return found

    def class_of(self, spec: RequestSpec) -> RequestClass | None:
        """The class of this request as it was left; None where it is not known."""
        return self.classes.get(self._size_of(spec))

    def _size_of(self, spec: RequestSpec) -> tuple[tuple[str, int], ...]:
        return self._sizes.get(spec.amounts) or self._sizes.put(spec.amounts, tuple(spec.amounts.items()))


class RequestClass:
    """Requests of one size: who has room besides, and who of these is best."""

    def __init__(
        self, family: RequestFamily, size: Hashable, spec: RequestSpec, rules: Rules, checks: Sequence[Check] = ()
    ) -> None:
        """`checks`: all questions of this request, where somebody has them already."""
        self.family, self._size, self._rules = family, size, rules
        self._build(spec, checks)

    def _build(self, spec: RequestSpec, checks: Sequence[Check] = ()) -> None:
        self._version = self.family.table.changes.version
        self._seen = len(self.family.close_calls), len(self.family.regrouped)
        self._refusal: tuple[Step, ...] | None = None
        anybody = spec.for_instance(None)
        checks = checks or self._rules.make_checks(self.family.table, anybody)
        self.survivors = SurvivorsOfOneSize(self.family.survivors, checks, spec.amounts)
        self.has_limits = self._rules.has_limits(anybody)
        shared = self.family.ranking
        self.ranking = Ranking(self.survivors, self._rules.weighers, anybody) if shared.looks_at_size else shared

    def catch_up(self, spec: RequestSpec) -> None:
        """As it is now; the family was brought up to date before."""
        family = self.family
        seen = len(family.close_calls), len(family.regrouped)
        if self._version == family.table.changes.version and self._seen == seen:
            return
        self._refusal = None
        if self.ranking is family.ranking:
            close = family.close_calls[self._seen[0] :]
            if close:
                self.survivors.recheck(dict.fromkeys(close, _NOTHING))
        elif not self._catch_up_alone(spec):
            self._build(spec)
        self._version, self._seen = family.table.changes.version, seen

    def _catch_up_alone(self, spec: RequestSpec) -> bool:
        """With a ranking of its own; False where that is too much to follow."""
        changes = self.family.changes_since(self._version)
        if changes is None:
            return False
        for row in self.family.regrouped[self._seen[1] :]:
            changes[row] = changes.get(row, _INSTANCES) | _INSTANCES
        if spec.instance_group is not None:
            self.ranking.renew(spec.for_instance(None))
        self.ranking.update(changes, self.survivors.recheck(changes))
        return True

    def follow(self, spec: RequestSpec) -> None:
        """After an instance of this request was placed."""
        self.family.catch_up(spec)
        if self.family.classes.get(self._size) is not self:  # built anew: so much had changed
            self._build(spec)
            self.family.classes[self._size] = self
        self.catch_up(spec)

    def best(self, count: int) -> list[tuple[float, int]]:
        """(Weight turned round, row) of the best, best first; of equal ones the first rows."""
        found = self.ranking.best(count, self.survivors)
        if found is None:  # the best of all sizes have no room: hosts are being filled up
            self.ranking = Ranking(self.survivors, self._rules.weighers, self.ranking.spec)
            found = self.ranking.best(count, self.survivors) or []
        return found

    @property
    def left(self) -> int:
        """How many hosts are still in the running."""
        return self.survivors.left

    def standings(self) -> tuple[RowArray, FloatArray]:
        """Their rows and their raw numbers, a line for each weigher: as they are now."""
        rows = self.survivors.passed()
        return rows, self.ranking.numbers_of_many(rows)

    def can_follow(self, spec: RequestSpec) -> bool:
        """Whether further instances of a request get their answers here, too.

        What is asked but once per request must not depend on what its own instances change.
        """
        changed = self.family.table.columns_consumed(spec)
        asked = (check for check in self.survivors.checks if check.ask is not None and check.is_settled_once)
        return not any(check.depends_on(changed) for check in asked)

    def refusal(self) -> tuple[Step, ...]:
        """Nobody passed: the steps with what all those lacked. The same until something changes."""
        if self._refusal is None:
            self._refusal = tuple(with_details(self.survivors.steps, self.survivors.fallen(), self.family.table))
        return self._refusal


class RequestOverlay:
    """A request like those of a class but for questions of its own: hosts that it shuns, or was tried on."""

    def __init__(self, common: RequestClass, checks: Sequence[Check]) -> None:
        self._common = common
        self.survivors = SurvivorsOfOneRequest(common.survivors, checks)
        self.ranking, self.has_limits = common.ranking, common.has_limits

    def best(self, count: int) -> list[tuple[float, int]]:
        """(Weight turned round, row) of the best, best first; of equal ones the first rows."""
        found = None
        if self.survivors.left > _FEW_LEFT:
            found = self.ranking.best(count, self.survivors)
        return self.ranking.best_of_all(count, self.survivors) if found is None else found

    def refusal(self) -> tuple[Step, ...]:
        """Nobody passed: the steps with what all those lacked."""
        return tuple(with_details(self.survivors.steps, self.survivors.fallen(), self._common.family.table))


def shared_part(spec: RequestSpec) -> RequestSpec:
    """What the request has in common with others: without the hosts it was tried on, shuns, or is bound to."""
    if spec.retry is None and not (spec.ignore_hosts or spec.scheduler_hints or spec.instance_group):
        return spec
    changed: dict[str, Any] = {}
    if spec.retry is not None or spec.ignore_hosts:
        changed = {"retry": None, "ignore_hosts": None}
    if spec.instance_group is not None and spec.instance_group.policy in BOUND_TO_HOSTS:
        changed["instance_group"] = None
    if any(hint in spec.scheduler_hints for hint in _OWN_HINTS):
        hints = spec.scheduler_hints.items()
        changed["scheduler_hints"] = MappingProxyType({key: value for key, value in hints if key not in _OWN_HINTS})
    return spec.changed(**changed) if changed else spec


class RequestClassCache:
    """The families of one pipeline on one table; those not used for long are forgotten."""

    def __init__(self, table: HostTable, rules: Rules) -> None:
        self.table, self._rules = table, rules
        self._families: OrderedDict[Hashable, RequestFamily] = OrderedDict()
        self._is_light = len(table.names) <= SMALL_FLEET and len(rules.weighers) <= FEW_WEIGHERS
        self._met: OrderedDict[Hashable, None] = OrderedDict()
        """Of which one request came, and nothing was kept."""

    def find(self, spec: RequestSpec, only_if_met: bool = False) -> RequestClass | None:
        """The class of this request, up to date. `only_if_met`: None where none of its family was met before.

        Many families are met but once. With few weighers on a small fleet, what would be kept of them costs more than
        an answer; with many, the answer is found sooner on the way to what is kept (measured at 10,000 hosts).
        """
        key = self._key_of(spec)
        family = self._families.get(key)
        if family is None:
            if only_if_met and key not in self._met and self._is_light:
                self._met[key] = None
                _forget_oldest(self._met, MOST_MET)
                return None
            family = self._families[key] = RequestFamily(self.table, spec, self._rules)
            _forget_oldest(self._families, MOST_FAMILIES)
        else:
            self._families.move_to_end(key)
        before = len(family.classes)
        found = family.find(spec)
        if len(family.classes) > before:
            self._keep_in_bounds()
        return found

    def catch_up(self, spec: RequestSpec) -> None:
        """Bring the class of this request up to date, where there is one."""
        family = self._families.get(self._key_of(spec))
        if family is not None:
            family.catch_up(spec)
            known = family.class_of(spec)
            if known is not None:
                known.catch_up(spec)

    def _keep_in_bounds(self) -> None:
        """A byte per host and class, and two per family."""
        most = max(8, MOST_BYTES // max(1, len(self.table.names)))
        while len(self._families) > 1 and sum(2 + len(each.classes) for each in self._families.values()) > most:
            self._families.popitem(last=False)

    def forget(self, spec: RequestSpec) -> None:
        """Something went wrong half-way: what is kept of this family may not be trusted."""
        self._families.pop(self._key_of(spec), None)

    def _key_of(self, spec: RequestSpec) -> Hashable:
        """Everything that an answer can depend on, but size, uuid, and who is in the group: that is tracked."""
        extra_specs, image, group = spec.flavor.extra_specs, spec.image, spec.instance_group
        return (
            tuple(extra_specs.items()) if extra_specs else None,
            None if image is None else (image.properties, image.disk_format, spec.is_bfv),
            spec.availability_zone,
            tuple(spec.scheduler_hints.items()) if spec.scheduler_hints else None,
            None if group is None else _key_of_group(group),
            (spec.ignore_hosts, spec.force_hosts, spec.force_nodes, spec.requested_destination),
            spec.needs_besides,
            None if spec.retry is None else spec.retry.hosts,
            self._rules.distinguish(spec),
        )


def _but_room(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if not check.is_about_room]


def _lacks_all(row: int) -> int:
    return 0


def _key_of_group(group: ServerGroup) -> Hashable:
    """Affinity goes by the group's hosts; all other policies by its members, which are tracked."""
    hosts = group.hosts if group.policy in BOUND_TO_HOSTS else ()
    return group.uuid, group.name, group.policy, group.max_server_per_host, hosts


def _forget_oldest(kept: OrderedDict[Hashable, Kept], most: int) -> None:
    if len(kept) > most:
        kept.popitem(last=False)


def is_cacheable(filters: Sequence[Filter], weighers: Sequence[Weigher]) -> bool:
    """Whether all answers follow from the columns that the rules name. What others' rules look at nobody knows."""
    are_ours = all(map(is_ours, filters)) and all(map(is_ours, weighers))
    return are_ours and not any(weigher.may_fail() for weigher in weighers)


def distinguisher(filters: Sequence[Filter], by_project: bool) -> Distinguish:
    """What tells requests apart for these filters, besides what always does."""
    asked = [each.distinguishes for each in filters if type(each).distinguishes is not Filter.distinguishes]
    if by_project:
        asked.append(lambda spec: spec.project_id)
    return lambda spec: tuple([ask(spec) for ask in asked]) if asked else None
