# SPDX-License-Identifier: Apache-2.0
"""`roost service ...`: run a service in the foreground until a signal stops it.

`ServiceCommand` is what all of them have in common: signals, workers, reload, health server.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from roost.api.options import BINARY as API_BINARY
from roost.api.options import ApiOptions
from roost.api.process import open_listener
from roost.cli.arguments import add_config_arguments, config_files, whole_number
from roost.cli.commands import RoostCommand
from roost.clock import SystemClock
from roost.compute.drivers.registry import make_drivers
from roost.compute.options import FAKE
from roost.compute.process import BINARY as AGENT_BINARY
from roost.compute.process import ComputeService
from roost.conductor.options import ConductorOptions
from roost.conductor.process import BINARY as CONDUCTOR_BINARY
from roost.conductor.process import METHODS as CONDUCTOR_METHODS
from roost.conductor.process import ConductorService
from roost.errors import DatabaseError, RoostError
from roost.messages.open_transport import open_transport
from roost.messages.options import RpcOptions
from roost.nova.shadow.service import ShadowService
from roost.options.settings import Settings
from roost.records.server_steps import AGENT_METHODS
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud import Cloud
from roost.scheduler.manager import METHODS
from roost.scheduler.options import NOVA, CloudOptions, ServiceOptions, ShadowOptions
from roost.scheduler.process import BINARY, OwnCloud, SchedulerService
from roost.services.health import HealthServer, MetricsSource, Readiness
from roost.services.lifecycle import DatabaseService, ManagedService, Signals, run_service
from roost.services.logs import flush_log, set_up_logging
from roost.services.metrics import Metrics
from roost.services.options import HealthOptions, HostOptions, LogOptions, StopOptions
from roost.services.workers import (
    Supervisor,
    WorkerMetrics,
    find_memory_folder,
    report_lasting_failure,
    report_readiness,
    stop_with_parent,
)
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

LOG = logging.getLogger(__name__)


class ServiceCommand(RoostCommand):
    """Runs a service in the foreground until a signal stops it. Subclasses say which service."""

    service: str
    """Name of the service, and of its command: `roost service NAME`."""
    binary: str
    """Name of the program in logs: nova's."""

    def methods(self) -> Collection[str]:
        """Names of the RPC methods that the service has."""
        raise NotImplementedError

    def make_service(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], metrics: Metrics
    ) -> DatabaseService:
        """The service, not started yet."""
        raise NotImplementedError

    def worker_count(self, settings: Settings) -> int:
        """Processes that do the work; 1: this one does."""
        return 1

    def open_listener(self, settings: Settings) -> socket.socket | None:
        """The socket from which several workers take connections; None where they take messages alone."""
        return None

    def read_settings(self, parsed_args: argparse.Namespace) -> Settings:
        """All options, from the files and the arguments."""
        return read_options(config_files(parsed_args))

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with --config-file and --config-dir; workers get hidden options from their parent."""
        parser = super().get_parser(prog_name)
        add_config_arguments(parser, "[database] connection, transport_url and all other options")
        parser.add_argument("--worker", type=whole_number(1), help=argparse.SUPPRESS)
        parser.add_argument("--listener", type=whole_number(0), help=argparse.SUPPRESS)
        parser.add_argument("--metrics-folder", type=Path, help=argparse.SUPPRESS)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run until a signal stops it; returns exit code 0."""
        files = config_files(parsed_args)
        settings = self.read_settings(parsed_args)
        set_up_logging(settings.fill(LogOptions), self.binary)
        try:
            has_ended = self._run(parsed_args, settings, files)
        finally:
            flush_log()  # an error is printed below it
        if not has_ended:
            _exit_without_waiting()
        return 0

    def _run(self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path]) -> bool:
        signals = Signals()
        with signals.installed():
            if parsed_args.worker is not None:
                return self._run_worker(parsed_args, settings, files, signals)
            if self.worker_count(settings) > 1:
                return self._run_workers(parsed_args, settings, files, signals)
            return self._run_alone(parsed_args, settings, files, signals)

    def _run_alone(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], signals: Signals
    ) -> bool:
        metrics = Metrics(self.methods(), services=(self.service,))
        service = self.make_service(parsed_args, settings, files, metrics)
        with self._health(settings, service, metrics):
            return run_service(service, SystemClock(), signals)

    def _run_worker(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], signals: Signals
    ) -> bool:
        parent = os.getppid()
        folder, number = parsed_args.metrics_folder, parsed_args.worker
        metrics = Metrics.for_worker(folder, number, self.methods(), services=(self.service,))
        service = self.make_service(parsed_args, settings, files, metrics)
        stop_with_parent(signals)
        try:
            return run_service(ReportingService(service), SystemClock(), signals)
        except RoostError as error:
            if error.is_lasting:
                report_lasting_failure(error)
            raise
        finally:
            if os.getppid() != parent:  # the parent was killed before it could remove the folder
                shutil.rmtree(folder, ignore_errors=True)

    def _run_workers(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], signals: Signals
    ) -> bool:
        clock = SystemClock()
        # Created and discarded: what no worker could work with is reported once, here, and not by every worker.
        once = self.make_service(parsed_args, settings, files, Metrics(self.methods(), services=(self.service,)))
        try:
            check_for_lasting_failures(once)
        finally:
            once.stop(is_hurried=False)
        listener = self.open_listener(settings)
        with tempfile.TemporaryDirectory(prefix="roost-metrics-", dir=find_memory_folder()) as folder:
            metrics = WorkerMetrics(Path(folder))

            def read_again() -> float:
                renewed = self.read_settings(parsed_args)
                set_up_logging(renewed.fill(LogOptions), self.binary)
                return renewed.fill(StopOptions).graceful_shutdown_timeout

            workers = Supervisor(
                self.worker_count(settings),
                self._worker_command(parsed_args, folder, listener),
                clock,
                settings.fill(StopOptions).graceful_shutdown_timeout,
                metrics.worker_ended,
                read_again,
                listener,
            )
            with self._health(settings, workers, metrics):
                return run_service(workers, clock, signals)

    def _worker_command(
        self, parsed_args: argparse.Namespace, metrics_folder: str, listener: socket.socket | None
    ) -> list[str]:
        command = [sys.executable, "-m", "roost", "service", self.service, "--metrics-folder", metrics_folder]
        if listener is not None:
            command += ["--listener", str(listener.fileno())]
        for name in ("config_file", "config_dir"):
            for path in getattr(parsed_args, name):
                command += [f"--{name.replace('_', '-')}", str(path)]
        return command

    @contextmanager
    def _health(self, settings: Settings, service: ManagedService, metrics: MetricsSource) -> Iterator[None]:
        options = settings.fill(HealthOptions)
        with health_server(options.health_address, options.port_of(self.service), service, metrics):
            yield


def check_for_lasting_failures(service: DatabaseService) -> None:
    """Raise the error of databases that no restart makes usable. One that is away is waited for by the workers."""
    try:
        service.check_databases()
    except DatabaseError as error:
        if error.is_lasting:
            LOG.error("the service cannot start: %s", error)
            raise


def _exit_without_waiting() -> None:
    """Exit with code 0. Python's own exit would wait for the threads of abandoned requests."""
    logging.shutdown()
    os._exit(0)


@contextmanager
def health_server(address: str, port: int, service: ManagedService, metrics: MetricsSource) -> Iterator[None]:
    """Context in which the health server answers; a negative port switches it off."""
    if port < 0:
        yield
        return

    def readiness() -> Readiness:
        reasons = service.unready()
        return Readiness(not reasons, tuple(reasons))

    server = HealthServer(address, port, readiness, metrics, is_alive=lambda: not service.hangs)
    server.start()
    if port == 0:
        LOG.info("the health pages are on port %d", server.port)
    try:
        yield
    finally:
        server.stop()


class ReportingService:
    """The service of a worker, with a heartbeat for the parent at every check."""

    def __init__(self, service: ManagedService) -> None:
        self._service, self.hangs = service, False
        self.start, self.unready, self.is_alive = service.start, service.unready, service.is_alive
        self.reload, self.stop, self.seconds_to_end = service.reload, service.stop, service.seconds_to_end

    def look_after(self) -> None:
        """Send a heartbeat with the reasons why it is not ready; none where it hangs: the parent restarts it."""
        if self._service.is_alive():
            report_readiness(self._service.unready())


class ServiceScheduler(ServiceCommand):
    """Run a scheduler: it takes requests from the queue, chooses hosts and claims them, until SIGTERM.

    Several may run, on one machine or on many: they share the queue and the ledger. SIGHUP reads the configuration
    again.
    """

    service, binary = "scheduler", BINARY

    def methods(self) -> Collection[str]:
        """Names of the RPC methods of a scheduler."""
        return METHODS

    def worker_count(self, settings: Settings) -> int:
        """[scheduler] workers. In shadow mode 1: the notifications about a request belong together."""
        return 1 if settings.fill(ShadowOptions).shadow else settings.fill(ServiceOptions).worker_count

    def make_service(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], metrics: Metrics
    ) -> SchedulerService:
        """A scheduler of this kind of cloud; in shadow mode one that claims nothing."""
        clock, randomness = SystemClock(), random.Random()  # noqa: S311 - picks among equals; nothing secret
        cloud: Cloud
        if settings.fill(CloudOptions).cloud == NOVA:
            from roost.nova.backend import NovaCloud  # needs keystoneauth, which is slow to import

            cloud = NovaCloud(settings, files, clock=clock, randomness=randomness, metrics=metrics)
        else:
            engine = open_engine(settings.fill(DatabaseOptions))
            cloud = OwnCloud(settings, engine, clock=clock, randomness=randomness, metrics=metrics)
        service = ShadowService if settings.fill(ShadowOptions).shadow else SchedulerService
        return service(
            settings,
            cloud,
            open_transport(settings.fill(RpcOptions), files),
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            files=files,
            read_again=partial(self.read_settings, parsed_args),
        )


class ServiceApi(ServiceCommand):
    """Run the API: Compute v2.1 and what its clients need beside it, until SIGTERM.

    Several may run, behind a load balancer, or on one port with [DEFAULT] osapi_compute_workers.
    """

    service, binary = "api", API_BINARY

    def methods(self) -> Collection[str]:
        """None: it calls conductors, and nothing calls it by messages."""
        return ()

    def worker_count(self, settings: Settings) -> int:
        """[DEFAULT] osapi_compute_workers."""
        return settings.fill(ApiOptions).osapi_compute_workers

    def open_listener(self, settings: Settings) -> socket.socket:
        """A listening socket at the address of the options."""
        return open_listener(settings.fill(ApiOptions))

    def make_service(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], metrics: Metrics
    ) -> DatabaseService:
        """An API, listening."""
        from roost.api.process import ApiService  # needs FastAPI, which other services do without

        engine = open_engine(settings.fill(DatabaseOptions))
        transport = open_transport(settings.fill(RpcOptions), files)
        return ApiService(
            settings,
            engine,
            transport,
            clock=SystemClock(),
            metrics=metrics,
            files=files,
            listener=None if parsed_args.listener is None else socket.socket(fileno=parsed_args.listener),
            read_again=partial(self.read_settings, parsed_args),
            owned=(transport.close, engine.dispose),
        )


class ServiceConductor(ServiceCommand):
    """Run a conductor: it takes requests of clients, has servers built, moved and deleted, until SIGTERM.

    Several may run, on one machine or on many: they share the queue, and finish what a dead process left behind.
    """

    service, binary = "conductor", CONDUCTOR_BINARY

    def methods(self) -> Collection[str]:
        """Names of the RPC methods of a conductor."""
        return CONDUCTOR_METHODS

    def worker_count(self, settings: Settings) -> int:
        """[conductor] workers."""
        return settings.fill(ConductorOptions).worker_count

    def make_service(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], metrics: Metrics
    ) -> ConductorService:
        """A conductor."""
        engine = open_engine(settings.fill(DatabaseOptions))
        transport = open_transport(settings.fill(RpcOptions), files)
        return ConductorService(
            settings,
            engine,
            transport,
            clock=SystemClock(),
            randomness=random.Random(),  # noqa: S311 - pauses; nothing secret
            metrics=metrics,
            read_again=partial(self.read_settings, parsed_args),
            owned=(transport.close, engine.dispose),
        )


class ServiceCompute(ServiceCommand):
    """Run the agent of a host: it reports what the host has, builds, moves and deletes servers, until SIGTERM.

    Guests go on running while it is stopped, and it goes on with what it left behind when it starts again.
    """

    service, binary = "compute", AGENT_BINARY

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the arguments of fake hosts."""
        parser = super().get_parser(prog_name)
        fake = parser.add_argument_group("fake hosts")
        fake.add_argument(
            "--fake-hosts",
            type=whole_number(1, 100_000),
            metavar="N",
            help="be the agents of so many fake hosts, whatever [DEFAULT] compute_driver and host say",
        )
        fake.add_argument(
            "--first-number", type=whole_number(0), default=1, metavar="N", help="of the fake hosts (default: 1)"
        )
        fake.add_argument(
            "--fake-name",
            type=numbered_name,
            default="fake-%04d",
            metavar="PATTERN",
            help="name of a fake host, with %%d or %%04d for its number (default: fake-%%04d)",
        )
        return parser

    def methods(self) -> Collection[str]:
        """Names of the RPC methods of an agent."""
        return AGENT_METHODS

    def read_settings(self, parsed_args: argparse.Namespace) -> Settings:
        """All options, from the files and the arguments."""
        explicit = {"DEFAULT": {"compute_driver": FAKE}} if parsed_args.fake_hosts else None
        return read_options(config_files(parsed_args), explicit=explicit)

    def make_service(
        self, parsed_args: argparse.Namespace, settings: Settings, files: list[Path], metrics: Metrics
    ) -> ComputeService:
        """The agent of this host, or those of the fake hosts."""
        clock, randomness = SystemClock(), random.Random()  # noqa: S311 - failures of fake hosts, pauses
        first = parsed_args.first_number
        numbers = range(first, first + (parsed_args.fake_hosts or 0))
        hosts = [parsed_args.fake_name % number for number in numbers] or [settings.fill(HostOptions).service_host]
        engine = open_engine(settings.fill(DatabaseOptions))
        transport = open_transport(settings.fill(RpcOptions), files)
        return ComputeService(
            settings,
            engine,
            transport,
            make_drivers(settings, hosts, clock=clock, randomness=randomness),
            clock=clock,
            randomness=randomness,
            metrics=metrics,
            read_again=partial(self.read_settings, parsed_args),
            owned=(transport.close, engine.dispose),
        )


def numbered_name(text: str) -> str:
    """A converter for `type=`: a pattern with one %d or %04d."""
    if not re.fullmatch(r"[^%\s]*%(0\d)?d[^%\s]*", text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a name with one %d or %04d for a number")
    return text
