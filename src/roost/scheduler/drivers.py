# SPDX-License-Identifier: Apache-2.0
"""Drivers: each chooses hosts, and the claim loop claims whatever it chooses.

`[scheduler] driver` names one: `filter_scheduler` (filters and weighers over every host; the default),
`caching_scheduler` (the same over a replica that is refreshed now and then), `chance_scheduler` (any host that is up
and has room, at random), or one of your own: a class that derives from `Driver` and says in `choose` which hosts take
the instances of a request, named by its dotted path or by an entry point in the group `roost.scheduler.drivers`.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from roost.errors import PAGE, NoValidHost, PluginFailed, PluginNotFound, RoostError, nearest
from roost.filters.compute import ComputeFilter
from roost.hosts import Hosts, HostTable, HostView
from roost.model import Decision, RequestSpec, Selection, ServerGroup
from roost.model.decision import Step
from roost.options.settings import Settings
from roost.plugins.context import PluginContext, TableState
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import import_path, load_point, places_of
from roost.scheduler.build import Preparation, build_pipeline
from roost.scheduler.checks import capacity_checks, filter_checks, is_forced
from roost.scheduler.claiming import Chooser, Replica
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.pipeline import Pipeline, make_decision, make_selection
from roost.scheduler.search import Choice, Randomness

Choose = Callable[[list[HostView], RequestSpec, int, Randomness], Iterable[HostView]]


COMPUTE_TOPIC = "compute"

FindGroup = Callable[[str], ServerGroup | None]
"""Gives a server group by its uuid; None where there is none."""
ReadHostsUp = Callable[[str, float], list[str]]
"""Gives the names of the hosts whose service of a topic is up, by the topic and the seconds until one is down."""


class Driver:
    """Chooses hosts for requests from the replica of the fleet."""

    refreshes_before_refusal = True
    """Whether the replica is refreshed before a request is told that there is no host."""
    refreshes_periodically = False
    """Whether the replica is refreshed in each run of the periodic task."""
    notifies = True
    """Whether notifications are sent: scheduler.select_destinations.start and .end."""
    names_nodes = True
    """Whether answers in nova's older form say which node of the host it is."""

    def __init__(
        self,
        settings: Settings,
        replica: Replica,
        files: Sequence[Path] = (),
        find_group: FindGroup = lambda uuid: None,
        read_hosts_up: ReadHostsUp = lambda topic, seconds_until_down: [],
    ) -> None:
        """`files`: config files; plugins read options from them, and may lie beside them."""
        self.replica, self.files = replica, files
        self.find_group, self.read_hosts_up = find_group, read_hosts_up
        self._use(settings)

    # --- for drivers of your own -------------------------------------------------------------------------

    def choose(
        self, hosts: list[HostView], spec: RequestSpec, count: int, randomness: Randomness
    ) -> Iterable[HostView]:
        """The hosts for `count` instances, one each, from these, which are up and have room for one instance.

        Fewer where there are no more.
        """
        raise NotImplementedError

    def run_periodic_tasks(self) -> None:
        """Called when the service starts, then every `periodic_task_interval` seconds."""

    def hosts_up(self, topic: str = COMPUTE_TOPIC) -> list[str]:
        """Names of the hosts whose service of this topic is enabled and alive, read from the database now."""
        return self.read_hosts_up(topic, self.settings.fill(SchedulerOptions).seconds_until_down)

    # --- for the claim loop ------------------------------------------------------------------------------

    def chooser(self) -> Chooser:
        """What finds the hosts: `choose`, unless a driver has something else."""
        return OwnChoice(type(self).__name__, self.choose)

    def preparation(self) -> Preparation | None:
        """What completes requests before hosts are chosen; None where nothing does."""
        return None

    @property
    def longest_age_seconds(self) -> float:
        """How old the replica may be that a request is first placed on."""
        return self.settings.fill(ServiceOptions).longest_picture_age_seconds

    def why_nowhere(self, error: NoValidHost) -> str:
        """What a caller is told when there is no host. Counts of hosts are for the log only."""
        return "There are not enough hosts available."

    def reload(self, settings: Settings) -> None:
        """Go by these options from now on; RoostError, and no change, where they are wrong."""
        self._use(settings)

    def _use(self, settings: Settings) -> None:
        """Take over settings, at the start and at a reload, and what is computed from them."""
        self.settings = settings


class FilterScheduler(Driver):
    """Filters and weighers over the fleet as it is now."""

    def chooser(self) -> Chooser:
        """The pipeline: prefilter, capacity, filter, weigh, choose, and consume in the replica."""
        return self.pipeline

    def preparation(self) -> Preparation:
        """NUMA cells and PCI devices of flavor and image, trust, and whether a filter enforces the group's policy."""
        return self._preparation

    def _use(self, settings: Settings) -> None:
        """Build the pipeline of these settings; requests in flight end with the previous one."""
        pipeline = self._build(settings)
        self._preparation = Preparation(settings, pipeline.plugin_names)
        self.pipeline = pipeline
        super()._use(settings)

    def _build(self, settings: Settings) -> Pipeline:
        """The pipeline of these settings; its plugins see options and fleet through nova's names."""
        state = TableState(lambda: self.replica.table, self._group_with_hosts)
        context = PluginContext(PluginOptions(settings, self.files), state)
        return build_pipeline(settings, places_of(self.files), context)

    def _group_with_hosts(self, uuid: str) -> ServerGroup | None:
        group = self.find_group(uuid)
        return group and group.updated(group.members, self.replica.table.hosts_of(group.members))


class CachingScheduler(FilterScheduler):
    """Refreshes the replica in the periodic task, and where a claim is refused; requests see one another meanwhile.

    It saves reading the change log per request, which is little: see docs/reference/differences.md.
    """

    refreshes_before_refusal = False
    refreshes_periodically = True

    @property
    def longest_age_seconds(self) -> float:
        """Infinite: the replica is never too old."""
        return math.inf


ALL = 1 << 31
"""As many of the best hosts as there may be."""
_IGNORED: dict[str, Any] = {
    "availability_zone": None,
    "force_hosts": None,
    "force_nodes": None,
    "instance_group": None,
    "requested_destination": None,
    "retry": None,
    "scheduler_hints": {},
}
"""What of a request has no say in a random choice."""


class ChanceScheduler(Driver):
    """One random pick per instance among the hosts that are up, have room and are not to be ignored.

    As in nova it goes by nothing else: no zone, no hint, no group, no forced host. nova's did not look at resources
    either; here the choice is claimed, so a full host would be refused and another one drawn.
    """

    notifies = False
    names_nodes = False

    def chooser(self) -> Chooser:
        """Draws a host."""
        return RandomChoice()

    def why_nowhere(self, error: NoValidHost) -> str:
        """Tells "no host is up" from "those that are up are full, or to be ignored"."""
        with self.replica.lock:
            table = self.replica.table
            is_any_up = bool((table.is_up & ~table.is_disabled).any())
        return "Could not find another compute" if is_any_up else "Is the appropriate service running?"


class RandomChoice:
    """A pipeline that checks capacity and liveness, weighs nothing, and picks one of all hosts that are left."""

    def __init__(self) -> None:
        self._pipeline = Pipeline([ComputeFilter()], [], Choice(host_subset_size=ALL), engine=FullScanEngine)

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
        """Draw a host for each instance. There are no alternates: the next draw is random, too."""
        return self._pipeline.place(table, spec.changed(**_IGNORED), uuids, randomness=randomness, clock=clock)

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Nothing is cached."""


class OwnChoice:
    """Offers the hosts that are up and have room, and consumes what is chosen of them; without alternates."""

    def __init__(self, name: str, choose: Choose) -> None:
        """`name`: of the driver, for errors and decisions."""
        self._name, self._choose = name, choose

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
        """Choose a host for each instance and consume it there; NoValidHost, and no change, if one has none."""
        started = clock()
        hosts, steps = _hosts_with_room(table, spec)
        chosen = self._ask(list(hosts), spec, len(uuids), randomness)
        consumed: list[tuple[int, RequestSpec]] = []
        try:
            selections = tuple(
                _consume(table, host, spec.for_instance(uuid), consumed)
                for host, uuid in zip(chosen, uuids, strict=False)
            )
            time_us = _time_since(started, clock)
            if len(selections) < len(uuids):
                if len(hosts):
                    steps = (*steps, Step("choose", self._name, len(hosts), 0))
                made = len(selections)
                raise NoValidHost(make_decision(len(table), len(uuids), steps, (), time_us, failed_at=made))
            return make_decision(len(table), len(uuids), steps, selections, time_us)
        except BaseException:
            for row, taken in consumed:
                table.release(row, taken)
            raise

    def warm(self, table: HostTable, spec: RequestSpec) -> None:
        """Nothing is cached."""

    def _ask(self, hosts: list[HostView], spec: RequestSpec, count: int, randomness: Randomness) -> list[HostView]:
        try:
            return list(self._choose(hosts, spec, count, randomness))
        except RoostError:
            raise
        except Exception as cause:
            raise PluginFailed(self._name, "", cause) from cause


def _hosts_with_room(table: HostTable, spec: RequestSpec) -> tuple[Hosts, tuple[Step, ...]]:
    """The hosts whose agent is alive and that have room for one instance, and the steps to them."""
    hosts: Hosts = table.in_the_running()
    steps = []
    filters = [] if is_forced(spec) else [ComputeFilter()]
    for check in (*capacity_checks(spec), *filter_checks(filters, spec, index=0)):
        left = check.survivors(hosts)
        steps.append(Step(check.stage, check.name, len(hosts), len(left)))
        hosts = left
    return hosts, tuple(steps)


def _time_since(started: int, clock: Callable[[], int]) -> dict[str, float]:
    """Microseconds since `started`, as `choose` and as `total`: a driver of this kind has no other stage."""
    microseconds = (clock() - started) / 1000
    return {"choose": microseconds, "total": microseconds}


def _consume(
    table: HostTable, host: HostView, spec: RequestSpec, consumed: list[tuple[int, RequestSpec]]
) -> Selection:
    """The host of one instance, after it consumed the request; `consumed` gets its row and what to release there."""
    row, limits = _row_of(table, host), dict(host.limits or {})  # a driver may have set them to None
    taken = table.consume(row, spec)
    consumed.append((row, taken))
    return make_selection(table, row, spec.instance_uuid, [limits], placed=taken)


def _row_of(table: HostTable, host: HostView) -> int:
    row = table.find_row((host.host, host.nodename))
    if row is None:
        raise ValueError(f"{host!r} is not one of the hosts to choose from")
    return row


DRIVERS: dict[str, type[Driver]] = {
    "filter_scheduler": FilterScheduler,
    "caching_scheduler": CachingScheduler,
    "chance_scheduler": ChanceScheduler,
}
_NOVA_PATHS = {
    "nova.scheduler.filter_scheduler.FilterScheduler": "filter_scheduler",
    "nova.scheduler.caching_scheduler.CachingScheduler": "caching_scheduler",
    "nova.scheduler.chance.ChanceScheduler": "chance_scheduler",
}
GROUPS = ("roost.scheduler.drivers", "nova.scheduler.driver")
"""Entry points; the second is nova's own."""
DERIVE = "derive it from roost.scheduler.drivers.Driver"


def find_driver(name: str, places: Sequence[Path] = ()) -> type[Driver]:
    """The driver of this name: a built-in, an entry point, or a dotted path."""
    built_in = DRIVERS.get(_NOVA_PATHS.get(name, name))
    if built_in is not None:
        return built_in
    points = {point.name: point for group in GROUPS for point in importlib.metadata.entry_points(group=group)}
    if name not in points and "." not in name:
        raise PluginNotFound(f"[scheduler] driver: unknown driver {name}", nearest(name, {*DRIVERS, *points}))
    try:
        return _checked(name, load_point(points[name]) if name in points else import_path(name, places))
    except PluginNotFound as error:
        remedy = f"{DERIVE}: drivers of nova's have to be rewritten" if error.hint == PAGE else error.hint
        raise PluginNotFound(f"[scheduler] driver: {error.message}", remedy) from error


def _checked(name: str, found: Any) -> type[Driver]:
    if not (inspect.isclass(found) and issubclass(found, Driver)):
        raise PluginNotFound(f"{name} is no driver class but {found!r}", DERIVE)
    return found
