# SPDX-License-Identifier: Apache-2.0
"""`roost demo`: runs `roost place` for a few requests on a sample fleet of 200 hosts, with comments."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.table import Table

from roost.cli.arguments import RoostCommand
from roost.cli.output import Report, console, print_report
from roost.errors import BadInput
from roost.fleet import Fleet
from roost.model import RequestSpec
from roost.scheduler import Scheduler

SCENES = (
    (
        "One small machine, anywhere. Every host was looked at; these are the best and what each weigher gave them.",
        "--flavor small",
    ),
    (
        "Six web servers in zone-a. Placed together or not at all; each one sees what the ones before it took.",
        "--flavor web --count 6 --availability-zone zone-a",
    ),
    ("A database wants a host with the trait STORAGE_DISK_SSD: nine have it.", "--flavor database"),
    (
        "Training jobs, four GPUs each. The aggregate `gpus` turns the weighers round, so GPU hosts fill up one by "
        "one and whole hosts stay free.",
        "--flavor train --count 3",
    ),
    (
        "A giant in zone-c: nothing there is large enough. One line says why; its counts add up to all 200 hosts.",
        "--flavor giant --availability-zone zone-c",
    ),
)
EXPLAINED_HOSTS = ("a-001", "a-072", "b-061", "c-001", "c-041", "c-042", "gpu-08")
"""Hosts of the last scene, each rejected for a different reason."""


class Demo(RoostCommand):
    """Show what Roost does, on a made-up fleet of 200 hosts."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with --save."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        parser.add_argument("--save", metavar="FILE", help="keep the demo's fleet file there, to play with")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Run all scenes. Returns exit code 0, although one request finds no host."""
        if parsed_args.save:
            self._run_scenes(Path(parsed_args.save))
            console().print(
                f"\nThe fleet is in {parsed_args.save}. Change it and ask again:\n"
                f"  {sys.argv[0]} place --fleet {parsed_args.save} --vcpus 8 --ram 16384 --count 3",
                markup=False,
                soft_wrap=True,
            )
            return 0
        with tempfile.TemporaryDirectory() as folder:
            self._run_scenes(Path(folder, "fleet.yaml"))
        return 0

    def _run_scenes(self, path: Path) -> None:
        _write_fleet(path, resources.files("roost.cli").joinpath("demo_fleet.yaml").read_text(encoding="utf-8"))
        fleet = Fleet.load(path)
        out = console()
        _print_fleet(out, fleet)
        for number, (remark, arguments) in enumerate(SCENES, start=1):
            _print_heading(out, number, remark, f"--fleet {path} {arguments}")
            run: Callable[[list[str]], int] = self.app.run_subcommand
            run(shlex.split(f"place --fleet {path} {arguments}"))
            sys.stderr.flush()
        _show_reasons(out, fleet, f"--fleet {path} {SCENES[-1][1]} --explain")


def _write_fleet(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--save {path}: {error.strerror}", "name a file that can be written") from None


def _print_fleet(out: Console, fleet: Fleet) -> None:
    title = f"The fleet: {len(fleet.table)} hosts"
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for heading in ("Zone", "Hosts", "CPUs", "Memory GiB", "GPUs", "Out of service"):
        table.add_column(heading, justify="left" if heading == "Zone" else "right")
    for zone in sorted(fleet.zones()):
        table.add_row(zone, *(f"{figure:,.0f}" for figure in _zone_figures(fleet, zone)))
    out.print()
    out.print(table)


def _zone_figures(fleet: Fleet, zone: str) -> tuple[float, ...]:
    """Number of hosts of a zone, their CPUs, memory in GiB, GPUs, and how many are disabled or down."""
    hosts = fleet.table

    def is_inside(aggregates: tuple[object, ...]) -> bool:
        return any(getattr(each, "availability_zone", None) == zone for each in aggregates)

    part = hosts.keep(hosts.per_value("aggregates", is_inside))
    out_of_service = part.is_disabled | ~part.is_up
    gpus = part.column("max_unit:PGPU").sum()
    memory_gib = part.total_usable_ram_mb.sum() / 1024
    return len(part), float(part.vcpus_total.sum()), float(memory_gib), float(gpus), float(out_of_service.sum())


def _print_heading(out: Console, number: int, remark: str, arguments: str) -> None:
    out.print()
    out.print(f"[bold]{number}.[/bold] {remark}", width=min(out.width, 100))
    out.print(f"[dim]$[/dim] [cyan]roost place {arguments}[/cyan]", soft_wrap=True)
    sys.stdout.flush()


def _show_reasons(out: Console, fleet: Fleet, arguments: str) -> None:
    remark = f"And host by host ({len(EXPLAINED_HOSTS)} of the {len(fleet.table)} shown):"
    _print_heading(out, len(SCENES) + 1, remark, arguments)
    request = RequestSpec(flavor=fleet.flavor("giant"), availability_zone="zone-c")
    rejections = Scheduler(fleet).explain(request)
    rows = [(each.host, each.stage, each.name, each.reason) for each in rejections if each.host in EXPLAINED_HOSTS]
    print_report(Report(None, ("Host", "Stage", "Name", "Reason"), rows), "table")
