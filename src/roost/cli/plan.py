# SPDX-License-Identifier: Apache-2.0
"""`roost plan`: where the servers of a whole file of requests would go, one request after the other."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence

from roost.cli.arguments import add_config_arguments, whole_number
from roost.cli.columns import titled
from roost.cli.inspected_fleet import add_fleet_arguments, load_fleet, make_scheduler
from roost.cli.output import Report, ReportCommand
from roost.cli.progress_bar import progress_bar
from roost.cli.what_if_arguments import add_what_if_arguments
from roost.questions.plan import PlanFile, PlannedPlacement, place, plan_record
from roost.scheduler.incremental.engine import IncrementalEngine

COLUMNS = titled("Request", "Instances", "Hosts", "Why not")
DOES_NOT_FIT = 1
"""Exit code where a request of the file has no host."""
_MOST_HOSTS_IN_A_CELL = 4


class Plan(ReportCommand):
    """Place a file of requests on a copy of a cloud, each with what the earlier ones took. Nothing is changed.

    The file is a list of requests, YAML or JSON: name, flavor (or vcpus, ram, disk), image, count, hints, group,
    availability_zone, host, force_hosts, ignore_hosts, project.
    """

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file of requests, and what names the fleet and its options."""
        parser.add_argument("file", metavar="FILE", help="list of requests, YAML or JSON; - for stdin")
        add_fleet_arguments(parser)
        how = parser.add_argument_group("scheduler and cloud")
        add_config_arguments(how, "options, or the transport_url of the live cloud")
        how.add_argument("--seed", type=whole_number(), metavar="N", help="repeat a run in which chance plays a part")
        add_what_if_arguments(parser.add_argument_group("what if"))

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each request; exit code 0 if all fit, DOES_NOT_FIT if one does not."""
        is_quiet = getattr(self.app_args, "quiet", False)
        plan = PlanFile.load(parsed_args.file)
        fleet = load_fleet(parsed_args, is_quiet)
        scheduler = make_scheduler(fleet, parsed_args, IncrementalEngine, parsed_args.seed)
        specs = list(plan.specs(fleet, scheduler))
        with progress_bar("requests", len(specs), is_quiet) as advance:
            found = []
            for request, spec in zip(plan.requests, specs, strict=True):
                found.append(place(scheduler, request, spec))
                advance(1)
        return plan_report(found), 0 if all(each.fits for each in found) else DOES_NOT_FIT


def plan_report(found: Sequence[PlannedPlacement]) -> Report:
    """A row per request: its instances, and their hosts or why there are none."""
    rows = [(each.request.name, each.request.count, _hosts_text(each), _why_not(each)) for each in found]
    fitting = [each for each in found if each.fits]
    placed, wanted = (sum(each.request.count for each in some) for some in (fitting, found))
    caption = f"{len(fitting)} of {len(found)} requests fit: {placed} of {wanted} instances; nothing was changed"
    minor = frozenset() if len(fitting) < len(found) else frozenset({"Why not"})
    return Report(lambda: plan_record(found), tuple(COLUMNS), rows, caption=caption, minor=minor)


def _hosts_text(placement: PlannedPlacement) -> str:
    """The hosts, in the order in which they were chosen, each with the number of instances if that is not one."""
    counts = Counter(placement.hosts)
    listed = [host if count == 1 else f"{host} ({count})" for host, count in counts.items()]
    more = len(listed) - _MOST_HOSTS_IN_A_CELL
    return ", ".join(listed[:_MOST_HOSTS_IN_A_CELL]) + (f" and {more} more" if more > 0 else "") or "-"


def _why_not(placement: PlannedPlacement) -> str:
    return "" if placement.fits else placement.decision.summary
