# SPDX-License-Identifier: Apache-2.0
"""`roost capacity`: how many more servers fit on a fleet, where, and what runs out first."""

from __future__ import annotations

import argparse

from roost.cli.arguments import add_config_arguments, whole_number
from roost.cli.columns import Columns
from roost.cli.headroom_report import (
    ALL_COLUMNS,
    HOST_COLUMNS,
    all_flavors_report,
    group_columns,
    hosts_report,
    one_flavor_report,
)
from roost.cli.inspected_fleet import add_fleet_arguments, load_fleet, make_scheduler
from roost.cli.output import Report, ReportCommand
from roost.cli.progress_bar import changing_bar
from roost.cli.request_arguments import add_request_arguments, build_request
from roost.cli.size_arguments import check_size
from roost.cli.what_if_arguments import add_what_if_arguments
from roost.errors import BadInput
from roost.library import Scheduler
from roost.model import RequestSpec
from roost.questions.headroom import AVAILABILITY_ZONE, MOST_PLACED, Progress
from roost.questions.plan import count_each
from roost.questions.records import Headroom
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.sources.fleet_file import Fleet

CUSTOM_SIZE = "servers of this size"
"""Stands for the name of a flavor, where its parts are given."""


class Capacity(ReportCommand):
    """Say how many more servers fit on a fleet, where, and what runs out first. Places nothing."""

    columns = ALL_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name the fleet and describe the servers, and how to group the hosts."""
        add_fleet_arguments(parser)
        add_request_arguments(parser, is_to_be_counted=True)
        count = parser.add_argument_group("count")
        count.add_argument(
            "--by",
            metavar="KEY",
            default=AVAILABILITY_ZONE,
            help="metadata key of aggregates by which hosts are grouped, such as rack (default: availability_zone)",
        )
        count.add_argument("--long", action="store_true", help="a row per host that takes servers")
        count.add_argument(
            "--n-plus-one",
            action="store_true",
            help="also find the host whose loss costs most: its servers are placed again on the others first",
        )
        count.add_argument(
            "--most",
            type=whole_number(least=1),
            default=MOST_PLACED,
            metavar="N",
            help=f"stop counting there, and try no loss of a host then (default: {MOST_PLACED})",
        )
        add_config_arguments(parser.add_argument_group("scheduler"))
        add_what_if_arguments(parser.add_argument_group("what if"))

    def columns_for(self, parsed_args: argparse.Namespace) -> Columns | None:
        """Those of flavors, of the hosts that take one flavor, or of groups of hosts."""
        if not is_about_one(parsed_args):
            return ALL_COLUMNS
        return HOST_COLUMNS if parsed_args.long else group_columns(parsed_args.by)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """How many servers fit, and exit code 0, also where none does."""
        is_one = is_about_one(parsed_args)
        if is_one:
            check_size(parsed_args)
        elif parsed_args.long:
            raise BadInput("--long is for one flavor", "add --flavor NAME")
        is_quiet = getattr(self.app_args, "quiet", False)
        fleet = load_fleet(parsed_args, is_quiet)
        scheduler = make_scheduler(fleet, parsed_args, engine=IncrementalEngine)
        specs = build_requests(parsed_args, fleet, scheduler, is_one)
        with changing_bar(is_quiet) as progress:
            if not is_one:
                counted = count_each(
                    specs,
                    lambda name, spec: count(scheduler, spec, name, parsed_args, progress),
                    scheduler.headroom_key,
                )
                return all_flavors_report(counted), 0
            [(name, spec)] = specs.items()
            headroom = count(scheduler, spec, name, parsed_args, progress)
        return (hosts_report if parsed_args.long else one_flavor_report)(name, headroom), 0


def is_about_one(parsed_args: argparse.Namespace) -> bool:
    """Whether the arguments name one flavor or a size, in place of all flavors."""
    amounts = (parsed_args.vcpus, parsed_args.ram, parsed_args.disk)
    return bool(parsed_args.flavor) or any(amount is not None for amount in amounts)


def build_requests(
    parsed_args: argparse.Namespace, fleet: Fleet, scheduler: Scheduler, is_one: bool
) -> dict[str, RequestSpec]:
    """Name of a flavor -> the request for it: for the size that the arguments give, or for each flavor there is."""
    if is_one:
        return {parsed_args.flavor or CUSTOM_SIZE: build_request(parsed_args, fleet, scheduler)}
    if not fleet.flavors:
        raise BadInput("the fleet has no flavors", "give --vcpus N --ram MIB and, if it has one, --disk GB")
    asked = {name: argparse.Namespace(**vars(parsed_args) | {"flavor": name}) for name in fleet.flavors}
    return {name: build_request(each, fleet, scheduler) for name, each in asked.items()}


def count(
    scheduler: Scheduler, spec: RequestSpec, name: str, parsed_args: argparse.Namespace, progress: Progress
) -> Headroom:
    """The headroom of one request; `name`: of its flavor, for the progress bar."""
    return scheduler.headroom(
        spec,
        parsed_args.by,
        loses_a_host=parsed_args.n_plus_one,
        most=parsed_args.most,
        progress=lambda what, done, about: progress(f"{name}: {what}", done, about),
    )
