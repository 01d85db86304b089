# SPDX-License-Identifier: Apache-2.0
"""What stands between a request and the hosts: one obstacle per subject, with the hosts that it keeps away."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from roost.errors import RoostError
from roost.hosts import Hosts, HostTable, HostView
from roost.hosts.arrays import BoolArray, RowArray
from roost.model.lazy import lazy
from roost.model.remedy import Remedy, counted, listed
from roost.model.request import RequestSpec
from roost.scheduler.checks import Check
from roost.scheduler.explain.blockers import Blockers
from roost.scheduler.explain.funnel import NONE, Funnel
from roost.scheduler.explain.subjects import by_subject, subject_of

ANTI_AFFINITY = "ServerGroupAntiAffinityFilter"
_IN_WORDS = {"disabled": "disabled or down"}
"""Subjects whose first check stands for less than all of them do."""


class Obstacles:
    """The subjects that reject hosts, and for each host how many of them do."""

    def __init__(self, blockers: Blockers, funnel: Funnel) -> None:
        self.instance, self._blockers, self._funnel = funnel.instance, blockers, funnel
        self.subjects = by_subject([check for check, _ in blockers.checks])
        """Subject -> numbers of its checks."""
        self.unexplained: BoolArray = (funnel.first != NONE) & (blockers.counts() == 0)
        """The rows that no check rejects alone, although a placement rejects them.

        An earlier check may have removed the allocation candidates there that a later one would have accepted.
        """
        self.masks = {name: self._mask_of(numbers) for name, numbers in self.subjects.items()}
        """Subject -> the rows that it rejects."""
        size = len(self.instance.table.names)
        self.counts: RowArray = np.sum([np.zeros(size, dtype=np.intp), *self.masks.values()], axis=0)
        """Per row, how many subjects reject it."""

    def _mask_of(self, numbers: list[int]) -> BoolArray:
        """The rows that one of these checks rejects alone, or first of all where none does so alone."""
        masks = self._blockers.masks
        rejects: BoolArray = np.logical_or.reduce([masks[number] for number in numbers])
        return rejects | (self.unexplained & np.isin(self._funnel.first, numbers))

    def all(self) -> list[Obstacle]:
        """Those that reject a host, the only obstacle of most hosts first, then the most frequent."""
        found = [Obstacle(name, numbers, self) for name, numbers in self.subjects.items() if self.masks[name].any()]
        return sorted(found, key=lambda each: (-len(each.only), -len(each.rejected)))

    def check(self, number: int) -> Check:
        """The check of this number."""
        return self._blockers.checks[number].check

    def table(self, number: int) -> HostTable:
        """The table that the check of this number is put to."""
        return self._blockers.checks[number].table

    def reason(self, row: int, number: int) -> str:
        """Why a check rejects a row; the error, if it raised one about it, or cannot give its reason."""
        if error := self._blockers.errors.get((number, row)):
            return f"could not be asked: {error.message}"
        try:
            return self.check(number).reason(self._view(row, number))
        except RoostError as failure:
            return f"gives no reason: {failure.message}"

    def remedy(self, row: int, number: int) -> Remedy | None:
        """What would let a row pass a check; None if there is no sensible way, or the check raised an error."""
        if (number, row) in self._blockers.errors:
            return None
        found = self.check(number).remedy(self._view(row, number))
        placed = self.instance.placed
        if found and self.check(number).name == ANTI_AFFINITY and 0 < placed < self.instance.wanted:
            # The members there are instances of this very request: there is nothing to move away.
            text = f"ask for at most {counted(placed, 'instance')}, or use a group that allows more members per host"
            return Remedy(text, found.changes)
        return found

    def _view(self, row: int, number: int) -> HostView:
        return self._funnel.host(row, self._blockers.checks[number])

    def rejects(self, number: int, rows: RowArray) -> BoolArray:
        """Which of these rows a check rejects."""
        return self._blockers.masks[number][rows]

    def first_subjects(self, rows: RowArray) -> list[str]:
        """For each of these rows, what the check is about that rejects it first in a placement."""
        numbers = self._funnel.first[rows]
        return [subject_of(self.check(number)) for number in numbers[numbers != NONE].tolist()]

    def of_row(self, row: int) -> list[str]:
        """The subjects that reject a row."""
        return [name for name, mask in self.masks.items() if mask[row]]


@dataclass(frozen=True)
class Obstacle:
    """One subject, such as memory or the zone, that rejects hosts."""

    subject: str
    numbers: list[int]
    among: Obstacles

    @property
    def spec(self) -> RequestSpec:
        """The request."""
        return self.among.instance.spec

    @lazy
    def rejected(self) -> RowArray:
        """The rows that it rejects."""
        return np.flatnonzero(self.among.masks[self.subject])

    @lazy
    def passing(self) -> RowArray:
        """The rows that it does not reject."""
        return np.flatnonzero(~self.among.masks[self.subject])

    @lazy
    def only(self) -> RowArray:
        """The rows that it rejects and nothing else does."""
        return np.flatnonzero(self.among.masks[self.subject] & (self.among.counts == 1))

    @lazy
    def nearest(self) -> RowArray:
        """The rejected rows with the fewest other obstacles: `only`, if there are some."""
        rows = self.rejected
        counts = self.among.counts[rows]
        fewest: RowArray = rows[counts == counts.min()]
        return fewest

    def number_for(self, row: int) -> int:
        """The check of the subject that rejects a row; the first of several."""
        here = np.array([row], dtype=np.intp)
        return next((each for each in self.numbers if self.among.rejects(each, here)[0]), self.numbers[0])

    @property
    def check(self) -> Check:
        """The check of the subject that rejects the first of the nearest rows."""
        return self.among.check(self.number_for(int(self.nearest[0])))

    def hosts(self, rows: RowArray) -> Hosts:
        """These rows as hosts."""
        return Hosts(self.among.table(self.numbers[0]), rows, {})

    def names(self, rows: RowArray, most: int = 3) -> str:
        """The names of the hosts in these rows; those beyond `most` are counted."""
        names = self.among.instance.table.names
        return listed(list(dict.fromkeys(names[row][0] for row in rows.tolist())), most)

    def others(self, rows: RowArray, most: int = 3) -> str:
        """What rejects these rows, which pass it: `ram (4) and disabled or down (1), also by disk`.

        Each host counts once, with what rejects it first in a placement: the numbers add up to all of them.
        """
        firsts = Counter(self.among.first_subjects(rows)).most_common()
        told = [f"{_in_words(name)} ({count:,})" for name, count in firsts[:most]]
        if rest := sum(count for _, count in firsts[most:]):
            told.append(f"others ({rest:,})")
        names = {name for name, _ in firsts}
        later = [_in_words(name) for name, mask in self.among.masks.items() if name not in names and mask[rows].any()]
        return listed(told, len(told)) + (f", also by {listed(later)}" if later else "")


def _in_words(subject: str) -> str:
    return _IN_WORDS.get(subject, subject)
