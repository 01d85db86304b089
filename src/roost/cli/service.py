# SPDX-License-Identifier: Apache-2.0
"""`roost service ...`: run a service in the foreground until a signal stops it."""

from __future__ import annotations

import argparse
import random
import re
import socket
from collections.abc import Collection
from functools import partial
from pathlib import Path

from roost.api.options import BINARY as API_BINARY
from roost.api.options import ApiOptions
from roost.api.process import open_listener
from roost.cli.arguments import config_files, whole_number
from roost.cli.service_command import ServiceCommand
from roost.clock import SystemClock
from roost.compute.drivers.registry import make_drivers
from roost.compute.options import FAKE
from roost.compute.process import BINARY as AGENT_BINARY
from roost.compute.process import ComputeService
from roost.conductor.options import ConductorOptions
from roost.conductor.process import BINARY as CONDUCTOR_BINARY
from roost.conductor.process import METHODS as CONDUCTOR_METHODS
from roost.conductor.process import ConductorService
from roost.messages.open_transport import open_transport
from roost.messages.oslo import RpcOptions
from roost.nova.shadow.service import ShadowService
from roost.options.settings import Settings
from roost.records.server_steps import AGENT_METHODS
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud import Cloud
from roost.scheduler.cloud_options import NOVA, CloudOptions, ShadowOptions
from roost.scheduler.manager import METHODS
from roost.scheduler.options import ServiceOptions
from roost.scheduler.process import BINARY, OwnCloud, SchedulerService
from roost.services.lifecycle import DatabaseService
from roost.services.metrics import Metrics
from roost.services.rpc_service import HostOptions
from roost.store.engine import DatabaseOptions, open_engine


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
