# SPDX-License-Identifier: Apache-2.0
"""Options of logs and of the health server, in a module that loads neither: commands read them all."""

from __future__ import annotations

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
