# SPDX-License-Identifier: Apache-2.0
"""Options of logs and of the health server, in a module that loads neither: commands read them all."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from roost.options.declare import option

QUIET_LIBRARIES = (
    "amqp=WARNING",
    "kombu=WARNING",
    "oslo.messaging=INFO",
    "oslo_messaging=INFO",
    "sqlalchemy=WARNING",
    "alembic=WARNING",
    "stevedore=WARNING",
    "urllib3=WARNING",
)


@dataclass(frozen=True)
class LogOptions:
    """Where the log goes and how much is logged, by nova's names. All of them apply at a reload."""

    debug: bool = option(False, group="DEFAULT", help="log details too (DEBUG), not only what happened (INFO)")
    log_file: str | None = option(
        None,
        group="DEFAULT",
        old=("logfile",),
        in_fleet=False,
        help="file that the log is appended to; unset: standard error",
    )
    log_dir: str | None = option(
        None,
        group="DEFAULT",
        old=("logdir",),
        in_fleet=False,
        help="folder of log_file; without log_file, the file there is named for the program",
    )
    watch_log_file: bool = option(
        True, group="DEFAULT", help="reopen the file when it was moved away; always done, whatever is set here"
    )
    use_json: bool = option(False, group="DEFAULT", help="each line is a JSON object, for programs that read the log")
    use_stderr: bool = option(
        False, group="DEFAULT", help="log to standard error too where there is a file; without a file always done"
    )
    default_log_levels: tuple[str, ...] = option(
        QUIET_LIBRARIES,
        group="DEFAULT",
        in_fleet=False,
        help="LOGGER=LEVEL for each logger whose level differs from the rest",
    )


@dataclass(frozen=True)
class HealthOptions:
    """Where the health server listens."""

    health_address: str = option(
        "127.0.0.1",
        group="roost",
        reloads=False,
        in_fleet=False,
        help="address on which /healthz, /readyz and /metrics are answered",
    )
    health_port: int = option(
        9786,
        min=-1,
        max=65535,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="port of /healthz, /readyz and /metrics of a scheduler; 0: any free one (the log says which), "
        "-1: not answered",
    )
    conductor_health_port: int = option(
        9787,
        min=-1,
        max=65535,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="health_port of a conductor",
    )
    compute_health_port: int = option(
        9788,
        min=-1,
        max=65535,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="health_port of a process of agents",
    )

    api_health_port: int = option(
        9789,
        min=-1,
        max=65535,
        group="roost",
        reloads=False,
        in_fleet=False,
        help="health_port of an API",
    )

    def port_of(self, service: str) -> int:
        """The port for a service: scheduler, conductor, compute or api."""
        return {
            "scheduler": self.health_port,
            "conductor": self.conductor_health_port,
            "compute": self.compute_health_port,
            "api": self.api_health_port,
        }[service]


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
