# SPDX-License-Identifier: Apache-2.0
"""`roost place`: where would these instances go, and why."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.output import Report, ReportCommand
from roost.errors import BadInput, NoValidHost, UnknownName, nearest
from roost.filters.availability_zone import AvailabilityZoneFilter
from roost.fleet import Fleet
from roost.model import Decision, Flavor, RequestSpec
from roost.model.jsonform import to_json
from roost.scheduler import Scheduler


class Place(ReportCommand):
    """Choose hosts for new instances on a fleet, and show how they were chosen."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """What to place, on what, under which conditions."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--fleet", required=True, metavar="FILE", help="fleet file, YAML or JSON")
        size = parser.add_argument_group("size: a flavor of the fleet, or its parts")
        size.add_argument("--flavor", metavar="NAME", help="flavor of the fleet file")
        size.add_argument("--vcpus", type=int, metavar="N", help="virtual CPUs")
        size.add_argument("--ram", type=int, metavar="MIB", help="memory, MiB")
        size.add_argument("--disk", type=int, metavar="GB", help="root disk, GiB")
        what = parser.add_argument_group("request")
        what.add_argument("--image", metavar="NAME", help="image of the fleet file")
        what.add_argument("--count", type=int, default=1, metavar="N", help="how many instances (default: 1)")
        what.add_argument("--availability-zone", metavar="ZONE", help="only hosts of this zone")
        what.add_argument(
            "--hint", action="append", default=[], metavar="KEY=VALUE", help="scheduler hint; repeatable"
        )
        what.add_argument("--group", metavar="NAME", help="server group of the fleet file")
        what.add_argument("--project", metavar="ID", help="project that asks")
        what.add_argument("--ignore-host", action="append", metavar="HOST", help="leave out this host; repeatable")
        what.add_argument(
            "--force-host",
            action="append",
            metavar="HOST",
            help="only this host, and ask no filter; repeatable",
        )
        how = parser.add_argument_group("scheduler")
        how.add_argument(
            "--config-file",
            action="append",
            default=[],
            metavar="FILE",
            help="nova.conf-style options; repeatable",
        )
        how.add_argument("--seed", type=int, metavar="N", help="repeat a run in which chance plays a part")
        how.add_argument(
            "--alternates",
            type=int,
            metavar="K",
            help="hosts to try next, per instance (default: max_attempts - 1)",
        )
        how.add_argument("--explain", action="store_true", help="say of every host why it was left out")
        return parser

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Place on a copy of the fleet: nothing outside this process changes."""
        fleet = Fleet.load(parsed_args.fleet)
        scheduler = Scheduler(fleet, seed=parsed_args.seed, config_files=parsed_args.config_file)
        spec = build_request(parsed_args, fleet, scheduler)
        if parsed_args.alternates is not None and parsed_args.alternates < 0:
            raise BadInput(f"--alternates {parsed_args.alternates}: cannot be negative")
        if parsed_args.explain:
            return explanation(scheduler, spec), 0
        try:
            decision = scheduler.place(spec, parsed_args.alternates)
        except NoValidHost as failure:
            if parsed_args.format in ("json", "yaml"):
                return Report(to_json(failure.decision), (), ()), 1
            raise
        return placement_report(decision), 0


def build_request(parsed_args: argparse.Namespace, fleet: Fleet, scheduler: Scheduler) -> RequestSpec:
    """The request that the arguments describe; every name in it must exist."""
    if parsed_args.count < 1:
        raise BadInput(f"--count {parsed_args.count}: at least one instance")
    if parsed_args.availability_zone:
        check_zone(parsed_args.availability_zone, fleet, scheduler)
    return RequestSpec(
        flavor=take_flavor(parsed_args, fleet),
        image=fleet.image(parsed_args.image) if parsed_args.image else None,
        num_instances=parsed_args.count,
        project_id=parsed_args.project,
        availability_zone=parsed_args.availability_zone,
        scheduler_hints=take_hints(parsed_args.hint),
        instance_group=fleet.server_group(parsed_args.group) if parsed_args.group else None,
        ignore_hosts=tuple(parsed_args.ignore_host) if parsed_args.ignore_host else None,
        force_hosts=tuple(parsed_args.force_host) if parsed_args.force_host else None,
    )


def take_flavor(parsed_args: argparse.Namespace, fleet: Fleet) -> Flavor:
    """By name, or from its parts; not both."""
    parts = {"vcpus": parsed_args.vcpus, "memory_mb": parsed_args.ram, "root_gb": parsed_args.disk}
    given = {name: amount for name, amount in parts.items() if amount is not None}
    if parsed_args.flavor and given:
        raise BadInput("--flavor and --vcpus/--ram/--disk", "give one or the other")
    if parsed_args.flavor:
        return fleet.flavor(parsed_args.flavor)
    if "vcpus" not in given or "memory_mb" not in given:
        raise BadInput("the size is missing", "give --flavor NAME, or --vcpus N --ram MIB and, if any, --disk GB")
    for option, name in (("--vcpus", "vcpus"), ("--ram", "memory_mb"), ("--disk", "root_gb")):
        if given.get(name, 0) < 0:
            raise BadInput(f"{option} {given[name]}: cannot be negative")
    return Flavor(name="custom", **given)


def take_hints(pairs: list[str]) -> dict[str, tuple[str, ...]]:
    """Repeated hints gather into a list."""
    hints: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise BadInput(f"--hint {pair}: is no hint", "write KEY=VALUE")
        hints[key] = (*hints.get(key, ()), value)
    return hints


def check_zone(zone: str, fleet: Fleet, scheduler: Scheduler) -> None:
    """A zone that no host can be in is a slip of the pen, not a full cloud."""
    defaults = {
        rule.options.default_availability_zone
        for rule in scheduler.pipeline.filters
        if isinstance(rule, AvailabilityZoneFilter)
    }
    known = fleet.zones() | defaults
    if zone not in known:
        raise UnknownName(f"unknown availability zone {zone!r}", nearest(zone, known))


def placement_report(decision: Decision) -> Report:
    """One instance: the best hosts and their scores. Several: each with its host and score."""
    single = len(decision.selections) == 1
    ranking = decision.best if single else [each.ranked for each in decision.selections]
    weighers = [name.removesuffix("Weigher") for name in decision.weighers]
    columns = ("Rank" if single else "Instance", "Host", "Node", *weighers, "Total")
    rows = []
    for at, ranked in enumerate(ranking, start=1):
        assert ranked is not None  # noqa: S101 - every selection of a pipeline carries its score
        scores = [ranked.scores[name].contribution if ranked.scores else 0.0 for name in decision.weighers]
        rows.append((at, ranked.host, ranked.node, *scores, ranked.weight))
    return Report(to_json(decision), columns, rows, caption=story(decision))


def story(decision: Decision) -> str:
    """What happened to the hosts, in a line: steps that took some out, the choice, the time."""
    lost = ", ".join(f"{count} {name}" for name, count in decision.rejected.items()) or "none"
    chosen = ", ".join(dict.fromkeys(each.host for each in decision.selections[:8]))
    more = " ..." if len(decision.selections) > 8 else ""
    alternates = ", ".join(each.host for each in decision.selections[0].alternates)
    lines = [
        f"chosen: {chosen}{more}" + (f"; next: {alternates}" if alternates and len(decision.selections) == 1 else ""),
        f"{decision.hosts} hosts looked at in {decision.time_us['total'] / 1000:.2f} ms; left out: {lost}",
    ]
    return "\n".join(lines)


def explanation(scheduler: Scheduler, spec: RequestSpec) -> Report:
    """Host by host: who is left out, by what, and why."""
    rejections = scheduler.explain(spec)
    record: list[dict[str, Any]] = [to_json(each) for each in rejections]
    rows = [(each.host, each.node, each.stage, each.name, each.reason) for each in rejections]
    caption = f"{len(rows)} of {len(scheduler.table)} hosts left out"
    return Report(record, ("Host", "Node", "Stage", "Name", "Reason"), rows, caption=caption)
