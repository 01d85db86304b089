# SPDX-License-Identifier: Apache-2.0
"""The fleet that a command looks at without changing it: a fleet file, a snapshot, or the live cloud.

The live cloud is fetched as a snapshot, so whatever a command answers about it can be asked again on another machine.
A command that also has the arguments of `what_if_arguments.py` sees the fleet as they change it.
"""

from __future__ import annotations

import argparse
import binascii
from base64 import b64decode
from pathlib import Path
from typing import Any

from roost.cli.arguments import add_cloud_argument, add_snapshot_argument, config_files
from roost.cli.client_command import Progress, opened_client
from roost.cli.what_if_arguments import what_if_fleet, what_if_options
from roost.client.interface import CommandClient
from roost.clock import SystemClock
from roost.errors import MessageError, RpcUnreachable
from roost.library import Scheduler
from roost.scheduler.all_options import read_options
from roost.scheduler.cloud_options import NOVA, CloudOptions
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.pipeline import MakeEngine
from roost.sources.fleet_file import Fleet
from roost.sources.snapshot import Snapshot

LIVE = "the live cloud"


def add_fleet_arguments(parser: Any) -> None:
    """Add --fleet and --from to a parser or to an argument group; without either it is the live cloud."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--fleet", metavar="FILE", help="fleet file, YAML or JSON; - for stdin")
    add_snapshot_argument(source, "the live cloud, as it is now")
    add_cloud_argument(source)


def load_fleet(parsed_args: argparse.Namespace, is_quiet: bool = False) -> Fleet:
    """The fleet that the arguments name, as they change it, with its host records.

    `is_quiet`: no line that says what is waited for.
    """
    return what_if_fleet(parsed_args, _load_fleet(parsed_args, is_quiet))


def _load_fleet(parsed_args: argparse.Namespace, is_quiet: bool) -> Fleet:
    if parsed_args.fleet is not None:
        return Fleet.load(parsed_args.fleet, keeps_records=True)
    if parsed_args.snapshot is not None:
        return Snapshot.load(parsed_args.snapshot).fleet
    try:
        return load_live_snapshot(parsed_args, is_quiet).fleet
    except RpcUnreachable as error:
        raise RpcUnreachable(error.message, f"{error.hint}; or name a file: --fleet FILE, --from SNAPSHOT") from None


def load_live_snapshot(parsed_args: argparse.Namespace, is_quiet: bool = False) -> Snapshot:
    """A snapshot of the cloud that the arguments name, taken now, with a line on a terminal while it is fetched."""
    progress = Progress(is_quiet)
    try:
        progress.show("fetching a snapshot of the cloud")
        if parsed_args.os_cloud is None and (found := _nova_snapshot(config_files(parsed_args))) is not None:
            return found
        with opened_client(parsed_args) as client:
            content = _fetch_snapshot(client)
        return Snapshot.of_bytes(content, LIVE)
    finally:
        progress.stop()


def _nova_snapshot(files: list[Path]) -> Snapshot | None:
    """A snapshot of the nova cloud of these config files; None where they are for a cloud of Roost's own."""
    settings = read_options(files)
    if settings.fill(CloudOptions).cloud != NOVA:
        return None
    from roost.nova.snapshot import take_snapshot  # needs keystoneauth, which is slow to import

    return take_snapshot(settings, files, SystemClock())


def _fetch_snapshot(client: CommandClient) -> bytes:
    """The content of a snapshot file, taken of a live cloud at this moment."""
    try:
        return b64decode(client.get_snapshot()["snapshot"], validate=True)
    except (KeyError, TypeError, binascii.Error):
        raise MessageError("get_snapshot: the answer is no snapshot") from None


def make_scheduler(
    fleet: Fleet, parsed_args: argparse.Namespace, engine: MakeEngine = FullScanEngine, seed: int | None = None
) -> Scheduler:
    """A scheduler on the fleet, with the options of the fleet and of the config files that the arguments name."""
    options = what_if_options(parsed_args, fleet)
    return Scheduler(fleet, options, seed=seed, config_files=config_files(parsed_args), engine=engine)
