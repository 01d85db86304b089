# SPDX-License-Identifier: Apache-2.0
"""Printing of results: a Report as a table, CSV or plain values, or its whole record as JSON or YAML.

`-c` names columns of a report. Also progress bars, and files that commands write: readers never see a partial one.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from roost.cli.commands import RoostCommand
from roost.errors import BadInput, nearest

Columns = Mapping[str, str]
"""Title of each column -> name of the field that it shows. For a report about one object: its fields, by name."""


def titled(*titles: str) -> Columns:
    """Columns whose fields are named as they are, in small letters."""
    return {title: _normalised(title) for title in titles}


def fields(*names: str) -> Columns:
    """The fields of a report about one object, a row each."""
    return {name: name for name in names}


def find_columns(wanted: Sequence[str], columns: Columns) -> tuple[str, ...]:
    """Titles of the columns that `-c` names; BadInput for a name that none of them has.

    A column is named by its title or its field, as openstackclient has it: in any case, with spaces or underscores.
    """
    by_name = {_normalised(name): title for title, name in columns.items()}
    by_name |= {_normalised(title): title for title in columns}
    return tuple(_find(name, by_name, columns) for name in wanted)


def _find(name: str, by_name: Mapping[str, str], titles: Iterable[str]) -> str:
    found = by_name.get(_normalised(name))
    if found is None:
        hint = nearest(name, titles) if by_name else "leave out -c: nothing is printed in columns here"
        raise BadInput(f"-c {name}: there is no such column", hint)
    return found


def _normalised(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


FORMATS = ("table", "json", "yaml", "csv", "value")
UNBOUNDED_WIDTH = 10_000
"""Width in characters where the output is no terminal: so large that no line is wrapped."""

YAML_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


@dataclass(frozen=True)
class Report:
    """A result: `record` is the complete data for programs; columns and rows are the summary for users."""

    record: Any
    """JSON data, or a function that returns it, called only for -f json and -f yaml."""
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    title: str = ""
    lead: str = ""
    """The answer in one sentence, above the table."""
    caption: str = ""
    minor: frozenset[str] = frozenset()
    """Columns that a table omits, as they carry no information here, unless -c names them."""
    pick: Callable[[Sequence[str]], Report] | None = None
    """Of a report about one object, with a row for each field: the report about the fields that -c names."""

    @property
    def names(self) -> Columns:
        """What -c may name."""
        return fields(*self.record) if self.pick else titled(*self.columns)


class ReportCommand(RoostCommand):
    """Base class of commands that print a Report in the format of -f.

    What -c names is checked before the command does anything, so each says beforehand which columns it has.
    """

    columns: Columns | None
    """Of the report; None where only the answer tells, which is for commands that change nothing."""

    def columns_for(self, parsed_args: argparse.Namespace) -> Columns | None:
        """The columns of the report that these arguments ask for; None where only the answer tells."""
        return self.columns

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the arguments of the command, -f and -c."""
        parser = super().get_parser(prog_name)
        self.add_arguments(parser)
        shown = parser.add_argument_group("output")
        shown.add_argument(
            "-f",
            "--format",
            choices=FORMATS,
            default="table",
            metavar="FORMAT",
            help=f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default: table)",
        )
        shown.add_argument(
            "-c", "--column", action="append", default=[], metavar="NAME", help=_column_help(self.columns)
        )
        return parser

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Check what -c names, then run the command. Returns its exit code."""
        if (columns := self.columns_for(parsed_args)) is not None:
            parsed_args.column = find_columns(parsed_args.column, columns)
        return super().run(parsed_args)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Build the report and print it. Returns the exit code that came with the report."""
        with contextlib.redirect_stdout(sys.stderr):  # a plugin may print; stdout is for the answer alone
            report, code = self.report(parsed_args)
        if self.columns_for(parsed_args) is None and report.columns:
            parsed_args.column = find_columns(parsed_args.column, report.names)
        is_quiet = getattr(self.app_args, "quiet", False)
        print_report(report, parsed_args.format, parsed_args.column, is_quiet)
        return code

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the command; none by default."""

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Run the command and return its result and exit code."""
        raise NotImplementedError


def _column_help(columns: Columns | None) -> str:
    what = "only this column; repeatable"
    if not columns:
        return what
    usual = titled(*columns)
    names = [title if name in (title, usual[title]) else f"{title} or {name}" for title, name in columns.items()]
    return f"{what}: {', '.join(names)}"


def print_report(report: Report, shape: str, wanted: Sequence[str] = (), is_quiet: bool = False) -> None:
    """Print a report on stdout in one of FORMATS, without its caption if quiet.

    `wanted` selects columns, BadInput for an unknown one, or fields of a report about one object. Empty means all.
    """
    if wanted and report.pick:
        report, wanted = report.pick(wanted), ("Value",) if shape == "value" else ()
    elif report.columns:
        wanted = find_columns(wanted, report.names)
    columns, rows = _select_columns(report, wanted, hides_minor=shape == "table")
    if shape in ("json", "yaml"):
        picked = [dict(zip(columns, row, strict=True)) for row in rows]
        record = report.record() if callable(report.record) else report.record
        _print_record(picked if wanted and report.columns else record, shape)
    elif shape == "table":
        _print_table(report, columns, rows, is_quiet)
    else:
        _print_plain(shape, columns, rows)


def _select_columns(
    report: Report, wanted: Sequence[str], hides_minor: bool
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """The columns with these titles and their rows. None wanted: all, for people without those that say nothing."""
    picked = [report.columns.index(title) for title in wanted if report.columns]
    if not wanted:
        picked = [at for at, name in enumerate(report.columns) if not (hides_minor and name in report.minor)]
    return tuple(report.columns[at] for at in picked), [tuple(row[at] for at in picked) for row in report.rows]


def _print_record(record: Any, shape: str) -> None:
    if shape == "json":
        sys.stdout.write(json.dumps(plain(record), indent=2, allow_nan=False) + "\n")
    else:
        yaml.dump(plain(record), sys.stdout, Dumper=YAML_DUMPER, sort_keys=False, allow_unicode=True)


def plain(value: Any) -> Any:
    """A value as strict JSON data: NaN and infinity become None, objects of other types their text."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return plain(value.item()) if hasattr(value, "item") else str(value)


def _print_table(report: Report, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], is_quiet: bool) -> None:
    table = Table(title=report.title or None, title_justify="left", title_style="bold", header_style="bold")
    for at, name in enumerate(columns):
        is_numeric = any(isinstance(row[at], (int, float)) for row in rows)
        # A long word, such as an address, is folded: an ellipsis would hide what the reader looks for.
        table.add_column(name, justify="right" if is_numeric else "left", no_wrap=at == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell_text(value)) for value in row))
    out = console()
    if report.lead and not is_quiet:
        out.print(Text(report.lead, style="bold"), soft_wrap=True)
    if rows:
        out.print(table)
    if report.caption and not is_quiet:
        out.print(Text(report.caption), soft_wrap=True)


def _print_plain(shape: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    if shape == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        return
    for row in rows:
        sys.stdout.write(" ".join(_cell_text(value) for value in row) + "\n")


def _cell_text(value: Any) -> str:
    return f"{round(value, 4) + 0.0:.4f}" if isinstance(value, float) else str(value)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, which main() handles; rich's default exits the process."""
        raise BrokenPipeError


def console(stderr: bool = False) -> Console:
    """A console on stdout or stderr. Lines wrap and have colours only on a terminal; NO_COLOR disables colours."""
    stream = sys.stderr if stderr else sys.stdout
    is_terminal = stream.isatty()
    colours = "auto" if is_terminal and not os.environ.get("NO_COLOR") else None
    return _Console(
        file=stream,
        highlight=False,
        emoji=False,
        force_terminal=is_terminal,
        color_system=colours,  # type: ignore[arg-type]
        width=None if is_terminal else UNBOUNDED_WIDTH,
    )


@contextmanager
def progress_bar(what: str, total: int, is_quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function that advances a progress bar on stderr; the bar is shown only on a terminal."""
    with _make_bar(is_quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def changing_bar(is_quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function that sets a progress bar: what is being done, how many items of it are done, and of how many."""
    with _make_bar(is_quiet) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _make_bar(is_quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=is_quiet or not sys.stderr.isatty(),
    )


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file in the target folder, then rename it. BadInput where that is not possible."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}", "name a file that can be written") from None
