# SPDX-License-Identifier: Apache-2.0
"""Who passed every question of some requests, and at which one the others fell out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from roost.hosts import Hosts, HostTable, capacity
from roost.hosts.arrays import Array, BoolArray, RowArray
from roost.model.decision import Step
from roost.model.lazy import lazy
from roost.scheduler.checks import Check, narrow

PASSED = 255
"""The code of a host that passed; of all others it is the number of the question that took them out."""
FEW = 24
"""So many rows are asked one by one; more of them together."""

Changes = Mapping[int, frozenset[str]]
"""Row -> the columns in which it changed."""


class Uncacheable(Exception):
    """Something that cannot be kept: too many questions for a code, or weights that are no numbers."""


class Survivors(ABC):
    """One code per row, and how many rows have each."""

    def __init__(self, table: HostTable, checks: Sequence[Check]) -> None:
        if len(checks) >= PASSED:
            raise Uncacheable(f"{len(checks)} questions")
        self.table, self.checks = table, checks
        self.codes = self._codes_before()
        self._codes = np.frombuffer(self.codes, dtype=np.uint8)
        self._judge_all()
        self.left = int(np.count_nonzero(self._codes == PASSED))
        """How many passed."""
        self._counts: list[int] | None = None
        self._steps: tuple[Step, ...] | None = None

    def _codes_before(self) -> bytearray:
        """What is known of each row before the questions are put."""
        return bytearray([PASSED]) * len(self.table.names)

    @abstractmethod
    def _judge_all(self) -> None:
        """Put the questions to everybody."""

    @property
    def counts(self) -> list[int]:
        """How many rows have each code. A question that is not put takes nobody out."""
        if self._counts is None:
            self._counts = [0] * PASSED + [self.left]
            for number, check in enumerate(self.checks):
                if check.ask is not None:
                    self._counts[number] = int(np.count_nonzero(self._codes == number))
        return self._counts

    @property
    def steps(self) -> tuple[Step, ...]:
        """The questions in order, with how many were asked and how many were left."""
        if self._steps is None:
            steps, left = [], len(self.codes)
            for check, lost in zip(self.checks, self.counts, strict=False):
                if not left:
                    break
                steps.append(Step(check.stage, check.name, left, left - lost))
                left -= lost
            self._steps = tuple(steps)
        return self._steps

    def passed(self) -> RowArray:
        """The rows that passed."""
        rows: RowArray = (self._codes == PASSED).nonzero()[0]
        return rows

    def fallen(self) -> list[tuple[Check, RowArray]]:
        """The questions that took somebody out, each with whom."""
        numbered = enumerate(self.checks)
        return [(check, np.flatnonzero(self._codes == number)) for number, check in numbered if self.counts[number]]

    def only(self, keys: Array, absent: float) -> Array:
        """The keys, one per row, with this one for all who did not pass."""
        return keys if self.left == len(keys) else np.where(self._codes == PASSED, keys, absent)


class PatchedSurvivors(Survivors):
    """Those that are kept from one request to the next: changed rows are asked again."""

    @abstractmethod
    def _rejudge(self, row: int, columns: frozenset[str]) -> None:
        """Put to one row what it may answer otherwise after a change of these columns."""

    @abstractmethod
    def _rejudge_many(self, rows: RowArray, columns: frozenset[str]) -> None:
        """The same for many at once."""

    def recheck(self, changes: Changes) -> list[int]:
        """Ask the changed rows again what depends on the change. Gives back those that fell out, or came in."""
        before, counts = [self.codes[row] for row in changes], self.counts
        if len(changes) <= FEW:
            for row, columns in changes.items():
                self._rejudge(row, columns)
        else:
            rows = np.fromiter(changes, dtype=np.intp, count=len(changes))
            self._rejudge_many(rows, frozenset().union(*set(changes.values())))
        codes, moved = self.codes, []
        for row, code in zip(changes, before, strict=True):
            now = codes[row]
            if now != code:
                counts[code] -= 1
                counts[now] += 1
                self._steps = None
                if PASSED in (now, code):
                    moved.append(row)
        self.left = counts[PASSED]
        return moved


class SurvivorsOfAnySize(PatchedSurvivors):
    """Those who pass everything but the questions for room: what requests of all sizes have in common."""

    def __init__(self, table: HostTable, checks: Sequence[Check]) -> None:
        super().__init__(table, checks)
        self._askers: list[Callable[[int], bool]] = []
        self._asked_after: dict[frozenset[str], list[int]] = {}

    def renew(self, checks: Sequence[Check], numbers: Iterable[int]) -> None:
        """The questions of these numbers are other ones: the group has other members."""
        self.checks = checks
        if self._askers:
            for number in numbers:
                self._askers[number] = checks[number].for_rows(self.table)

    def asked_after(self, columns: frozenset[str]) -> list[int]:
        """Numbers of the questions that a row may answer otherwise after a change of these columns."""
        asked = self._asked_after.get(columns)
        if asked is None:
            numbered = enumerate(self.checks)
            asked = [number for number, check in numbered if check.ask is not None and check.depends_on(columns)]
            if len(self._asked_after) > 256:
                self._asked_after.clear()
            self._asked_after[columns] = asked
        return asked

    def recheck(self, changes: Changes) -> list[int]:
        """Most changes are of no concern to any question but those for room."""
        columns = changes.values()
        asked = map(self.asked_after, columns if len(columns) == 1 else set(columns))
        return super().recheck(changes) if any(asked) else []

    def _judge_all(self) -> None:
        self._judge(self.table.in_the_running())

    def _judge(self, hosts: Hosts) -> None:
        """Put every question to these rows, which count as passed until one takes them out."""
        for number, asked in enumerate(narrow(hosts, self.checks)):
            if not asked.takes_out:
                continue
            if asked.hosts.are_all:
                _take_out(self._codes, asked.stays, number)
            else:
                self._codes[asked.lost()] = number

    def _rejudge(self, row: int, columns: frozenset[str]) -> None:
        """Everything before the row's question was passed: of that, only what may have changed is asked again."""
        asked = self.asked_after(columns)
        if not asked:
            return
        self._askers = self._askers or [check.for_rows(self.table) for check in self.checks]
        code, askers = self.codes[row], self._askers
        for number in asked:
            if number >= code:
                break
            if not askers[number](row):
                self.codes[row] = number
                return
        if code == PASSED or code not in asked:
            return
        for number in range(code, len(self.checks)):
            if not askers[number](row):
                self.codes[row] = number
                return
        self.codes[row] = PASSED

    def _rejudge_many(self, rows: RowArray, columns: frozenset[str]) -> None:
        asked = self.asked_after(columns)
        if not asked:
            return
        codes = self._codes[rows]
        inside, outside = rows[codes == PASSED], rows[(codes != PASSED) & (codes >= asked[0])]
        for number in asked:
            ask = self.checks[number].ask
            if len(inside) and ask is not None:
                stays = ask(Hosts(self.table, inside, {}))
                self._codes[inside[~stays]] = number
                inside = inside[stays]
        if len(outside):
            self._codes[outside] = PASSED
            self._judge(Hosts(self.table, outside, {}))


class SurvivorsOfOneSize(PatchedSurvivors):
    """Those who have room besides. The questions for room come together, somewhere among the others."""

    def __init__(self, others: SurvivorsOfAnySize, checks: Sequence[Check], amounts: Mapping[str, int]) -> None:
        self._others = others
        self._room = [check for check in checks if check.is_about_room]
        self._start = next((number for number, check in enumerate(checks) if check.is_about_room), PASSED)
        self._amounts = amounts if self._room else {}
        numbers = [*range(self._start), *range(self._start + len(self._room), PASSED)]
        self._renumbered = bytes(numbers).ljust(PASSED + 1, bytes([PASSED]))
        """The codes of the others -> their numbers here."""
        super().__init__(others.table, checks)

    @lazy
    def _first_lack(self) -> Callable[[int], int | None]:
        """What a row has no room for. Most classes are of requests that come once: nobody asks row by row."""
        return capacity.first_lack(self.table, self._amounts)

    def _codes_before(self) -> bytearray:
        return self._others.codes.translate(self._renumbered)

    def _judge_all(self) -> None:
        self._ask_for_room(self.table.in_the_running(), self._codes)

    def _ask_for_room(self, hosts: Hosts, codes: Array) -> None:
        for number, check in enumerate(self._room, start=self._start):
            if check.ask is not None:
                _take_out(codes, check.ask(hosts), number)

    def _rejudge(self, row: int, columns: frozenset[str]) -> None:
        code = self._others.codes[row]
        if code >= self._start:
            lacks = self._first_lack(row)
            if lacks is not None:
                code = self._start + lacks
            elif code != PASSED:
                code += len(self._room)
        self.codes[row] = code

    def _rejudge_many(self, rows: RowArray, columns: frozenset[str]) -> None:
        renumbered = np.frombuffer(self._renumbered, dtype=np.uint8)
        codes = renumbered[np.frombuffer(self._others.codes, dtype=np.uint8)[rows]]
        self._ask_for_room(Hosts(self.table, rows, {}), codes)
        self._codes[rows] = codes


class SurvivorsOfOneRequest(Survivors):
    """Those of a class who pass the questions that only this request asks."""

    def __init__(self, common: Survivors, checks: Sequence[Check]) -> None:
        self._common = common
        super().__init__(common.table, checks)

    def _judge_all(self) -> None:
        known = {name: number for number, name in enumerate(_names(self._common.checks))}
        renumbered, own = bytearray(range(256)), []
        for number, (check, name) in enumerate(zip(self.checks, _names(self.checks), strict=True)):
            before = known.get(name)
            if before is not None:
                renumbered[before] = number
            if check.ask is not None and (before is None or self._common.checks[before].ask is None):
                own.append(number)
        self.codes[:] = self._common.codes.translate(renumbered)
        everybody = self.table.in_the_running()
        for number in own:
            ask = self.checks[number].ask
            if ask is not None:
                self._codes[(self._codes > number) & ~ask(everybody)] = number


def _take_out(codes: Array, stays: BoolArray, number: int) -> None:
    """Who does not stay falls out at the question of this number, if not at an earlier one before.

    Truth is 1, which turned round is 255: the code of those who passed, and more than any number. Such arithmetic on
    bytes takes a fraction of the time in which chosen rows are written.
    """
    marks = np.negative(stays.view(np.uint8))
    marks |= number
    np.minimum(codes, marks, out=codes)


def _names(checks: Iterable[Check]) -> Iterator[tuple[str, str, int]]:
    """What tells questions apart: stage and name, and the how manieth of several it is."""
    seen: Counter[tuple[str, str]] = Counter()
    for check in checks:
        name = check.stage, check.name
        yield (*name, seen[name])
        seen[name] += 1
