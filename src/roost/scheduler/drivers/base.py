# SPDX-License-Identifier: Apache-2.0
"""The contract of a driver, and what all of them share: whatever a driver chooses is claimed.

A driver of your own derives from `Driver`, says in `choose` which hosts take the instances of a request, and is named
in `[scheduler] driver`: by its dotted path, or by an entry point in the group `roost.scheduler.drivers`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import Engine

from roost.claims import Ledger
from roost.clock import Clock
from roost.config import Settings
from roost.errors import NoValidHost, PluginFailed, RoostError
from roost.filters.compute import ComputeFilter
from roost.hosts import Hosts, HostTable, HostView
from roost.inventory import read_hosts_up
from roost.model import Decision, RequestSpec, Selection
from roost.model.decision import Step
from roost.plugins import places_of
from roost.scheduler.checks import capacity_checks, filter_checks
from roost.scheduler.claiming import Chooser, ClaimLoop, Placement, Replica
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.preparation import Preparation
from roost.scheduler.weighing import Randomness

COMPUTE_TOPIC = "compute"


@dataclass(frozen=True)
class Surroundings:
    """What a driver works with."""

    engine: Engine
    picture: Replica
    ledger: Ledger
    settings: Settings
    clock: Clock
    randomness: random.Random
    files: Sequence[Path] = ()
    """Config files, in which people's own plugins find their options, and beside which their modules may lie."""
    on_refusal: Callable[[], None] = field(default=lambda: None)
    """Told of every claim that somebody else was faster for."""

    @property
    def places(self) -> list[Path]:
        """Folders where people's own modules may lie."""
        return places_of(self.files)


class Driver:
    """Chooses hosts for requests, from a picture of the fleet that is shared with whoever else uses it."""

    looks_again = True
    """Whether the fleet is looked at once more before anybody hears that there is no host."""
    notifies = True
    """Whether requests are announced: scheduler.select_destinations.start and .end."""
    names_nodes = True
    """Whether answers in nova's older form say which node of the host it is."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.scheduler = ClaimLoop(
            surroundings.picture,
            self.chooser(),
            surroundings.ledger,
            preparation=self.preparation(),
            longest_age_seconds=self.longest_age_seconds,
            looks_again=self.looks_again,
            randomness=surroundings.randomness,
            clock=surroundings.clock.monotonic,
            sleep=surroundings.clock.sleep,
            on_refusal=surroundings.on_refusal,
        )

    # --- for drivers of your own -------------------------------------------------------------------------

    def choose(
        self, hosts: list[HostView], spec: RequestSpec, count: int, randomness: Randomness
    ) -> Iterable[HostView]:
        """The hosts for `count` instances, in their order, of these, which are up and have room for one each.

        Fewer where there are no more.
        """
        raise NotImplementedError

    def run_periodic_tasks(self) -> None:
        """Called when the service starts, then every `periodic_task_interval` seconds."""

    # --- what the service asks for -----------------------------------------------------------------------

    def select_destinations(
        self, spec: RequestSpec, instance_uuids: Sequence[str] | None, alternates: int = 0
    ) -> Placement:
        """Hosts for all instances, claimed where their uuids are known; NoValidHost where one has none."""
        return self.scheduler.select(spec, instance_uuids, alternates)

    def get_ready(self, after: Placement) -> None:
        """Called when the caller has its answer: time for what the next one should not have to wait for."""
        self.scheduler.get_ready(after)

    def hosts_up(self, topic: str = COMPUTE_TOPIC) -> list[str]:
        """Hosts with a service of this topic that is enabled and was heard of lately."""
        options = self.surroundings.settings.fill(SchedulerOptions)
        now = self.surroundings.clock.now()
        return read_hosts_up(self.surroundings.engine, topic, now, options.seconds_until_down)

    def take_up(self, settings: Settings) -> None:
        """Go by these options from now on; RoostError, and everything as before, where they are wrong."""
        self.surroundings = replace(self.surroundings, settings=settings)
        self.scheduler.longest_age_seconds = self.longest_age_seconds

    def why_nowhere(self, error: NoValidHost) -> str:
        """What a caller is told when there is no host. Counts of hosts are for the log: callers may be anybody."""
        return "There are not enough hosts available."

    @property
    def longest_age_seconds(self) -> float:
        """How old the picture may be that a request is first placed on."""
        return self.surroundings.settings.fill(ServiceOptions).longest_picture_age_seconds

    def preparation(self) -> Preparation | None:
        """What completes requests before hosts are looked at; none where nobody asks for it."""
        return None

    def chooser(self) -> Chooser:
        """Who is asked for hosts: `choose`, unless a driver has somebody else."""
        return _OwnChoice(self)


class _OwnChoice:
    """Makes a decision of what a driver of somebody's own says."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._name = driver, type(driver).__name__

    def place(
        self,
        table: HostTable,
        spec: RequestSpec,
        uuids: Sequence[str | None],
        *,
        randomness: Randomness,
        clock: Callable[[], int],
        alternates: int = 0,
    ) -> Decision:
        """Put the hosts that `choose` names into a decision, and consume them; without alternates."""
        started = clock()
        hosts, steps = _hosts_with_room(table, spec)
        chosen = self._ask([HostView(table, row) for row in hosts.rows.tolist()], spec, len(uuids), randomness)
        selections: list[Selection] = []
        try:
            for host, uuid in zip(chosen, uuids, strict=False):
                selections.append(_consume(table, host, spec.for_instance(uuid)))
            if len(selections) < len(uuids):
                raise NoValidHost(self._decision(table, steps, uuids, (), clock() - started, len(selections)))
        except BaseException:
            for each in selections:
                if each.placed is not None:
                    table.release(each.row, each.placed)
            raise
        return self._decision(table, steps, uuids, tuple(selections), clock() - started)

    def get_ready(self, table: HostTable, spec: RequestSpec) -> None:
        """Nothing is kept."""

    def _ask(self, hosts: list[HostView], spec: RequestSpec, count: int, randomness: Randomness) -> list[HostView]:
        try:
            return list(self._driver.choose(hosts, spec, count, randomness))
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(self._name, "", cause) from cause

    def _decision(
        self,
        table: HostTable,
        steps: list[Step],
        uuids: Sequence[str | None],
        selections: tuple[Selection, ...],
        nanoseconds: int,
        failed_at: int | None = None,
    ) -> Decision:
        left = steps[-1].after
        if failed_at is not None and left:
            steps = [*steps, Step("choose", self._name, left, 0)]
        return Decision(
            hosts=len(table.names),
            wanted=len(uuids),
            steps=tuple(steps),
            weighers=(),
            best=(),
            selections=selections,
            time_us={"choose": nanoseconds / 1000, "total": nanoseconds / 1000},
            failed_at=failed_at,
        )


def _hosts_with_room(table: HostTable, spec: RequestSpec) -> tuple[Hosts, list[Step]]:
    """Those whose agent is alive and who have room for one instance, and how many that left."""
    hosts: Hosts = table.in_the_running()
    steps = []
    for check in (*capacity_checks(spec), *filter_checks([ComputeFilter()], spec, 0)):
        left = check.survivors(hosts)
        steps.append(Step(check.stage, check.name, len(hosts), len(left)))
        hosts = left
    return hosts, steps


def _consume(table: HostTable, host: HostView, spec: RequestSpec) -> Selection:
    """The host takes the instance in."""
    row = table.find_row((host.host, host.nodename))
    if row is None:
        raise ValueError(f"{host!r} is not one of the hosts to choose from")
    return Selection(
        host.host, host.nodename, host.limits, spec.instance_uuid, placed=table.consume(row, spec), row=row
    )
