# SPDX-License-Identifier: Apache-2.0
"""Which hosts passed every check of some requests, and which check rejected the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from roost.hosts import Hosts, HostTable, capacity
from roost.hosts.encoded import Array, BoolArray, RowArray
from roost.model.decision import Step
from roost.model.kinds import lazy
from roost.scheduler.checks import Check, narrow
from roost.scheduler.search import Uncacheable

PASSED = 255
"""The code of a host that passed; that of a rejected one is the number of the check that rejected it."""
FEW = 24
"""Up to so many rows are asked one by one, more of them in bulk."""

Changes = Mapping[int, frozenset[str]]
"""Row -> the columns in which it changed."""


class Survivors(ABC):
    """A code per row, and how many rows have each."""

    def __init__(self, table: HostTable, checks: Sequence[Check]) -> None:
        if len(checks) >= PASSED:
            raise Uncacheable(f"{len(checks)} checks")
        self.table, self.checks = table, checks
        self.codes = self._codes_before()
        self._codes = np.frombuffer(self.codes, dtype=np.uint8)
        self._judge_all()
        self.left = int(np.count_nonzero(self._codes == PASSED))
        """How many rows passed."""
        self._counts: list[int] | None = None
        self._steps: tuple[Step, ...] | None = None

    def _codes_before(self) -> bytearray:
        """The code of each row before its checks are made."""
        return bytearray([PASSED]) * len(self.table.names)

    @abstractmethod
    def _judge_all(self) -> None:
        """Make the checks for all rows."""

    @property
    def counts(self) -> list[int]:
        """How many rows have each code. A check that has nothing to do rejects none."""
        if self._counts is None:
            self._counts = [0] * PASSED + [self.left]
            for number, check in enumerate(self.checks):
                if check.ask is not None:
                    self._counts[number] = int(np.count_nonzero(self._codes == number))
        return self._counts

    @property
    def steps(self) -> tuple[Step, ...]:
        """The checks in order, each with the hosts before and after it."""
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
        """The checks that rejected hosts, each with the rows it rejected."""
        numbered = enumerate(self.checks)
        return [(check, np.flatnonzero(self._codes == number)) for number, check in numbered if self.counts[number]]

    def only(self, keys: Array, absent: float) -> Array:
        """The keys, one per row, with `absent` for rows that did not pass."""
        return keys if self.left == len(keys) else np.where(self._codes == PASSED, keys, absent)


class PatchedSurvivors(Survivors):
    """Survivors that are cached from one request to the next: changed rows are checked again."""

    @abstractmethod
    def _rejudge(self, row: int, columns: frozenset[str]) -> None:
        """Repeat the checks of one row whose answer may differ after a change of these columns."""

    @abstractmethod
    def _rejudge_many(self, rows: RowArray, columns: frozenset[str]) -> None:
        """`_rejudge` in bulk."""

    def recheck(self, changes: Changes) -> list[int]:
        """Repeat the checks that depend on the changes; returns rows that are rejected, or pass again, by that."""
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
    """The hosts that pass all checks but those for room, which requests of all sizes share."""

    def __init__(self, table: HostTable, checks: Sequence[Check]) -> None:
        super().__init__(table, checks)
        self._askers: list[Callable[[int], bool]] = []
        self._asked_after: dict[frozenset[str], list[int]] = {}

    def renew(self, checks: Sequence[Check], numbers: Iterable[int]) -> None:
        """Replace the checks of these numbers: the group has other members."""
        self.checks = checks
        if self._askers:
            for number in numbers:
                self._askers[number] = checks[number].for_rows(self.table)

    def asked_after(self, columns: frozenset[str]) -> list[int]:
        """Numbers of the checks whose answer may differ after a change of these columns."""
        asked = self._asked_after.get(columns)
        if asked is None:
            numbered = enumerate(self.checks)
            asked = [number for number, check in numbered if check.ask is not None and check.depends_on(columns)]
            if len(self._asked_after) > 256:
                self._asked_after.clear()
            self._asked_after[columns] = asked
        return asked

    def recheck(self, changes: Changes) -> list[int]:
        """Repeat the checks that depend on the changes; most changes concern none but those for room."""
        columns = changes.values()
        asked = map(self.asked_after, columns if len(columns) == 1 else set(columns))
        return super().recheck(changes) if any(asked) else []

    def _judge_all(self) -> None:
        self._judge(self.table.in_the_running())

    def _judge(self, hosts: Hosts) -> None:
        """Make every check for these rows, which count as passed until one rejects them."""
        for number, asked in enumerate(narrow(hosts, self.checks)):
            if not asked.takes_out:
                continue
            if asked.hosts.are_all:
                _reject(self._codes, asked.stays, number)
            else:
                self._codes[asked.lost()] = number

    def _rejudge(self, row: int, columns: frozenset[str]) -> None:
        """Checks before the one that rejected the row were passed: of these, only what may differ is repeated."""
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
    """The hosts that have room for one size besides. The checks for room follow one another among all checks."""

    def __init__(self, others: SurvivorsOfAnySize, checks: Sequence[Check], amounts: Mapping[str, int]) -> None:
        self._others = others
        self._room = [check for check in checks if check.is_about_room]
        self._start = next((number for number, check in enumerate(checks) if check.is_about_room), PASSED)
        self._amounts = amounts if self._room else {}
        numbers = [*range(self._start), *range(self._start + len(self._room), PASSED)]
        self._renumbered = bytes(numbers).ljust(PASSED + 1, bytes([PASSED]))
        """Code among the checks of all sizes -> number of that check here."""
        super().__init__(others.table, checks)

    @lazy
    def _first_lack(self) -> Callable[[int], int | None]:
        """A function that gives what a row has no room for, None where it has room."""
        return capacity.first_shortage(self.table, self._amounts)

    def _codes_before(self) -> bytearray:
        return self._others.codes.translate(self._renumbered)

    def _judge_all(self) -> None:
        self._ask_for_room(self.table.in_the_running(), self._codes)

    def _ask_for_room(self, hosts: Hosts, codes: Array) -> None:
        for number, check in enumerate(self._room, start=self._start):
            if check.ask is not None:
                _reject(codes, check.ask(hosts), number)

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
    """The hosts of a class that pass one request's own checks, too."""

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
        hosts = self.table.in_the_running()
        for number in own:
            ask = self.checks[number].ask
            if ask is not None:
                self._codes[(self._codes > number) & ~ask(hosts)] = number


def _reject(codes: Array, stays: BoolArray, number: int) -> None:
    """Reject the hosts that do not stay with the check of this number, if no earlier check rejected them.

    True is 1, which negated is 255 as a byte: the code of hosts that passed, and more than any number of a check.
    Arithmetic on bytes takes a fraction of the time of writing selected rows.
    """
    marks = np.negative(stays.view(np.uint8))
    marks |= number
    np.minimum(codes, marks, out=codes)


def _names(checks: Iterable[Check]) -> Iterator[tuple[str, str, int]]:
    """What identifies checks: stage, name, and a number for checks that share both."""
    seen: Counter[tuple[str, str]] = Counter()
    for check in checks:
        name = check.stage, check.name
        yield (*name, seen[name])
        seen[name] += 1
