# SPDX-License-Identifier: Apache-2.0
"""The options of conductors; those of moves by nova's names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import NamedTuple

from roost.options.declare import option
from roost.options.files import Sections
from roost.options.settings import Settings
from roost.services.options import HeartbeatOptions
from roost.sources.snapshot import deciding_options


@dataclass(frozen=True)
class ResizeOptions:
    """Where a server may go with another flavor."""

    allow_resize_to_same_host: bool = option(
        False, group="DEFAULT", help="whether a resized server may stay on its host"
    )


@dataclass(frozen=True)
class MoveOptions:
    """What moves need of the options of several groups."""

    may_stay: bool = False
    """[DEFAULT] allow_resize_to_same_host."""
    most_attempts: int = 3
    """[scheduler] max_attempts: hosts that are tried for a resize, a cold migration or an unshelving."""
    most_retries: int = -1
    """[DEFAULT] migrate_max_retries: hosts after the first that are tried for a live migration; -1: all."""


GROUP = "roost"


@dataclass(frozen=True)
class ConductorOptions:
    """A conductor: its processes, and how it looks after tasks that have stalled."""

    workers: int = option(
        0,
        min=0,
        group="conductor",
        reloads=False,
        help="processes of a conductor; 0: as many as there are CPUs",
    )
    janitor_interval: float = option(
        10.0,
        min=0.1,
        group=GROUP,
        reloads=False,
        help="seconds between two searches for tasks of servers that have stalled",
    )
    stalled_task_timeout: float = option(
        60.0,
        min=0.0,
        group=GROUP,
        reloads=False,
        help="seconds without progress after which the task of a server is continued, or given up with its host",
    )
    leaked_claim_timeout: float = option(
        600.0,
        min=0.0,
        group=GROUP,
        reloads=False,
        help="seconds after which resources that are held for no server are released",
    )
    deleted_server_retention: int = option(
        86400,
        min=0,
        group=GROUP,
        reloads=False,
        help="seconds for which the record of a deleted server is kept; longer if a host that has its guest is down",
    )
    ended_migration_retention: int = option(
        2_592_000,
        min=0,
        group=GROUP,
        reloads=False,
        help="seconds for which the record of a move that has ended is kept; longer if a host of it is down since",
    )
    server_fault_retention: int = option(
        2_592_000,
        min=0,
        group=GROUP,
        reloads=False,
        help="seconds for which a fault of a server is kept; its latest one is kept as long as the server",
    )

    @property
    def worker_count(self) -> int:
        """Processes to start, at least one."""
        return self.workers or os.cpu_count() or 1


class ConductorSettings(NamedTuple):
    """All values that a conductor goes by; some belong to options that schedulers have, too."""

    own: ConductorOptions
    max_attempts: int
    """Hosts to try for a server."""
    seconds_until_down: float
    """Without a heartbeat for that long, a host is down."""
    default_zone: str
    """Zone of hosts whose aggregates name none."""
    migrate_max_retries: int
    """Further hosts to try for a live migration; -1: any number."""

    may_stay: bool
    """Whether a resized server may stay on its host."""

    deciding_options: Sections
    """The options by which a scheduler with this configuration decides, for snapshots."""

    @classmethod
    def of(cls, settings: Settings) -> ConductorSettings:
        """The values in these settings, which have the options of all services."""
        return cls(
            settings.fill(ConductorOptions),
            settings.value("scheduler", "max_attempts"),
            settings.fill(HeartbeatOptions).seconds_until_down,
            settings.value("DEFAULT", "default_availability_zone"),
            settings.value("DEFAULT", "migrate_max_retries"),
            settings.fill(ResizeOptions).allow_resize_to_same_host,
            deciding_options(settings),
        )
