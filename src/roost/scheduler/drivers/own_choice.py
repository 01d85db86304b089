# SPDX-License-Identifier: Apache-2.0
"""The chooser of a driver that is not Roost's own: makes a decision of the hosts that its `choose` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from roost.errors import NoValidHost, PluginFailed, RoostError
from roost.filters.compute import ComputeFilter
from roost.hosts import Hosts, HostTable, HostView
from roost.model import Decision, RequestSpec, Selection
from roost.model.decision import Step
from roost.scheduler.checks import capacity_checks, filter_checks, is_forced
from roost.scheduler.choice import Randomness
from roost.scheduler.pipeline import make_decision, make_selection

Choose = Callable[[list[HostView], RequestSpec, int, Randomness], Iterable[HostView]]


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
