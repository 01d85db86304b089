# SPDX-License-Identifier: Apache-2.0
"""`roost service ...`: run a service in the foreground until a signal stops it."""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roost.cli.arguments import RoostCommand, add_config_arguments, config_files, whole_number
from roost.clock import SystemClock
from roost.config import Settings
from roost.observe.health_pages import MetricsSource, Readiness
from roost.observe.health_server import HealthServer
from roost.observe.logs import set_up_logging
from roost.observe.metrics import Metrics
from roost.observe.options import HealthOptions, LogOptions
from roost.observe.worker_metrics import WorkerMetrics, find_memory_folder
from roost.rpc import RpcOptions, open_transport
from roost.scheduler.build import read_options
from roost.scheduler.cloud_options import NOVA, CloudOptions, ShadowOptions
from roost.scheduler.options import ServiceOptions
from roost.scheduler.service import BINARY, METHODS, Cloud, OwnCloud, SchedulerService, ShadowService
from roost.service.lifecycle import ManagedService, Signals, run_service
from roost.service.supervisor import Supervisor
from roost.service.worker_process import report_readiness, stop_with_parent
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

LOG = logging.getLogger(__name__)


class ServiceScheduler(RoostCommand):
    """Run a scheduler: it takes requests from the queue, chooses hosts and claims them, until SIGTERM.

    Several may run, on one machine or on many: they share the queue and the ledger. SIGHUP reads the configuration
    again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with --config-file and --config-dir; workers get hidden options from their parent."""
        parser = super().get_parser(prog_name)
        add_config_arguments(parser, "[database] connection, transport_url and all other options")
        parser.add_argument("--worker", type=whole_number(1), help=argparse.SUPPRESS)
        parser.add_argument("--metrics-folder", type=Path, help=argparse.SUPPRESS)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run until a signal stops it; returns exit code 0."""
        files = config_files(parsed_args)
        settings = read_options(files)
        set_up_logging(settings.fill(LogOptions), BINARY)
        options, signals = settings.fill(ServiceOptions), Signals()
        with signals.installed():
            if parsed_args.worker is not None:
                has_ended = _run_worker(parsed_args, settings, files, signals)
            elif options.worker_count > 1 and not settings.fill(ShadowOptions).shadow:
                has_ended = _run_workers(parsed_args, settings, files, signals)
            else:
                has_ended = _run_alone(parsed_args, settings, files, signals)
        if not has_ended:
            _exit_without_waiting()
        return 0


def _exit_without_waiting() -> None:
    """Exit with code 0. Python's own exit would wait for the threads of abandoned requests."""
    logging.shutdown()
    os._exit(0)


def _run_alone(parsed_args: argparse.Namespace, settings: Settings, files: list[Path], signals: Signals) -> bool:
    metrics = Metrics(METHODS)
    service = _make_service(parsed_args, settings, files, metrics)
    with _health(settings, service, metrics):
        return run_service(service, SystemClock(), signals)


def _run_worker(parsed_args: argparse.Namespace, settings: Settings, files: list[Path], signals: Signals) -> bool:
    parent = os.getppid()
    metrics = Metrics.for_worker(parsed_args.metrics_folder, parsed_args.worker, METHODS)
    service = _make_service(parsed_args, settings, files, metrics)
    stop_with_parent(signals)
    try:
        return run_service(_ReportingService(service), SystemClock(), signals)
    finally:
        if os.getppid() != parent:  # the parent was killed before it could remove the folder
            shutil.rmtree(parsed_args.metrics_folder, ignore_errors=True)


def _run_workers(parsed_args: argparse.Namespace, settings: Settings, files: list[Path], signals: Signals) -> bool:
    options, clock = settings.fill(ServiceOptions), SystemClock()
    # Created and discarded: a wrong configuration is reported once, here, and not by every worker.
    _make_service(parsed_args, settings, files, Metrics(METHODS)).stop(is_hurried=False)
    with tempfile.TemporaryDirectory(prefix="roost-metrics-", dir=find_memory_folder()) as folder:
        metrics = WorkerMetrics(Path(folder))
        command = [sys.executable, "-m", "roost", "service", "scheduler", "--metrics-folder", folder]
        for name in ("config_file", "config_dir"):
            for path in getattr(parsed_args, name):
                command += [f"--{name.replace('_', '-')}", str(path)]

        def read_again() -> float:
            renewed = read_options(config_files(parsed_args))
            set_up_logging(renewed.fill(LogOptions), BINARY)
            return renewed.fill(ServiceOptions).graceful_shutdown_timeout

        workers = Supervisor(
            options.worker_count,
            command,
            clock,
            options.graceful_shutdown_timeout,
            metrics.worker_ended,
            read_again,
        )
        with _health(settings, workers, metrics):
            return run_service(workers, clock, signals)


def _make_service(
    parsed_args: argparse.Namespace, settings: Settings, files: list[Path], metrics: Metrics
) -> SchedulerService:
    clock, randomness = SystemClock(), random.Random()  # noqa: S311 - picks among equals; nothing secret
    cloud: Cloud
    if settings.fill(CloudOptions).cloud == NOVA:
        from roost.nova_cloud.cloud import NovaCloud  # needs keystoneauth, which is slow to import

        cloud = NovaCloud(settings, files, clock=clock, randomness=randomness, metrics=metrics)
    else:
        engine = open_engine(settings.fill(DatabaseOptions))
        cloud = OwnCloud(settings, engine, clock=clock, randomness=randomness, metrics=metrics)
    # In shadow mode there is one process: the notifications about a request belong together.
    service = ShadowService if settings.fill(ShadowOptions).shadow else SchedulerService
    return service(
        settings,
        cloud,
        open_transport(settings.fill(RpcOptions), files),
        clock=clock,
        randomness=randomness,
        metrics=metrics,
        files=files,
        read_again=lambda: read_options(config_files(parsed_args)),
    )


@contextmanager
def _health(settings: Settings, service: ManagedService, metrics: MetricsSource) -> Iterator[None]:
    """Run the health server, unless [roost] health_port switches it off."""
    options = settings.fill(HealthOptions)
    if options.health_port < 0:
        yield
        return

    def readiness() -> Readiness:
        reasons = service.unready()
        return Readiness(not reasons, tuple(reasons))

    server = HealthServer(
        options.health_address, options.health_port, readiness, metrics, is_alive=lambda: not service.hangs
    )
    server.start()
    if options.health_port == 0:
        LOG.info("the health pages are on port %d", server.port)
    try:
        yield
    finally:
        server.stop()


class _ReportingService:
    """The service of a worker, with a heartbeat for the parent at every check."""

    def __init__(self, service: SchedulerService) -> None:
        self._service, self.hangs = service, False
        self.start, self.unready, self.is_alive = service.start, service.unready, service.is_alive
        self.reload, self.stop, self.seconds_to_end = service.reload, service.stop, service.seconds_to_end

    def look_after(self) -> None:
        """Send a heartbeat with the reasons why it is not ready; none where it hangs: the parent restarts it."""
        if self._service.is_alive():
            report_readiness(self._service.unready())
