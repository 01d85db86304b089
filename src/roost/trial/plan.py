# SPDX-License-Identifier: Apache-2.0
"""Which processes a cluster has, in which order they start, and the configuration of each."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roost.errors import BadInput, OptionError
from roost.messages.loopback import write_in_one_step
from roost.messages.open_transport import IN_PROCESS, check_transport
from roost.messages.options import RpcOptions
from roost.store.engine import open_engine, parse_database_url
from roost.store.options import DatabaseOptions
from roost.trial.private_servers import LOOPBACK, PostgresqlServer, RabbitmqServer, as_user, free_port
from roost.trial.process import ProcessPlan
from roost.trial.state import StateFolder

POSTGRESQL, NAMES, RABBITMQ = "postgresql", "epmd", "rabbitmq"
CONDUCTOR, SCHEDULER, COMPUTE, API = "conductor", "scheduler", "compute", "api"
KINDS = (POSTGRESQL, NAMES, RABBITMQ, CONDUCTOR, SCHEDULER, COMPUTE, API)
"""In the order in which they start; they stop in the opposite one."""
SERVICES = (CONDUCTOR, SCHEDULER, COMPUTE, API)
HEALTH_PORTS = {
    SCHEDULER: "health_port",
    CONDUCTOR: "conductor_health_port",
    COMPUTE: "compute_health_port",
    API: "api_health_port",
}
"""Options of [roost], by kind of service."""
FAKE, LIBVIRT = "fake", "libvirt"
NO_OPTIONS: Mapping[str, Mapping[str, str]] = {}
DATABASE = "roost"
"""Name of the database on a private PostgreSQL."""


@dataclass(frozen=True)
class ClusterShape:
    """How many processes of each kind there are, and what they run on."""

    conductors: int = 2
    schedulers: int = 2
    agents: int = 10
    """Fake hosts."""
    processes: int = 1
    """Processes that share the fake hosts."""
    apis: int = 1
    uris: tuple[str, ...] = ()
    """Connection URIs of libvirt daemons, an agent for each; empty: fake hosts."""
    database: str = ""
    """URL of a database that exists; empty: a private PostgreSQL."""
    broker: str = ""
    """URL of a broker that exists; empty: a private RabbitMQ."""
    config_files: tuple[Path, ...] = ()
    """Files with more options for all services."""
    program: tuple[str, ...] = (sys.executable, "-m", "roost")
    """The command `roost`."""

    def __post_init__(self) -> None:
        if not self.uris and self.processes > self.agents:
            problem = f"{self.agents} agents cannot be spread over {self.processes} processes"
            raise BadInput(problem, "an agent has one process: raise --agents or lower --processes")
        for file in self.config_files:
            if not file.is_file():
                raise BadInput(f"{file}: there is no such file", "look at --config-file")
        if self.database:
            _check_database(self.database)
        if self.broker:
            _check_broker(self.broker)

    def shares(self) -> Iterator[tuple[int, int]]:
        """First number and count of the fake hosts of each process."""
        first = 1
        for at in range(self.processes):
            count = self.agents // self.processes + (at < self.agents % self.processes)
            yield first, count
            first += count


class ClusterPlan:
    """All processes of a cluster in the order in which they start, and what they need before."""

    def __init__(self, folder: StateFolder, shape: ClusterShape, facts: dict[str, Any]) -> None:
        """`facts`: kept from one start to the next (ports, passwords); missing ones are added."""
        self.folder, self.shape, self.facts = folder, shape, facts
        self.processes: list[ProcessPlan] = []
        self.postgresql: PostgresqlServer | None = None
        self.rabbitmq: RabbitmqServer | None = None
        self._configs: dict[Path, Mapping[str, Mapping[str, Any]]] = {}
        if not shape.database:
            self._plan_postgresql()
        if not shape.broker:
            self._plan_rabbitmq()
        for number in range(1, shape.conductors + 1):
            self._plan_service(CONDUCTOR, number)
        for number in range(1, shape.schedulers + 1):
            self._plan_service(SCHEDULER, number)
        self._plan_agents()
        for number in range(1, shape.apis + 1):
            self._plan_api(number)
        self._configs[folder.config] = {
            "DEFAULT": {"transport_url": self.broker_url},
            "database": {"connection": self.database_url},
            "conductor": {"workers": 1},  # several processes are what a cluster has anyway
        }

    @property
    def database_url(self) -> str:
        """URL of the database; has its password."""
        return self.postgresql.address(DATABASE) if self.postgresql else self.shape.database

    @property
    def broker_url(self) -> str:
        """URL of the broker; has its password."""
        return self.rabbitmq.address() if self.rabbitmq else self.shape.broker

    @property
    def api_address(self) -> str:
        """Address of the first API; empty where there is none."""
        return next((each.address for each in self.processes if each.kind == API), "")

    def write_configuration(self) -> None:
        """Write the file that clients and all services read, and those of one service."""
        for file, sections in self._configs.items():
            write_in_one_step(file, _to_ini(sections))

    def _plan_postgresql(self) -> None:
        folder, port = self.folder.data / POSTGRESQL, self._port(POSTGRESQL)
        server = self.postgresql = PostgresqlServer(folder, port, password=self._secret(POSTGRESQL))
        self._add_server(POSTGRESQL, server, server.command(), port, server.ready_command())

    def _plan_rabbitmq(self) -> None:
        folder = self.folder.data / RABBITMQ
        port, names, distribution = (self._port(each) for each in (RABBITMQ, NAMES, f"{RABBITMQ}-distribution"))
        server = RabbitmqServer(folder, port, names, distribution, password=self._secret(RABBITMQ))
        self.rabbitmq = server
        self._add_server(NAMES, server, server.names_command(), names)
        self._add_server(RABBITMQ, server, server.command(), port)

    def _add_server(
        self,
        name: str,
        server: PostgresqlServer | RabbitmqServer,
        command: Sequence[str],
        port: int,
        ready_command: Sequence[str] = (),
    ) -> None:
        words = tuple(as_user(server.user, server.folder, command))
        log, signal = str(self.folder.log(name)), int(server.stop_signal)
        plan = ProcessPlan(name, name, words, log, port, ready_command=tuple(ready_command), stop_signal=signal)
        self.processes.append(plan)

    def _plan_agents(self) -> None:
        for number, uri in enumerate(self.shape.uris, 1):
            options = {"DEFAULT": {"compute_driver": LIBVIRT}, LIBVIRT: {"connection_uri": uri}}
            self._plan_service(COMPUTE, number, options)
        if not self.shape.uris:
            guests = str(self.folder.data / "guests")
            options = {"DEFAULT": {"compute_driver": FAKE}, "roost_fake": {"state_directory": guests}}
            for number, (first, count) in enumerate(self.shape.shares(), 1):
                self._plan_service(COMPUTE, number, options, "--fake-hosts", str(count), "--first-number", str(first))

    def _plan_api(self, number: int) -> None:
        port = self._port(f"{API}-{number}-clients")
        options = {"DEFAULT": {"osapi_compute_listen": LOOPBACK, "osapi_compute_listen_port": str(port)}}
        self._plan_service(API, number, options, client_port=port)

    def _plan_service(
        self,
        kind: str,
        number: int,
        options: Mapping[str, Mapping[str, str]] = NO_OPTIONS,
        *words: str,
        client_port: int | None = None,
    ) -> None:
        name = f"{kind}-{number}"
        port, file = self._port(name), self.folder.config_of(name)
        health = {"health_address": LOOPBACK, HEALTH_PORTS[kind]: port}
        self._configs[file] = {**options, "DEFAULT": {"host": name, **options.get("DEFAULT", {})}, "roost": health}
        files = [self.folder.config, *self.shape.config_files, file]
        named = [word for each in files for word in ("--config-file", str(each.absolute()))]
        command = (*self.shape.program, "service", kind, *named, *words)
        log = str(self.folder.log(name))
        self.processes.append(ProcessPlan(name, kind, command, log, port, client_port, has_health_page=True))

    def _port(self, name: str) -> int:
        """The port that something had before, or a free one."""
        ports: dict[str, int] = self.facts.setdefault("ports", {})
        while name not in ports:
            port = free_port()
            if port not in ports.values():
                ports[name] = port
        return ports[name]

    def _secret(self, name: str) -> str:
        known: dict[str, str] = self.facts.setdefault("secrets", {})
        return known.setdefault(name, secrets.token_hex(16))

    def cookie(self) -> str:
        """The secret of the broker's node."""
        return self._secret("cookie")


def _check_database(url: str) -> None:
    """RoostError for the URL of a database that cannot be used, whether it runs or not. Does not connect."""
    parse_database_url(url, "--database")
    open_engine(DatabaseOptions(connection=url), may_create=True).dispose()


def _check_broker(url: str) -> None:
    """BadInput for a URL that is none of a broker; without the URL, which may have a password. Does not connect."""
    form = "write it as rabbit://USER:PASSWORD@HOST:PORT/VHOST"
    if url.startswith(f"{IN_PROCESS}://"):
        raise BadInput(f"--broker {IN_PROCESS}:// reaches no other process", form)
    try:
        check_transport(RpcOptions(transport_url=url))
    except OptionError:
        raise BadInput("--broker is no address of a broker", form) from None


def _to_ini(sections: Mapping[str, Mapping[str, Any]]) -> str:
    lines = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{name} = {value}" for name, value in values.items()), ""]
    return "\n".join(lines)
