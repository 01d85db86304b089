# SPDX-License-Identifier: Apache-2.0
"""`roost place`: run a placement on a fleet file and print the decision, an explanation or a profile."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from functools import partial
from itertools import islice
from typing import Any

from roost.cli.arguments import add_config_arguments, group_by_key, key_and_value, whole_number
from roost.cli.inspected_fleet import add_fleet_arguments, load_fleet, make_scheduler
from roost.cli.output import Report, ReportCommand
from roost.cli.size_arguments import add_size_arguments, check_size, flavor_parts
from roost.cli.what_if_arguments import add_what_if_arguments
from roost.errors import MOST_COMPARED, NoValidHost, UnknownName, nearest
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.fleet import Fleet
from roost.library import Scheduler
from roost.model import Decision, Flavor, RequestSpec
from roost.model.hints import with_canonical_uuids
from roost.model.json_records import to_json
from roost.scheduler import FullScanEngine, IncrementalEngine
from roost.scheduler.profile import Profile

MOST_INSTANCES = 100_000


class Place(ReportCommand):
    """Choose hosts for new instances on a fleet, and show how they were chosen."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --fleet and the arguments that describe the instance, the request and the scheduler."""
        add_fleet_arguments(parser)
        size = parser.add_argument_group("size: a flavor of the fleet, or its parts")
        add_size_arguments(size, "flavor of the fleet file")
        _add_request(parser.add_argument_group("request"))
        _add_scheduler(parser.add_argument_group("scheduler"))
        add_what_if_arguments(parser.add_argument_group("what if"))

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The placement in memory, and exit code 0; 1 where no host fits. Raises NoValidHost for text formats."""
        check_size(parsed_args)
        fleet = load_fleet(parsed_args)
        is_one_shot = parsed_args.count == 1 and not parsed_args.profile
        engine = FullScanEngine if is_one_shot else IncrementalEngine
        scheduler = make_scheduler(fleet, parsed_args, engine, parsed_args.seed)
        spec = build_request(parsed_args, fleet, scheduler)
        if parsed_args.explain:
            return explanation_report(scheduler, spec), 0
        if parsed_args.profile:
            return profile_report(scheduler.profile(spec)), 0
        try:
            decision = scheduler.place(spec, parsed_args.alternates)
        except NoValidHost as failure:
            if parsed_args.format in ("json", "yaml"):
                return Report(to_json(failure.decision), (), ()), 1
            raise
        return placement_report(decision), 0


def _add_request(what: Any) -> None:
    what.add_argument("--image", metavar="NAME", help="image of the fleet file")
    what.add_argument(
        "--count",
        type=whole_number(least=1, most=MOST_INSTANCES),
        default=1,
        metavar="N",
        help="how many instances (default: 1); all are placed, or none",
    )
    what.add_argument("--availability-zone", metavar="ZONE", help="only hosts of this zone")
    what.add_argument(
        "--hint",
        type=key_and_value,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="scheduler hint; repeatable",
    )
    what.add_argument("--group", metavar="NAME", help="server group of the fleet file")
    what.add_argument("--project", metavar="ID", help="project that asks")
    what.add_argument("--ignore-host", action="append", metavar="HOST", help="leave out this host; repeatable")
    what.add_argument(
        "--force-host", action="append", metavar="HOST", help="only this host, and ask no filter; repeatable"
    )


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
    instead.add_argument("--explain", action="store_true", help="place nothing; say of every host why it is left out")
    instead.add_argument("--profile", action="store_true", help="place nothing; say where the time of it goes")


def build_request(parsed_args: argparse.Namespace, fleet: Fleet, scheduler: Scheduler) -> RequestSpec:
    """The request that the arguments describe. Raises UnknownName for a name that is not in the fleet."""
    if parsed_args.availability_zone:
        check_zone(parsed_args.availability_zone, fleet, scheduler)
    for option in ("ignore_host", "force_host"):
        check_hosts(getattr(parsed_args, option) or (), fleet)
    return RequestSpec(
        flavor=build_flavor(parsed_args, fleet),
        image=fleet.image(parsed_args.image) if parsed_args.image else None,
        num_instances=parsed_args.count,
        project_id=parsed_args.project,
        availability_zone=parsed_args.availability_zone,
        scheduler_hints=with_canonical_uuids(group_by_key(parsed_args.hint)) if parsed_args.hint else {},
        instance_group=fleet.server_group(parsed_args.group) if parsed_args.group else None,
        ignore_hosts=tuple(parsed_args.ignore_host) if parsed_args.ignore_host else None,
        force_hosts=tuple(parsed_args.force_host) if parsed_args.force_host else None,
    )


def build_flavor(parsed_args: argparse.Namespace, fleet: Fleet) -> Flavor:
    """The flavor of --flavor from the fleet, or one made of --vcpus, --ram and --disk."""
    if parsed_args.flavor:
        return fleet.flavor(parsed_args.flavor)
    return Flavor(**flavor_parts(parsed_args))


def check_hosts(names: Collection[str], fleet: Fleet) -> None:
    """Raise UnknownName for the first name that no host of the fleet has; case is ignored, as by the scheduler."""
    known = {host.lower(): host for host, _ in fleet.table.names} if names else {}
    for name in names:
        if name.lower() not in known:
            alike = islice((host for host in known.values() if abs(len(host) - len(name)) < 3), MOST_COMPARED)
            raise UnknownName(f"unknown host {name!r}", nearest(name, alike))


def check_zone(zone: str, fleet: Fleet, scheduler: Scheduler) -> None:
    """Raise UnknownName for a zone that neither a host nor an AvailabilityZoneFilter's default has."""
    defaults = {
        rule.options.default_availability_zone
        for rule in scheduler.pipeline.rules.filters
        if isinstance(rule, AvailabilityZoneFilter)
    }
    known = fleet.zones() | defaults
    if zone not in known:
        raise UnknownName(f"unknown availability zone {zone!r}", nearest(zone, known))


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


def explanation_report(scheduler: Scheduler, spec: RequestSpec) -> Report:
    """One row per rejected host, with the stage and the check that rejected it, and the reason."""
    rejections = scheduler.explain(spec)
    record: list[dict[str, Any]] = [to_json(each) for each in rejections]
    rows = [(each.host, each.node, each.stage, each.name, each.reason) for each in rejections]
    caption = f"{len(rows)} of {len(scheduler.table)} hosts left out"
    same = frozenset({"Node"} if all(each.host == each.node for each in rejections) else ())
    return Report(record, ("Host", "Node", "Stage", "Name", "Reason"), rows, caption=caption, minor=same)
