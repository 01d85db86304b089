# SPDX-License-Identifier: Apache-2.0
"""Placing on a copy of the table, one instance after the other, as a scheduler would if each were asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roost.errors import NoValidHost
from roost.hosts import Hosts, HostTable
from roost.model.group import ServerGroup
from roost.model.request import RequestSpec
from roost.scheduler.choice import Randomness
from roost.scheduler.group_tracker import GroupTracker
from roost.scheduler.pipeline import Pipeline

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
