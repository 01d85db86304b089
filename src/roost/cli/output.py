# SPDX-License-Identifier: Apache-2.0
"""How results reach people and programs: tables for a terminal, the whole record for -f json and -f yaml."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from cliff.command import Command
from rich.console import Console
from rich.table import Table

from roost.errors import BadInput, nearest

FORMATS = ("table", "json", "yaml", "csv", "value")


@dataclass(frozen=True)
class Report:
    """A result: `record` is everything, for programs; columns and rows are what a person wants to see."""

    record: Any
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    title: str = ""
    caption: str = ""


class ReportCommand(Command):
    """A command that answers with a Report, in the format of -f."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Adds -f and -c."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        shown = parser.add_argument_group("output")
        shown.add_argument(
            "-f",
            "--format",
            choices=FORMATS,
            default="table",
            help="how to print the answer (default: table)",
        )
        shown.add_argument(
            "-c", "--column", action="append", default=[], metavar="NAME", help="only this column; repeatable"
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Work out the report and print it; the report's own exit code."""
        report, code = self.report(parsed_args)
        print_report(report, parsed_args.format, parsed_args.column)
        return code

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The result and the exit code."""
        raise NotImplementedError


def print_report(report: Report, shape: str, wanted: Sequence[str] = ()) -> None:
    """Print in one of FORMATS. Columns are named without regard to case."""
    if shape == "json":
        sys.stdout.write(json.dumps(report.record, indent=2) + "\n")
    elif shape == "yaml":
        yaml.safe_dump(report.record, sys.stdout, sort_keys=False, allow_unicode=True)
    else:
        columns, rows = _pick(report, wanted)
        if shape == "table":
            _print_table(report, columns, rows)
        else:
            _print_plain(shape, columns, rows)


def _pick(report: Report, wanted: Sequence[str]) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    if not wanted:
        return report.columns, list(report.rows)
    by_name = {name.lower(): at for at, name in enumerate(report.columns)}
    for name in wanted:
        if name.lower() not in by_name:
            raise BadInput(f"-c {name}: there is no such column", nearest(name, report.columns))
    picked = [by_name[name.lower()] for name in wanted]
    return tuple(report.columns[at] for at in picked), [tuple(row[at] for at in picked) for row in report.rows]


def _print_table(report: Report, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    table = Table(title=report.title or None, title_justify="left", title_style="bold", header_style="bold")
    for at, name in enumerate(columns):
        numeric = any(isinstance(row[at], (int, float)) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", no_wrap=at == 0)
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    out = console()
    if rows:
        out.print(table)
    if report.caption:
        out.print(report.caption, markup=False, highlight=False, soft_wrap=True)


def _print_plain(shape: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    if shape == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        return
    for row in rows:
        sys.stdout.write(" ".join(_cell(value) for value in row) + "\n")


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def console(stderr: bool = False) -> Console:
    """A console on stdout or stderr; colours only on a terminal, none with NO_COLOR."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else 160)
