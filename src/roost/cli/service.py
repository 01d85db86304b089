# SPDX-License-Identifier: Apache-2.0
"""`roost service ...`: run a service in the foreground until a signal stops it."""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection
from pathlib import Path

from roost.cli.arguments import config_files
from roost.cli.service_command import ServiceCommand
from roost.clock import SystemClock
from roost.config import Settings
from roost.observe.metrics import Metrics
from roost.rpc import RpcOptions, open_transport
from roost.scheduler.build import read_options
from roost.scheduler.cloud_options import NOVA, CloudOptions, ShadowOptions
from roost.scheduler.options import ServiceOptions
from roost.scheduler.service import BINARY, METHODS, Cloud, OwnCloud, SchedulerService, ShadowService
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions


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
            from roost.nova_cloud.cloud import NovaCloud  # needs keystoneauth, which is slow to import

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
            read_again=lambda: read_options(config_files(parsed_args)),
        )
