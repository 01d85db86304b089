# SPDX-License-Identifier: Apache-2.0
"""Starts, stops and restarts the processes of a cluster, and says how they are."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Engine, create_engine, text

from roost.api.first_users import make_first_users
from roost.clock import Clock
from roost.errors import BadInput, ProcessFailed, nearest
from roost.records.fleet_import import import_fleet
from roost.sources.fleet_file import Fleet
from roost.store.engine import open_engine, parse_database_url
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade
from roost.trial.plan import DATABASE, KINDS, POSTGRESQL, SERVICES, ClusterPlan, ClusterShape
from roost.trial.private_servers import PostgresqlServer, RabbitmqServer, as_user, is_listening
from roost.trial.process import POLL_SECONDS, ProcessPlan, Started, end_left_behind, stop_processes
from roost.trial.state import StateFolder

CATALOGUE: dict[str, Any] = {
    "flavors": [
        {"name": "m1.tiny", "vcpus": 1, "memory_mb": 512, "root_gb": 1},
        {"name": "m1.small", "vcpus": 1, "memory_mb": 2048, "root_gb": 20},
        {"name": "m1.medium", "vcpus": 2, "memory_mb": 4096, "root_gb": 40},
        {"name": "m1.large", "vcpus": 4, "memory_mb": 8192, "root_gb": 80},
    ],
    "images": [{"name": "cirros"}],
}
"""Flavors and images of a new database, as a fleet file has them."""
START_SECONDS, STOP_SECONDS = 120.0, 60.0
TAIL_LINES = 12
"""Of the log of a process that failed."""
OTHER_PORTS = "stop that program, or start with --fresh, which deletes all data and chooses other ports"
RUNNING, DIED, STOPPED = "running", "died", "stopped"


class ProcessStatus(NamedTuple):
    """How a process is."""

    name: str
    pid: int | None
    state: str
    """RUNNING, DIED (it was not stopped by `stop`) or STOPPED."""
    unready: str
    """Why it is not ready; empty if it is."""
    since: datetime | None
    log: str
    address: str
    """Where clients reach it; empty where they do not."""


class ClusterControl:
    """The processes of the cluster of one folder."""

    def __init__(self, folder: StateFolder, clock: Clock, tell: Callable[[str], None] = lambda line: None) -> None:
        """`tell` gets a line for everything that was done."""
        self._folder, self._clock, self._tell = folder, clock, tell

    # --- commands ----------------------------------------------------------------------------------------

    def start(self, shape: ClusterShape, *, is_fresh: bool = False, seconds: float = START_SECONDS) -> ClusterPlan:
        """Start all processes and wait until they are ready; on failure those that were started are stopped.

        `is_fresh`: data of an earlier cluster in the folder are deleted.
        """
        self._folder.claim()
        with self._folder.locked():
            self._refuse_if_running()
            plan = ClusterPlan(self._folder, shape, {} if is_fresh else self._folder.facts())
            _check_ports(plan.processes)
            for server in (plan.postgresql, plan.rabbitmq):
                if server is not None:
                    _check_entry(server, self._folder.path)
            if is_fresh:
                self._folder.remove()
            self._folder.save(plan.processes, plan.facts)  # first: the file marks the folder as one of a cluster
            self._folder.create()
            plan.write_configuration()
            try:
                self._start_servers(plan, seconds)
                services = [each for each in plan.processes if each.kind in SERVICES]
                self._start_all(services)
                self._wait_until_ready(services, seconds)
            except BaseException:
                self._stop(plan.processes, STOP_SECONDS)
                raise
        return plan

    def stop(self, seconds: float = STOP_SECONDS) -> int:
        """Stop all processes, the last kind first; returns how many there were."""
        plans = self._folder.plans()
        with self._folder.locked():
            return self._stop(plans, seconds)

    def restart(self, names: Collection[str], seconds: float = START_SECONDS) -> None:
        """Stop processes, if they run, and start them again; comes back when they are ready."""
        plans = self._folder.plans()
        known = {each.name: each for each in plans}
        for name in names:
            if name not in known:
                raise BadInput(f"there is no process {name}", nearest(name, list(known)))
        with self._folder.locked():
            chosen = [each for each in plans if each.name in names]
            _check_ports([each for each in chosen if self._running(each.name) is None])
            self._stop(chosen, STOP_SECONDS)
            try:
                _check_ports(chosen)
            except BadInput as error:  # as such it would mean that nothing was stopped
                raise ProcessFailed(f"{error.message}; it is stopped", error.hint) from None
            self._start_all(chosen)
            self._wait_until_ready(chosen, seconds)

    def status(self) -> list[ProcessStatus]:
        """How each process is, in the order in which they start."""
        return [self._status_of(each) for each in self._folder.plans()]

    def _status_of(self, plan: ProcessPlan) -> ProcessStatus:
        started, where = self._folder.started(plan.name), (plan.log, plan.address)
        if started is None:
            return ProcessStatus(plan.name, None, STOPPED, "it is not started", None, *where)
        if not started.process.is_alive():
            return ProcessStatus(plan.name, None, DIED, "it ended unexpectedly", started.since, *where)
        return ProcessStatus(plan.name, started.process.pid, RUNNING, plan.unready(), started.since, *where)

    # --- starting ----------------------------------------------------------------------------------------

    def _refuse_if_running(self) -> None:
        names = self._folder.started_names()
        alive = [each for each in names if self._running(each)]
        if alive:
            stop, show = self._folder.command("stop"), self._folder.command("status")
            problem = f"the cluster in {self._folder.path} is running: {len(alive)} processes, such as {alive[0]}"
            raise BadInput(problem, f"`{stop}` stops it, `{show}` shows it")
        for name in names:
            if not self._end_left_behind(name, STOP_SECONDS):
                self._tell(f"{name}: its pid file is stale, it ended without being stopped")
            self._folder.forget(name)

    def _running(self, name: str) -> Started | None:
        started = self._folder.started(name)
        return started.process if started is not None and started.process.is_alive() else None

    def _start_servers(self, plan: ClusterPlan, seconds: float) -> None:
        """Start the private servers; the database is prepared while the broker, which is slower, comes up."""
        for server in (plan.postgresql, plan.rabbitmq):
            if server is not None:
                _prepare_folder(server)
        if plan.rabbitmq is not None:
            plan.rabbitmq.write_files(plan.cookie())
        if plan.postgresql is not None:
            _initialise(plan.postgresql)
        servers = [each for each in plan.processes if each.kind not in SERVICES]
        self._start_all(servers)
        self._wait_until_ready([each for each in servers if each.kind == POSTGRESQL], seconds)
        if plan.postgresql is not None:
            _create_database(plan.postgresql)
        self._prepare_database(plan)
        self._wait_until_ready([each for each in servers if each.kind != POSTGRESQL], seconds)

    def _prepare_database(self, plan: ClusterPlan) -> None:
        engine = open_engine(DatabaseOptions(connection=plan.database_url), may_create=True)
        try:
            before, after = upgrade(engine)
            if before.revision is None:
                import_fleet(engine, Fleet.load(CATALOGUE), self._clock.now())
            done = f"upgraded to revision {after.revision}" if before.revision != after.revision else "up to date"
            self._tell(f"database: {done}")
            if plan.api_address:
                self._make_first_users(plan, engine)
        finally:
            engine.dispose()

    def _make_first_users(self, plan: ClusterPlan, engine: Engine) -> None:
        """Make users and clouds.yaml; in a database that others may use, no user's password is changed."""
        file, is_private = self._folder.clouds_file, plan.postgresql is not None
        for name in make_first_users(engine, self._clock, file, plan.api_address, may_reset=is_private):
            self._tell(f"clouds.yaml: without {name}, who is in the database already, with another password")

    def _start_all(self, plans: Iterable[ProcessPlan]) -> None:
        for plan in plans:
            try:
                process = plan.start()
            except OSError as error:
                raise ProcessFailed(f"{plan.name} cannot be started: {error.strerror}", plan.command[0]) from None
            self._folder.note_started(plan.name, process, self._clock.now())

    def _wait_until_ready(self, plans: Sequence[ProcessPlan], seconds: float) -> None:
        began = self._clock.monotonic()
        left = {each.name: each for each in plans}
        while left:
            for plan in list(left.values()):
                reason = plan.unready()
                if self._running(plan.name) is None:  # asked last: another program may answer on its port
                    raise self._failure(plan, "ended at its start")
                if not reason:
                    del left[plan.name]
                    port = plan.client_port or plan.port
                    where = f" on port {port}" if port else ""
                    self._tell(f"{plan.name}: ready{where} after {self._clock.monotonic() - began:.1f} s")
                elif self._clock.monotonic() - began > seconds:
                    raise self._failure(plan, f"is not ready after {seconds:.0f} s: {reason}")
            if left:
                self._clock.sleep(POLL_SECONDS)

    def _failure(self, plan: ProcessPlan, problem: str) -> ProcessFailed:
        for line in _tail(Path(plan.log)):
            self._tell(f"{plan.name}: | {line}")
        return ProcessFailed(f"{plan.name} {problem}", f"its log is {plan.log}")

    # --- stopping ----------------------------------------------------------------------------------------

    def _stop(self, plans: Sequence[ProcessPlan], seconds: float) -> int:
        count = 0
        for kind in reversed(KINDS):
            of_kind = [each for each in plans if each.kind == kind]
            running = {each.name: process for each in of_kind if (process := self._running(each.name))}
            count += sum(self._end_left_behind(each.name, seconds) for each in of_kind if each.name not in running)
            signals = {each.name: each.stop_signal for each in of_kind}
            stopping = [(process, signals[name]) for name, process in running.items()]
            killed = stop_processes(stopping, self._clock, seconds)
            end_left_behind(running.values(), self._clock, seconds)
            for name, process in running.items():
                self._tell(f"{name}: {'killed: it did not end' if process in killed else 'stopped'}")
            count += len(running)
        for plan in plans:
            self._folder.forget(plan.name)
        return count

    def _end_left_behind(self, name: str, seconds: float) -> bool:
        """End what a process that has ended left running; returns whether there was something."""
        started = self._folder.started(name)
        left = started.process.left_behind() if started is not None else []
        if started is None or not left:
            return False
        end_left_behind([started.process], self._clock, seconds)
        self._tell(f"{name}: had ended, and left {len(left)} process{'es' * (len(left) > 1)} running: stopped")
        return True


def _check_ports(plans: Iterable[ProcessPlan]) -> None:
    for plan in plans:
        for port in (plan.port, plan.client_port):
            if port is not None and is_listening(port):
                problem = f"port {port} of {plan.name} is taken by another program"
                raise BadInput(problem, OTHER_PORTS)


def _check_entry(server: PostgresqlServer | RabbitmqServer, folder: Path) -> None:
    """BadInput if the user of a server cannot enter a folder."""
    if subprocess.run(as_user(server.user, folder, ["true"]), check=False, capture_output=True).returncode:  # noqa: S603
        problem = f"the user {server.user}, as which {server.package} runs, cannot enter {folder}"
        raise BadInput(problem, "choose a --state-dir that every user can enter")


def _prepare_folder(server: PostgresqlServer | RabbitmqServer) -> None:
    """Make the folder of a server for its user. BadInput if that user cannot enter it."""
    server.folder.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(server.folder, server.user, server.user)
    _check_entry(server, server.folder)


def _initialise(server: PostgresqlServer) -> None:
    if server.password_file.exists():  # an earlier initdb was interrupted
        shutil.rmtree(server.data, ignore_errors=True)
    if server.data.exists():
        return
    command = as_user(server.user, server.folder, server.initialise())
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
        raise ProcessFailed(f"initdb cannot make {server.data}: {said}", "is the disk full?")
    server.password_file.unlink()


def _create_database(server: PostgresqlServer) -> None:
    engine = create_engine(parse_database_url(server.address("postgres")), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            exists = text("SELECT 1 FROM pg_database WHERE datname = :name")
            if connection.execute(exists, {"name": DATABASE}).first() is None:
                connection.execute(text(f"CREATE DATABASE {DATABASE}"))
    finally:
        engine.dispose()


def _tail(log: Path) -> list[str]:
    try:
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    except OSError:
        return []
