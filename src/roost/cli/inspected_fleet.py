# SPDX-License-Identifier: Apache-2.0
"""The fleet that a command looks at without changing it: which arguments name it, and the scheduler on it."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import config_files
from roost.fleet import Fleet
from roost.library import Scheduler
from roost.scheduler import FullScanEngine
from roost.scheduler.pipeline import MakeEngine


def add_fleet_arguments(parser: Any) -> None:
    """Add --fleet to a parser or to an argument group."""
    parser.add_argument("--fleet", required=True, metavar="FILE", help="fleet file, YAML or JSON; - for stdin")


def load_fleet(parsed_args: argparse.Namespace) -> Fleet:
    """The fleet that the arguments name, with its host records."""
    return Fleet.load(parsed_args.fleet, keeps_records=True)


def make_scheduler(
    fleet: Fleet, parsed_args: argparse.Namespace, engine: MakeEngine = FullScanEngine, seed: int | None = None
) -> Scheduler:
    """A scheduler on the fleet, with the options of the fleet and of the config files that the arguments name."""
    return Scheduler(fleet, seed=seed, config_files=config_files(parsed_args), engine=engine)
