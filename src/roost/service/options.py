# SPDX-License-Identifier: Apache-2.0
"""Options that services of every kind share, by nova's names."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from roost.options.declare import option


@dataclass(frozen=True)
class HostOptions:
    """The name of a service."""

    host: str = option(
        "",
        group="DEFAULT",
        reloads=False,
        in_fleet=False,
        help="name of this service in its record and queue; empty: the machine's",
    )

    @property
    def service_host(self) -> str:
        """The name under which this service is known: `host`, or the machine's name."""
        return self.host or socket.gethostname()


@dataclass(frozen=True)
class StopOptions:
    """How a service stops."""

    graceful_shutdown_timeout: int = option(
        60,
        min=0,
        group="DEFAULT",
        help="seconds that running requests are given to end when the service stops; 0: as long as they take",
    )


@dataclass(frozen=True)
class HeartbeatOptions:
    """How often services send heartbeats, and when they count as down without one."""

    service_down_time: int = option(
        60,
        min=1,
        group="DEFAULT",
        reloads=False,
        help="seconds without a heartbeat after which a host counts as down",
    )
    report_interval: int = option(
        10,
        min=1,
        group="DEFAULT",
        help="seconds between an agent's heartbeats; service_down_time is raised to 2.5 times that if it is no more",
    )

    @property
    def seconds_until_down(self) -> int:
        """`service_down_time`; where agents report no more often than that, more."""
        if self.service_down_time > self.report_interval:
            return self.service_down_time
        return int(self.report_interval * 2.5)
