# SPDX-License-Identifier: Apache-2.0
"""`roost config ...`: what a config file means to Roost, the options in force, and a file to start from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roost.cli.arguments import add_config_arguments, config_files
from roost.cli.output import Report, ReportCommand
from roost.compat import PluginContext, PluginOptions
from roost.config import Examined, Settings, examine
from roost.config.option_names import OptionNames
from roost.config.redaction import shown
from roost.config.report import ReportEntry, SourceReport
from roost.config.sample import describe_kind, sample
from roost.config.settings import DEFAULT_ORIGIN
from roost.errors import BadInput, RoostError
from roost.observe.logs import check_logging
from roost.observe.options import LogOptions
from roost.options import Declared
from roost.plugins import places_of
from roost.rpc.open_transport import check_transport
from roost.rpc.options import RpcOptions
from roost.scheduler.build import build_pipeline, names_own_plugins, option_owners, options_of_plugins
from roost.scheduler.drivers import find_driver
from roost.scheduler.options import ServiceOptions
from roost.scheduler.preparation import Preparation
from roost.store.database_url import take_address
from roost.store.options import DatabaseOptions

WRONG = 2
"""Exit code of `config check` for files that no service would start with."""
STANDINGS = ("renamed", "unused", "plugin's", "understood")
"""Those that need a look come first."""
MOST_SECTIONS = 8
"""Sections of other services that are named before the rest is only counted."""


class ConfigCheck(ReportCommand):
    """Say what Roost understands in config files, what has a new name, what changes nothing, and what is wrong."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The files."""
        add_config_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Everything that is wrong in a line each on stderr; else what was found, what needs a look first."""
        files = config_files(parsed_args)
        if not files:
            raise BadInput(
                "there is nothing to check", "name a file with --config-file, or a folder with --config-dir"
            )
        found = _examine(files)
        problems: list[RoostError] = [*found.problems]
        problems = problems or list(_deeper_problems(found.settings, files))
        sources = found.settings.report.sources
        record = {
            "is_good": not problems,
            "problems": [str(problem) for problem in problems],
            "files": [_source_record(source) for source in sources],
        }
        if problems:
            for problem in problems:
                app: Any = self.app
                app.complain(problem)
            return Report(record, (), ()), WRONG
        return _check_report(record, sources), 0


class ConfigShow(ReportCommand):
    """Show every option with its value and where that comes from; those that somebody has set come first."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """The files, and how much to show."""
        parser.add_argument("name", nargs="?", metavar="NAME", help="only options that have this in their name")
        add_config_arguments(parser)
        parser.add_argument("--set", action="store_true", dest="is_set", help="only options that somebody has set")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """One row for each option."""
        found = _examine(config_files(parsed_args))  # which tells nobody of old names: check does that
        if found.problems:
            raise found.problems[0]
        settings = found.settings
        records = [_option_record(settings, option) for option in settings.options.values()]
        records.sort(key=_rank)
        set_by_somebody = sum(each["from"] != DEFAULT_ORIGIN for each in records)
        wanted = [each for each in records if (parsed_args.name or "") in each["option"]]
        if parsed_args.is_set:
            wanted = [each for each in wanted if each["from"] != DEFAULT_ORIGIN]
        rows = [tuple(_cell(value) for value in each.values()) for each in wanted]
        caption = f"{set_by_somebody} set, {len(records) - set_by_somebody} at their defaults"
        columns = ("Section", "Option", "Value", "From", "Reloads")
        return Report(wanted, columns, rows, caption=caption, minor=frozenset({"Reloads"})), 0


class ConfigSample(ReportCommand):
    """Print a config file that has every option, explained and commented out."""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """The file itself, unless the options are wanted in a format for programs."""
        if parsed_args.format != "table" or parsed_args.column:
            return super().take_action(parsed_args)
        sys.stdout.write(sample(_all_options()))
        return 0

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """One record for each option."""
        records = [_declaration_record(option) for option in _all_options()]
        rows = [tuple(_cell(value) for value in each.values()) for each in records]
        return Report(records, tuple(name.capitalize() for name in records[0]), rows), 0


def _examine(files: Sequence[Path]) -> Examined:
    return examine(
        option_owners(),
        files,
        has_plugins=names_own_plugins,
        plugin_options=lambda settings: options_of_plugins(settings, files),
    )


def _all_options() -> Iterable[Declared]:
    return OptionNames(option_owners()).options.values()


# --- check -------------------------------------------------------------------------------------------


def _deeper_problems(settings: Settings, files: Sequence[Path]) -> Iterator[RoostError]:
    """What only shows when the options are used: plugins that are not there, addresses that are none."""
    places = places_of(files)
    world = PluginContext(PluginOptions(settings, files))
    checks: tuple[Callable[[], Any], ...] = (
        lambda: build_pipeline(settings, places, world),
        lambda: find_driver(settings.fill(ServiceOptions).driver, places),
        lambda: Preparation(settings, ()),
        lambda: _check_database(settings.fill(DatabaseOptions)),
        lambda: check_transport(settings.fill(RpcOptions), files),
        lambda: check_logging(settings.fill(LogOptions)),
    )
    for check in checks:
        try:
            check()
        except RoostError as error:
            yield error


def _check_database(options: DatabaseOptions) -> None:
    """A fleet file needs no database: only an address that is written must be one."""
    if options.connection is not None:
        take_address(options.connection)


def _check_report(record: Mapping[str, Any], sources: Iterable[SourceReport]) -> Report:
    rows = [row for source in sources for row in _rows_of(source)]
    rows.sort(key=lambda row: STANDINGS.index(row[1]))
    columns = ("Option", "Standing", "Value", "Remark", "File")
    minor = frozenset() if len({row[-1] for row in rows}) > 1 else frozenset({"File"})
    caption = "\n".join(_summary(source) for source in sources)
    return Report(record, columns, rows, caption=caption, minor=minor)


def _rows_of(source: SourceReport) -> Iterator[tuple[str, str, str, str, str]]:
    for entry in source.renamed:
        now = f"now {'part of ' if entry.is_part else ''}{entry.new_spelling}"
        yield entry.spelling, "renamed", entry.value, "; ".join(filter(None, (now, entry.why))), source.source
    for entry in source.unused:
        yield entry.spelling, "unused", entry.value, entry.why, source.source
    for entry in source.unknown:
        yield entry.spelling, "plugin's", entry.value, "left to the plugins that are named", source.source
    for entry in source.understood:
        yield entry.spelling, "understood", entry.value, entry.why, source.source


def _summary(source: SourceReport) -> str:
    """A file in a line; in another, whose options were left alone."""
    known = len(source.understood) + len(source.renamed)
    old = f" ({len(source.renamed)} by old names)" if source.renamed else ""
    line = f"{source.source}: {known} understood{old}, {len(source.unused)} unused here"
    if source.unknown:
        line += f", {len(source.unknown)} left to plugins"
    if source.passed_on:
        line += f", {sum(source.passed_on.values())} passed on to oslo.messaging"
    if not source.ignored:
        return line
    ordered = sorted(source.ignored.items(), key=lambda each: -each[1])
    named = ", ".join(f"[{section}] {count}" for section, count in ordered[:MOST_SECTIONS])
    more = f" and {len(ordered) - MOST_SECTIONS} more sections" if len(ordered) > MOST_SECTIONS else ""
    return (
        f"{line}, {sum(source.ignored.values())} ignored\n  ignored, for they belong to other services: {named}{more}"
    )


def _source_record(source: SourceReport) -> dict[str, Any]:
    return {
        "file": source.source,
        "understood": [_entry_record(entry) | {"overridden_by": entry.why} for entry in source.understood],
        "renamed": [
            _entry_record(entry) | {"new": entry.new_spelling, "overridden_by": entry.why} for entry in source.renamed
        ],
        "unused": [{"option": entry.spelling, "why": entry.why} for entry in source.unused],
        "unknown": [entry.spelling for entry in source.unknown],
        "passed_on": dict(source.passed_on),
        "ignored": dict(source.ignored),
    }


def _entry_record(entry: ReportEntry) -> dict[str, Any]:
    return {"option": entry.spelling, "value": entry.value}


# --- show and sample ---------------------------------------------------------------------------------


def _rank(record: Mapping[str, Any]) -> tuple[bool, bool, str, str]:
    """What somebody has set first, then by section and name, [DEFAULT] first."""
    section = record["section"]
    return record["from"] == DEFAULT_ORIGIN, section != "DEFAULT", section, record["option"]


def _option_record(settings: Settings, option: Declared) -> dict[str, Any]:
    key = option.group, option.name
    return {
        "section": option.group,
        "option": option.name,
        "value": _record_value(option, settings.value(*key)),
        "from": settings.origin(*key),
        "reloads": option.reloads,
    }


def _declaration_record(option: Declared) -> dict[str, Any]:
    return {
        "section": option.group,
        "option": option.name,
        "default": _record_value(option, option.default),
        "kind": describe_kind(option),
        "help": option.help,
        "old": [f"[{group}] {name}" for group, name in option.old],
        "reloads": option.reloads,
    }


def _record_value(option: Declared, value: Any) -> Any:
    """For programs: numbers stay numbers, lists stay lists; texts without secrets."""
    if isinstance(value, tuple):
        return [shown(option, each) for each in value]
    return shown(option, value) if isinstance(value, str) else value


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
