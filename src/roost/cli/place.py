# SPDX-License-Identifier: Apache-2.0
"""`roost place` and `roost plan`: where one request, or each of a file of requests, goes on a fleet.

`place` prints the decision or a profile. `plan` places one request after the other, each with what the earlier took.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.text import Text

from roost.cli.arguments import add_config_arguments, add_request_arguments, build_request, check_size, whole_number
from roost.cli.explain import explanation_report
from roost.cli.fleet_arguments import add_fleet_arguments, add_what_if_arguments, load_fleet, make_scheduler
from roost.cli.output import Report, ReportCommand, console, progress_bar, titled
from roost.errors import NoValidHost
from roost.model import Decision
from roost.model.json_records import to_json
from roost.questions.plan import PlanFile, PlannedPlacement, place, plan_record
from roost.questions.profile import Profile
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.incremental.engine import IncrementalEngine

EXPLAINED = "roost explain says what would help"


class Place(ReportCommand):
    """Choose hosts for new instances on a fleet, and show how they were chosen."""

    columns = None  # one for each weigher

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add what names the fleet, and the arguments that describe the instance, the request and the scheduler."""
        add_fleet_arguments(parser)
        add_request_arguments(parser)
        _add_scheduler(parser.add_argument_group("scheduler"))
        add_what_if_arguments(parser.add_argument_group("what if"))

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The placement in memory, and exit code 0; 1 where no host fits. Raises NoValidHost for text formats."""
        check_size(parsed_args)  # before a live cloud is asked for its fleet
        fleet = load_fleet(parsed_args, getattr(self.app_args, "quiet", False))
        is_one_shot = parsed_args.count == 1 and not parsed_args.profile
        engine = FullScanEngine if is_one_shot else IncrementalEngine
        scheduler = make_scheduler(fleet, parsed_args, engine, parsed_args.seed)
        spec = build_request(parsed_args, fleet, scheduler)
        if parsed_args.explain:
            console(stderr=True).print(Text("--explain goes away: use roost explain instead of place", "yellow"))
            explanation = scheduler.explain(spec)
            return explanation_report(explanation), 0 if explanation.fits else 1
        if parsed_args.profile:
            return profile_report(scheduler.profile(spec)), 0
        try:
            decision = scheduler.place(spec, parsed_args.alternates)
        except NoValidHost as failure:
            if parsed_args.format in ("json", "yaml"):
                return Report(to_json(failure.decision), (), ()), 1
            if failure.decision.hosts:
                failure.hint = EXPLAINED
            raise
        return placement_report(decision), 0


def _add_scheduler(how: Any) -> None:
    add_config_arguments(how)
    how.add_argument("--seed", type=whole_number(), metavar="N", help="repeat a run in which chance plays a part")
    how.add_argument(
        "--alternates",
        type=whole_number(least=0),
        metavar="K",
        help="hosts to try next, per instance (default: max_attempts - 1)",
    )
    instead = how.add_mutually_exclusive_group()
    instead.add_argument("--explain", action="store_true", help="use roost explain instead: this goes away")
    instead.add_argument("--profile", action="store_true", help="place nothing; say where the time of it goes")


def placement_report(decision: Decision) -> Report:
    """One row per candidate host for a single instance, one row per instance for several; with scores."""
    single = len(decision.selections) == 1
    ranking = decision.best if single else [each.ranked for each in decision.selections if each.ranked]
    weighers = [name.removesuffix("Weigher") for name in decision.weighers]
    columns = ("Rank" if single else "Instance", "Host", "Node", *weighers, "Total")
    rows = []
    for at, ranked in enumerate(ranking, start=1):
        scores = [ranked.scores[name].contribution if name in ranked.scores else 0.0 for name in decision.weighers]
        rows.append((at, ranked.host, ranked.node, *scores, ranked.weight))
    return Report(partial(to_json, decision), columns, rows, caption=summarize(decision), minor=_minor(columns, rows))


def profile_report(profile: Profile) -> Report:
    """Median times in microseconds: a row per stage, then a row per filter and weigher."""
    stages = [(name, f"{first:.1f}", f"{profile.again_us[name]:.1f}") for name, first in profile.first_us.items()]
    rules = [(name, f"{spent:.1f}", "") for name, spent in profile.rules_us.items()]
    caption = (
        f"{profile.hosts} hosts; microseconds, medians. First: nothing is known of such a request.\n"
        "Again: the next ones like it. What is kept answers for prefilter and capacity, too: see filter.\n"
        "Below the total: each filter and weigher by itself on all hosts."
    )
    return Report(to_json(profile), ("What", "First", "Again"), [*stages, *rules], caption=caption)


def _minor(columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> frozenset[str]:
    """Columns without information: weighers with score 0 in all rows, and Node where it equals Host in all rows."""
    all_zero = {name for at, name in enumerate(columns[3:-1], start=3) if not any(row[at] for row in rows)}
    return frozenset(all_zero | ({"Node"} if all(row[1] == row[2] for row in rows) else set()))


def summarize(decision: Decision) -> str:
    """Two lines of text: the chosen hosts and alternates; rejected hosts per check, and the time in ms."""
    rejected = ", ".join(f"{count} {name}" for name, count in decision.rejected.items()) or "none"
    chosen = list(dict.fromkeys(each.host for each in decision.selections))
    line = f"chosen: {', '.join(chosen[:8])}{' ...' if len(chosen) > 8 else ''}"
    if len(decision.selections) == 1:
        if alternates := ", ".join(each.host for each in decision.selections[0].alternates):
            line += f"; next: {alternates}"
        if decision.weighers and len(decision.best) == 1:
            line += "; the only one that fits, so it was not weighed"
    spent = decision.time_us["total"] / 1000
    return f"{line}\n{decision.hosts} hosts looked at in {spent:.2f} ms; left out: {rejected}"


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
