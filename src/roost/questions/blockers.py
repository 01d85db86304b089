# SPDX-License-Identifier: Apache-2.0
"""Which checks reject which hosts, what stands between a request and the hosts, and which lifts would let it fit.

A placement stops asking about a host at the first check that rejects it. Here every check is put to every host, each
as if there were no other: it gets a view of its own of all hosts, so that nothing that another one noted there -
narrowed allocation candidates, limits of a plugin - can matter. An obstacle is one subject with the hosts that it
keeps away. A lift is the single check without which a request would fit, or few together where no single one
suffices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from roost.errors import HostFault, RoostError, RuleError
from roost.hosts import Hosts, HostTable, HostView
from roost.hosts.encoded import BoolArray, RowArray
from roost.model.kinds import lazy
from roost.model.remedy import Remedy, counted, listed
from roost.model.request import RequestSpec
from roost.questions.funnel import NONE, ExplainedInstance, Funnel, TableCheck, by_subject, run_funnel, subject_of
from roost.questions.records import Lift
from roost.scheduler.checks import Check


@dataclass(frozen=True)
class Blockers:
    """For each check of a request, the hosts that it rejects."""

    checks: tuple[TableCheck, ...]
    masks: tuple[BoolArray, ...]
    """Per check, one boolean per row of the table: True if it rejects that host."""
    errors: dict[tuple[int, int], RoostError]
    """(Number of a check, row) -> the error that it raised about that host, which then counts as rejected."""

    def of_row(self, row: int) -> list[int]:
        """The numbers of the checks that reject a row."""
        return [number for number, mask in enumerate(self.masks) if mask[row]]

    def counts(self) -> RowArray:
        """Per row, how many checks reject it."""
        return np.sum(self.masks, axis=0, dtype=np.intp) if self.masks else np.zeros(0, dtype=np.intp)


def find_blockers(instance: ExplainedInstance) -> Blockers:
    """Put every check to all hosts, each by itself. Makes no sentences."""
    masks: list[BoolArray] = []
    errors: dict[tuple[int, int], RoostError] = {}
    for number, (check, table) in enumerate(instance.checks):
        rejects = np.ones(len(table.names), dtype=np.bool_)
        for rows, passes, error in _answers(check, table, instance.spec, None):
            if error is None:
                rejects[slice(None) if rows is None else rows] = ~passes
            else:
                errors |= {(number, row): error for row in _all_rows(table, rows)}
        masks.append(rejects)
    return Blockers(instance.checks, tuple(masks), errors)


Answer = tuple[RowArray | None, BoolArray, RoostError | None]
"""Rows (None: all), which of them pass, and the error that was raised about them in place of an answer."""
_NO_ANSWER: BoolArray = np.zeros(0, dtype=np.bool_)


def _answers(check: Check, table: HostTable, spec: RequestSpec, rows: RowArray | None) -> Iterator[Answer]:
    """What a check says of these rows. After an error it is put to each half, until the error is about one host."""
    assert check.ask is not None  # noqa: S101 - the caller has no others
    hosts = Hosts(table, rows, {})
    if spec.candidates is not None and check.rule is not None:
        _note_candidates(hosts, spec)
    try:
        yield rows, check.ask(hosts), None
    except RoostError as error:
        is_about_request = isinstance(error, RuleError) and not isinstance(error, HostFault)
        if is_about_request or len(hosts) < 2:
            yield rows, _NO_ANSWER, error
            return
        everyone = _all_rows(table, rows)
        for half in (everyone[: len(everyone) // 2], everyone[len(everyone) // 2 :]):
            yield from _answers(check, table, spec, half)


def _all_rows(table: HostTable, rows: RowArray | None) -> RowArray:
    return np.arange(len(table.names)) if rows is None else rows


def _note_candidates(hosts: Hosts, spec: RequestSpec) -> None:
    """Note what placement offers on each host, as its own check does before filters are asked.

    Hosts on which it offers nothing keep what they have: a filter must not be blamed for that.
    """
    assert spec.candidates is not None  # noqa: S101 - asked by the caller
    for host in hosts:
        if offered := spec.candidates.of(host.uuid):
            host.allocation_candidates = offered


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


FORCED = "force_hosts"
"""The subject of a request that is forced to hosts: lifted, all filters are asked, which forced hosts skip."""
MOST_COMBINATIONS, EXAMPLES = 5, 3


def find_lifts(obstacles: Obstacles) -> tuple[Lift, ...]:
    """The smallest sets of subjects without which the request fits, the one with most hosts first.

    Each is tried: the other checks are put to the hosts again. So it is true for plugins, too, which may look at
    several hosts at once.
    """
    tries_all = obstacles.unexplained.any()  # then a check may be to blame that rejects no host by itself
    singles = [(name,) for name, mask in obstacles.masks.items() if tries_all or mask.any()]
    found = list(_tried(obstacles, singles)) or list(_tried(obstacles, _smallest_combinations(obstacles)))
    return tuple(sorted(found, key=lambda each: -each.hosts))


def _tried(obstacles: Obstacles, combinations: Iterable[tuple[str, ...]]) -> Iterator[Lift]:
    """Those of these combinations of subjects without which the request fits."""
    for subjects in combinations:
        numbers = [number for subject in subjects for number in obstacles.subjects[subject]]
        try:
            if FORCED in subjects:
                left = run_funnel(obstacles.instance.unforced()).left
            else:
                left = run_funnel(obstacles.instance, without=numbers).left
        except RoostError:  # another check raises an error about a host that it would now be put to
            continue
        if len(left):
            yield Lift(subjects, _names(obstacles, numbers, left), len(left), _examples(left))


def _names(obstacles: Obstacles, numbers: list[int], left: Hosts) -> tuple[str, ...]:
    """The names of the checks among these that reject one of the hosts."""
    guilty = [number for number in numbers if obstacles.rejects(number, left.rows).any()]
    return tuple(obstacles.check(number).name for number in guilty or numbers)


def _examples(hosts: Hosts) -> tuple[str, ...]:
    """The first hosts by name, of a host with several nodes each node."""
    table = hosts.table
    pairs = [table.names[row] for row in hosts.rows[:EXAMPLES].tolist()]
    return tuple(host if len(table.rows_of_host(host)) == 1 else f"{host} (node {node})" for host, node in pairs)


def _smallest_combinations(obstacles: Obstacles) -> list[tuple[str, ...]]:
    """The sets of subjects that reject the hosts with the fewest obstacles, the most frequent ones."""
    names = [name for name, mask in obstacles.masks.items() if mask.any()]
    if not names:
        return []
    rows = np.flatnonzero(obstacles.counts == obstacles.counts.min())
    bits = np.packbits([obstacles.masks[name][rows] for name in names], axis=0)
    _, firsts, counts = np.unique(bits, axis=1, return_index=True, return_counts=True)
    frequent = firsts[np.argsort(-counts, kind="stable")[:MOST_COMBINATIONS]]
    return [tuple(obstacles.of_row(row)) for row in rows[frequent].tolist()]
