# SPDX-License-Identifier: Apache-2.0
"""`roost capacity`: how many more servers fit on a fleet, where, and what runs out first."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from roost.cli.arguments import add_config_arguments, add_request_arguments, build_request, check_size, whole_number
from roost.cli.fleet_arguments import add_fleet_arguments, add_what_if_arguments, load_fleet, make_scheduler
from roost.cli.output import Columns, Report, ReportCommand, changing_bar
from roost.errors import BadInput
from roost.library import Scheduler
from roost.model import RequestSpec
from roost.questions.headroom import AVAILABILITY_ZONE, MOST_PLACED, Progress
from roost.questions.plan import Counted, count_each, headroom_record
from roost.questions.records import Headroom, HostLoss, Shortage
from roost.scheduler.incremental.engine import IncrementalEngine
from roost.sources.fleet_file import Fleet

ALL_COLUMNS = {
    "Flavor": "flavor",
    "Fit": "fits",
    "On hosts": "hosts_used",
    "Runs out first": "shortages",
    "After a loss": "fits_after_a_loss",
    "Lost host": "lost_host",
    "Homeless": "homeless",
}
HOST_COLUMNS = {"Host": "host", "Node": "node", "Fit": "fits"}


def group_columns(by: str) -> Columns:
    """Columns of the groups of hosts: zones, or values of another metadata key of aggregates."""
    rest = {"Hosts": "hosts", "Fit": "fits", "On hosts": "hosts_used", "Runs out first": "shortages"}
    title = "Zone" if by == AVAILABILITY_ZONE else "Group" if by in rest else by
    return {title: "name", **rest}


def one_flavor_report(name: str, headroom: Headroom) -> Report:
    """One row per zone, or per value of another metadata key."""
    rows = [
        (each.name, each.hosts, each.fits, each.hosts_used, _first(each.shortages, headroom.is_complete))
        for each in headroom.groups
    ]
    columns = tuple(group_columns(headroom.by))
    return Report(headroom_record(name, headroom), columns, rows, caption=_caption(name, headroom))


def hosts_report(name: str, headroom: Headroom) -> Report:
    """One row per host that takes instances."""
    rows = [(each.host, each.node, each.fits) for each in headroom.placed]
    same = frozenset({"Node"} if all(each.host == each.node for each in headroom.placed) else ())
    record, caption = headroom_record(name, headroom), _caption(name, headroom)
    return Report(record, tuple(HOST_COLUMNS), rows, caption=caption, minor=same)


def all_flavors_report(counted: Mapping[str, Counted]) -> Report:
    """One row per flavor, by its name. Each was counted alone; BadInput says why one was not."""
    found = {name: each for name, each in counted.items() if isinstance(each, Headroom)}
    losses = [each.worst_loss for each in found.values() if each.worst_loss]
    columns = tuple(ALL_COLUMNS)
    shown = 4 if not losses else 7 if any(each.homeless for each in losses) else 6
    lines = [f"{next(iter(found.values())).hosts} hosts; each flavor is counted alone, as if all room were for it"]
    lines += [
        f"{name}: counting stopped at {each.fits}, see --most" for name, each in found.items() if not each.is_complete
    ]
    lines += [f"{name}: {each}" for name, each in counted.items() if isinstance(each, BadInput)]
    return Report(
        [headroom_record(name, each) for name, each in counted.items()],
        columns,
        [_row(name, each) for name, each in counted.items()],
        caption="\n".join(lines),
        minor=frozenset(columns[shown:]),
    )


def _row(name: str, counted: Counted) -> tuple[Any, ...]:
    if isinstance(counted, BadInput):
        return name, "", "", "not valid", "", "", ""
    loss = counted.worst_loss
    cells = (loss.fits, loss.host, loss.homeless) if loss else ("", "", "")
    return name, counted.fits, counted.hosts_used, _first(counted.shortages, counted.is_complete), *cells


def summarize(name: str, headroom: Headroom) -> str:
    """One sentence: how many fit, what runs out first, and how many fit after the loss of a host."""
    verb = "fits" if headroom.fits == 1 else "fit"
    if not headroom.is_complete:
        return f"{headroom.fits} more {name} {verb}, and maybe more: counting stopped there, see --most"
    parts = [f"{headroom.fits} more {name} {verb}", *_what_stops(headroom)]
    if headroom.worst_loss:
        parts.append(f"{headroom.worst_loss.fits} after the loss of {headroom.worst_loss.host}")
    return "; ".join(parts)


def _what_stops(headroom: Headroom) -> list[str]:
    if not headroom.shortages:
        return ["there are no hosts"]
    first, hosts = headroom.shortages[0], _hosts(headroom.hosts)
    if not first.ran_out_on:
        return [f"{first.name} rejects {first.hosts} of {hosts}"]
    verb = "runs out first" if first.stage == "capacity" else "is the first limit"
    others = [f"{each.name} on {each.ran_out_on}" for each in headroom.shortages[1:] if each.ran_out_on]
    return [", ".join([f"{first.name} {verb}", f"on {first.ran_out_on} of {hosts}", *others])]


def _caption(name: str, headroom: Headroom) -> str:
    lines = [summarize(name, headroom)]
    lacking = [f"{each.hosts} {each.name}{_in_brackets(each.detail)}" for each in headroom.shortages if each.hosts]
    if headroom.is_complete and lacking:
        lines.append(f"left out in the end: {', '.join(lacking)}")
    if headroom.worst_loss:
        lines += _notes_on(headroom.worst_loss)
    return "\n".join(lines)


def _notes_on(loss: HostLoss) -> list[str]:
    """What to know of the loss of a host, a line each."""
    asked, host = loss.servers + loss.homeless, loss.host
    lines = [f"{host}: {loss.servers} of its {asked} servers placed on other hosts first"] if asked else []
    if loss.homeless:
        lines = [f"{host}: {loss.homeless} of its {asked} servers would find no other host"]
    if loss.unknown_servers:
        lines.append(f"{host}: {loss.unknown_servers} of its servers were left out, as their size is not known")
    if loss.has_unlisted_use:
        lines.append(f"{host}: more is in use than its listed servers take; what is not listed was not placed again")
    if not loss.is_worst_of_all:
        lines.append(f"the loss of {loss.tried} of {loss.candidates} hosts was tried: those with most to lose")
    return lines


def _first(shortages: Sequence[Shortage], is_complete: bool) -> str:
    """What ran out on most hosts; where nothing did, and counting went to the end, what rejects most."""
    if not shortages or not (shortages[0].ran_out_on or is_complete):
        return ""
    return f"{shortages[0].name}, {_hosts(shortages[0].ran_out_on or shortages[0].hosts)}"


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _in_brackets(detail: str) -> str:
    return f" ({detail})" if detail else ""


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
