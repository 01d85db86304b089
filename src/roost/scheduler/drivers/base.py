# SPDX-License-Identifier: Apache-2.0
"""The contract of a driver: it chooses hosts, and the claim loop claims whatever it chooses.

A driver of your own derives from `Driver`, says in `choose` which hosts take the instances of a request, and is named
in `[scheduler] driver`: by its dotted path, or by an entry point in the group `roost.scheduler.drivers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from roost.errors import NoValidHost
from roost.hosts import HostView
from roost.model import RequestSpec, ServerGroup
from roost.options.settings import Settings
from roost.scheduler.choice import Randomness
from roost.scheduler.claiming import Chooser, Replica
from roost.scheduler.drivers.own_choice import OwnChoice
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.preparation import Preparation

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
