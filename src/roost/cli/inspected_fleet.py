# SPDX-License-Identifier: Apache-2.0
"""The fleet that a command looks at without changing it: which arguments name it, and the scheduler on it.

A command that also has the arguments of `what_if_arguments.py` sees the fleet as they change it.
"""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import config_files
from roost.cli.what_if_arguments import what_if_fleet, what_if_options
from roost.fleet import Fleet
from roost.library import Scheduler
from roost.scheduler import FullScanEngine
from roost.scheduler.pipeline import MakeEngine


def add_fleet_arguments(parser: Any) -> None:
    """Add --fleet to a parser or to an argument group."""
    parser.add_argument("--fleet", required=True, metavar="FILE", help="fleet file, YAML or JSON; - for stdin")


def load_fleet(parsed_args: argparse.Namespace) -> Fleet:
    """The fleet that the arguments name, with its host records."""
    return what_if_fleet(parsed_args, Fleet.load(parsed_args.fleet, keeps_records=True))


def make_scheduler(
    fleet: Fleet, parsed_args: argparse.Namespace, engine: MakeEngine = FullScanEngine, seed: int | None = None
) -> Scheduler:
    """A scheduler on the fleet, with the options of the fleet and of the config files that the arguments name."""
    options = what_if_options(parsed_args, fleet)
    return Scheduler(fleet, options, seed=seed, config_files=config_files(parsed_args), engine=engine)
