# SPDX-License-Identifier: Apache-2.0
"""Placing on a copy of the table to see how many fit: one instance after the other, on all hosts or on one alone.

Also the hosts by availability zone, or by another metadata key of their aggregates, for counts of each group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from roost.errors import NoValidHost, UnknownName, nearest
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.filters.base import Filter
from roost.hosts import Hosts, HostTable
from roost.hosts.encoded import RowArray
from roost.model.group import Aggregate, ServerGroup, split_values
from roost.model.request import RequestSpec
from roost.scheduler.groups import GroupTracker
from roost.scheduler.pipeline import Pipeline
from roost.scheduler.search import Randomness

AVAILABILITY_ZONE = "availability_zone"
NO_VALUE = "(none)"
"""The group of hosts of which no aggregate has the key."""


def rows_by_value(table: HostTable, key: str, filters: Sequence[Filter]) -> dict[str, RowArray]:
    """Value of the metadata key -> rows of the hosts with that value, sorted by value.

    Several values of a host are joined by commas. `filters`: an AvailabilityZoneFilter among them knows the zone of
    hosts without one. Raises UnknownName for a key that no aggregate has.
    """
    check_group_key(table, key)
    values_of = _values_of(key, filters)
    names = table.per_value("aggregates", lambda each: ", ".join(sorted(values_of(each))) or NO_VALUE, np.object_)
    return {name: np.flatnonzero(names == name) for name in sorted(set(names.tolist()))}


def check_group_key(table: HostTable, key: str) -> None:
    """UnknownName, with the nearest, for a metadata key that no aggregate has."""
    known = {name for each in table.known_aggregates for name in each.metadata} | table.metadata_keys
    if key not in known and key != AVAILABILITY_ZONE:
        raise UnknownName(f"no aggregate has the metadata key {key!r}", nearest(key, known | {AVAILABILITY_ZONE}))


def _values_of(key: str, filters: Sequence[Filter]) -> Callable[[Collection[Aggregate]], Collection[str]]:
    if key == AVAILABILITY_ZONE:
        enabled = (rule for rule in filters if isinstance(rule, AvailabilityZoneFilter))
        return next(enabled, AvailabilityZoneFilter()).zones_of
    return lambda aggregates: split_values(aggregates, key)


MOST_PLACED = 1_000_000
"""Counting stops here by default: a request that takes nothing of its hosts would fit without end."""
_STEP = 256
"""So many instances are placed between two notes of progress."""

Progress = Callable[[str, int, int], None]
"""Gets what is being counted ("instances" or "hosts"), how many are done, and about how many there are."""
Placement = tuple[int, RequestSpec]
"""Row, and what it consumed there: the request for `HostTable.release`."""


@dataclass(frozen=True)
class Trial:
    """A copy of a scheduler's table and of its server groups, to place on without consequences."""

    table: HostTable
    groups: GroupTracker
    pipeline: Pipeline
    randomness: Randomness
    with_members: Callable[[RequestSpec, Sequence[str]], RequestSpec]
    """Gives a request the members that its group has now, these instances among them, and their hosts."""

    def place(self, spec: RequestSpec, uuid: str, hosts: Hosts | None = None) -> Placement:
        """Place one instance, which counts as built at once; NoValidHost if no host is left.

        `hosts`: those to choose from; None: all.
        """
        spec = self.with_members(spec, [uuid]).for_instance(uuid)
        row, consumed = self._place(spec, hosts)
        if spec.instance_group is not None:
            self.groups.note(spec.instance_group, [uuid], [self.table.names[row][0]])
        return row, consumed

    def place_again(self, spec: RequestSpec) -> Placement:
        """Place a server that lost its host, a member of its group already; NoValidHost if no host is left."""
        return self._place(self.with_members(spec, [str(spec.instance_uuid)]), None)

    def _place(self, spec: RequestSpec, hosts: Hosts | None) -> Placement:
        table, uuids = self.table, [spec.instance_uuid]
        decision = self.pipeline.place(table, spec, uuids, randomness=self.randomness, clock=_no_clock, hosts=hosts)
        (selection,) = decision.selections
        row, placed = selection.row, selection.placed or spec
        if placed.image:
            table.note_image(row, placed)
        return row, table.finish_build(row, placed)

    def fill(self, spec: RequestSpec, most: int, progress: Callable[[int], None]) -> Filled:
        """Place instances until no host is left, or `most` are placed."""
        counts: Counter[int] = Counter()
        for done in range(most):
            if not done % _STEP:
                progress(done)
            try:
                row, _ = self.place(spec, trial_uuid(done))
            except NoValidHost:
                return Filled(counts, True)
            counts[row] += 1
            if done == 0 and spec.instance_group is not None:
                spec = spec.with_group(_tracked(spec.instance_group))
        return Filled(counts, False)


def release_all(table: HostTable, placements: Sequence[Placement]) -> None:
    """Undo placements, the latest first."""
    for row, consumed in reversed(placements):
        table.release(row, consumed)


Trials = Callable[[], Trial]
"""Makes a trial of the state that the scheduler is in; it ends the one before."""


@dataclass(frozen=True)
class Filled:
    """Where the instances of a request went."""

    counts: Counter[int]
    """Row -> number of instances."""
    is_full: bool
    """Whether no further instance fits; False where the limit was reached before."""


def trial_uuid(number: int) -> str:
    """The uuid of the instance of this number in a trial."""
    return f"68656164-726f-4f6d-8000-{number:012x}"


def _tracked(group: ServerGroup) -> ServerGroup:
    """The group without the members that a tracker knows by now: to look up all of them each time is quadratic."""
    return group.updated((), group.hosts) if group.uuid or group.name else group


def _no_clock() -> int:
    """Stands for the clock of a pipeline whose times are of no interest."""
    return 0


class OneHostCount:
    """Counts on single hosts of one trial. Only for requests whose answer for a host depends on that host alone.

    Instances without NUMA cells or PCI devices are put to the checks of the pipeline row by row, as the incremental
    engine does; there is nothing to weigh. Counts are memoised by what is in use on the host.
    """

    def __init__(self, trial: Trial, spec: RequestSpec) -> None:
        self._trial, self._spec = trial, spec
        self._is_fitted = bool(spec.numa_topology or spec.pci_requests)
        self._columns = sorted(trial.table.columns_consumed(spec) & trial.table.numbers.keys())
        self._generation = -1
        self._askers: list[Callable[[int], bool]] = []
        self._is_memoised = False
        self._memo: dict[tuple[float, ...], int] = {}

    def count(self, row: int) -> int:
        """How many instances fit on this row now. The table is left as it is."""
        if self._is_fitted:
            return self._count(row, self._place)
        self._refresh()
        if not self._is_memoised:
            return self._count(row, self._place_checked)
        buffers = self._trial.table.buffers
        state = (row, *[buffers[name][row] for name in self._columns])
        known = self._memo.get(state)
        if known is None:
            known = self._memo[state] = self._count(row, self._place_checked)
        return known

    def _count(self, row: int, place: Callable[[int, str], Placement | None]) -> int:
        placements: list[Placement] = []
        while (placed := place(row, trial_uuid(len(placements)))) is not None:
            placements.append(placed)
        release_all(self._trial.table, placements)
        return len(placements)

    def _place(self, row: int, uuid: str) -> Placement | None:
        try:
            return self._trial.place(self._spec, uuid, self._trial.table.one(row))
        except NoValidHost:
            return None

    def _place_checked(self, row: int, uuid: str) -> Placement | None:
        for passes in self._askers:
            if not passes(row):
                return None
        table = self._trial.table
        return row, table.finish_build(row, table.consume(row, self._spec.for_instance(uuid)))

    def _refresh(self) -> None:
        """Make the checks anew where the columns that they refer to were replaced."""
        table = self._trial.table
        if self._generation == table.generation:
            return
        checks = self._trial.pipeline.rules.checks(table, self._spec.for_instance(trial_uuid(0)), index=0)
        asked = [check for check in checks if check.ask is not None]
        self._askers = [check.for_rows(table) for check in asked]
        self._is_memoised = not any(check.depends_on(frozenset({"instances"})) for check in asked)
        self._generation = table.generation
