# SPDX-License-Identifier: Apache-2.0
"""Cached answers for requests that are alike.

Requests that differ in their uuid alone are of one class. Classes that differ in size alone are of one family, and
share most of what is cached: which hosts pass all checks but those for room, and the order of preference. Both are
patched from the table's change log: only rows that changed are asked again, and only what depends on the changed
columns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from roost.hosts import Hosts, HostTable, capacity
from roost.hosts.encoded import FloatArray, RowArray
from roost.model.decision import Step
from roost.model.group import ServerGroup
from roost.model.kinds import IdentityCache
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check, filter_check, with_details
from roost.scheduler.incremental.ranking import Ranking
from roost.scheduler.incremental.survivors import FEW, PASSED, SurvivorsOfAnySize, SurvivorsOfOneSize
from roost.scheduler.search import Order, Rules, Uncacheable

MOST_CHANGES_TO_PATCH = 8192
"""Beyond that all rows are read again: to go through the log takes longer."""
MOST_SIZES = 64
"""Classes of one family."""
_MOST_NOTED = 1 << 16
"""Changes that a family notes for its classes; with more of them, the classes are dropped."""
_INSTANCES = frozenset({"instances"})
_NO_COLUMNS: frozenset[str] = frozenset()

Cached = TypeVar("Cached")


class RequestFamily:
    """What requests of all sizes share, as of some version of the table."""

    def __init__(self, table: HostTable, spec: RequestSpec, rules: Rules) -> None:
        self.table, self._rules = table, rules
        self.classes: OrderedDict[Hashable, RequestClass] = OrderedDict()
        """By size, the least recently used first."""
        self._sizes = IdentityCache[tuple[tuple[str, int], ...]]()
        self._build(spec)

    def _build(self, spec: RequestSpec) -> None:
        """Ask and rank everything from scratch."""
        self._generation, self._aggregates = self.table.generation, self.table.known_aggregates
        self._granular_classes = self.table.granular_classes
        self._version = self.table.changes.version
        self._group = spec.instance_group
        self.classes.clear()
        self.room_changes: list[int] = []
        """Changed rows, except those that have room for every size before and after the change."""
        self.membership_changes: list[int] = []
        """Rows with an instance that joined the request's group, or left it."""
        self._largest: dict[str, int] = {}
        """Resource class -> the most that any cached size asks for."""
        self._lack: Callable[[int], int | None] | None = None
        self._has_room_for_all = bytearray(len(self.table.names))
        shared = spec.for_instance(None)
        checks = self._rules.checks(self.table, shared, index=0)
        self._first_checks = tuple(spec.amounts.items()), checks
        """The checks of the request that this is built for, by its size: the class that is built next needs them."""
        self.survivors = SurvivorsOfAnySize(self.table, [check for check in checks if not check.is_about_room])
        self.ranking = Ranking(self.survivors, self._rules.weighers, shared)

    def catch_up(self, spec: RequestSpec) -> None:
        """Patch what changed in the table, and in the group of this request of the family, since the last call."""
        table, log, group = self.table, self.table.changes, spec.instance_group
        if (  # columns, aggregates or granular classes that the cache refers to were replaced
            self._aggregates is not table.known_aggregates
            or self._generation != table.generation
            or self._granular_classes != table.granular_classes
        ):
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
            for row in self._rows_of_changed_members(group):
                changes[row] = changes.get(row, _INSTANCES) | _INSTANCES
                self.membership_changes.append(row)
            self._follow_group(spec.for_instance(None))
        if changes:
            self.ranking.update(changes, self.survivors.recheck(changes))
            self._note_room_changes(changes)

    def _follow_group(self, spec: RequestSpec) -> None:
        """Ask about the group as it is in this request from now on."""
        self._group = spec.instance_group
        checks, numbers = list(self.survivors.checks), []
        for number, check in enumerate(checks):
            if check.rule is not None and check.rule.looks_at_group:
                checks[number] = filter_check(check.rule, spec)
                numbers.append(number)
        self.survivors.renew(checks, numbers)
        self.ranking.renew(spec)

    def _note_room_changes(self, rows: Collection[int]) -> None:
        """Note the changed rows that the classes have to recheck: most have room for every size."""
        if len(rows) > FEW:
            self._note_many_room_changes(np.fromiter(rows, dtype=np.intp, count=len(rows)))
        else:
            codes, has_room, first_lack = self.survivors.codes, self._has_room_for_all, self._first_lack
            for row in rows:
                had_room, has_room[row] = has_room[row], codes[row] == PASSED and first_lack(row) is None
                if not (had_room and has_room[row]):
                    self.room_changes.append(row)
        if max(len(self.room_changes), len(self.membership_changes)) > _MOST_NOTED:
            self.classes.clear()
            self.room_changes.clear()
            self.membership_changes.clear()

    def _note_many_room_changes(self, rows: RowArray) -> None:
        """`_note_room_changes` for more rows than are worth asking one by one."""
        hosts, had_room = Hosts(self.table, rows, {}), np.frombuffer(self._has_room_for_all, dtype=np.bool_)
        has_room = np.frombuffer(self.survivors.codes, dtype=np.uint8)[rows] == PASSED
        has_room &= self._first_lack is not _lacks_all
        for name, amount in self._largest.items():
            has_room &= capacity.fits(hosts, name, amount)
        self.room_changes += rows[~(had_room[rows] & has_room)].tolist()
        had_room[rows] = has_room

    def _raise_largest(self, spec: RequestSpec) -> None:
        """A class that asks for more than any before it: no host is known to have room for that."""
        if any(amount > self._largest.get(name, 0) for name, amount in spec.amounts.items()):
            for name, amount in spec.amounts.items():
                self._largest[name] = max(amount, self._largest.get(name, 0))
            self._lack = None
            self._has_room_for_all = bytearray(len(self.table.names))

    @property
    def _first_lack(self) -> Callable[[int], int | None]:
        """A function that gives which of the largest amounts a row has no room for, None where it has for all."""
        if self._lack is None:
            # Where a resource class is given out in portions, room for much does not mean room for less.
            is_unclear = not self._largest or any(name in self.table.granular_classes for name in self._largest)
            self._lack = _lacks_all if is_unclear else capacity.first_shortage(self.table, self._largest)
        return self._lack

    def changes_since(self, version: int) -> dict[int, frozenset[str]] | None:
        """Row -> columns changed since; None where these are too many to patch, or change multipliers of weights."""
        log = self.table.changes
        if version < log.aggregates_version or log.version - version > MOST_CHANGES_TO_PATCH:
            return None
        rows = log.rows_since(version)
        return None if rows is not None and len(rows) > 64 + len(self.table.names) // 8 else rows

    def _rows_of_changed_members(self, group: ServerGroup | None) -> list[int]:
        """Rows of the instances that are members now and were not, or were and are not."""
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
            self._raise_largest(spec)
            checks = self._first_checks[1] if self._first_checks[0] == size else []
            found = self.classes[size] = RequestClass(self, size, spec, self._rules, checks)
            self._first_checks = (), []
            drop_oldest(self.classes, MOST_SIZES)
        else:
            self.classes.move_to_end(size)
            found.catch_up(spec)
        return found

    def class_of(self, spec: RequestSpec) -> RequestClass | None:
        """The class of this request as it was left; None where it is not cached."""
        return self.classes.get(self._size_of(spec))

    def _size_of(self, spec: RequestSpec) -> tuple[tuple[str, int], ...]:
        return self._sizes.get(spec.amounts) or self._sizes.put(spec.amounts, tuple(spec.amounts.items()))


class RequestClass:
    """Requests of one size: which hosts have room besides, and which of these are best."""

    def __init__(
        self, family: RequestFamily, size: Hashable, spec: RequestSpec, rules: Rules, checks: Sequence[Check] = ()
    ) -> None:
        """`checks`: all checks of this request, where the caller has them already."""
        self.family, self._size, self._rules = family, size, rules
        self._build(spec, checks)

    def _build(self, spec: RequestSpec, checks: Sequence[Check] = ()) -> None:
        """Ask and rank everything from scratch."""
        self._version = self.family.table.changes.version
        self._seen = len(self.family.room_changes), len(self.family.membership_changes)
        self._refusal: tuple[Step, ...] | None = None
        checks = checks or self._rules.checks(self.family.table, spec.for_instance(None), index=0)
        self.survivors = SurvivorsOfOneSize(self.family.survivors, checks, spec.amounts)
        shared = self.family.ranking
        self.ranking = self._own_ranking(spec) if shared.looks_at_size else shared

    def _own_ranking(self, spec: RequestSpec) -> Ranking:
        return Ranking(self.survivors, self._rules.weighers, spec.for_instance(None))

    def catch_up(self, spec: RequestSpec) -> None:
        """Patch what changed since the last call; the family is up to date already."""
        family = self.family
        seen = len(family.room_changes), len(family.membership_changes)
        if self._version == family.table.changes.version and self._seen == seen:
            return
        self._refusal = None
        if self.ranking is family.ranking:
            changed = family.room_changes[self._seen[0] :]
            if changed:
                self.survivors.recheck(dict.fromkeys(changed, _NO_COLUMNS))
        elif not self._catch_up_own_ranking(spec):
            self._build(spec)
        self._version, self._seen = family.table.changes.version, seen

    def _catch_up_own_ranking(self, spec: RequestSpec) -> bool:
        """Patch survivors and ranking of this class; False where the changes are too many."""
        changes = self.family.changes_since(self._version)
        if changes is None:
            return False
        for row in self.family.membership_changes[self._seen[1] :]:
            changes[row] = changes.get(row, _INSTANCES) | _INSTANCES
        if spec.instance_group is not None:
            self.ranking.renew(spec.for_instance(None))
        self.ranking.update(changes, self.survivors.recheck(changes))
        return True

    def follow(self, spec: RequestSpec) -> None:
        """Patch what changed after an instance of this request was placed."""
        self.family.catch_up(spec)
        if self.family.classes.get(self._size) is not self:  # so much changed that the family was rebuilt
            self._build(spec)
            self.family.classes[self._size] = self
        self.catch_up(spec)

    def best(self, count: int) -> Order:
        """The `count` best hosts, best first; of equal ones the first rows."""
        found = self.ranking.best(count, self.survivors)
        if found is None:  # the best hosts of all sizes have no room for this one: the fleet is filling up
            self.ranking = self._own_ranking(self.ranking.spec)
            found = self.ranking.best(count, self.survivors)
            if found is None:
                raise Uncacheable("weights are not finite")
        return found

    @property
    def left(self) -> int:
        """How many hosts passed all checks."""
        return self.survivors.left

    def numbers_left(self) -> tuple[RowArray, FloatArray]:
        """Rows of the hosts that passed, and their raw numbers now, a line per weigher."""
        rows = self.survivors.passed()
        return rows, self.ranking.numbers_of_many(rows)

    def can_follow(self, spec: RequestSpec) -> bool:
        """Whether further instances of a request can be answered from here.

        What is checked but once per request must not depend on what its own instances change.
        """
        changed = self.family.table.columns_consumed(spec)
        asked = (check for check in self.survivors.checks if check.ask is not None and check.is_settled_once)
        return not any(check.depends_on(changed) for check in asked)

    def refusal(self) -> tuple[Step, ...]:
        """The steps with what the rejected hosts lacked, where no host passed; cached until something changes."""
        if self._refusal is None:
            self._refusal = tuple(with_details(self.survivors.steps, self.survivors.fallen(), self.family.table))
        return self._refusal


def drop_oldest(cached: OrderedDict[Hashable, Cached], most: int) -> None:
    """Drop the least recently used entry where there are more than `most`."""
    if len(cached) > most:
        cached.popitem(last=False)


def _lacks_all(row: int) -> int:
    """Stands for a room check where it is not known what a row has room for."""
    return 0
