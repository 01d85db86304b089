# SPDX-License-Identifier: Apache-2.0
"""`roost config ...`, `roost policy sample`, `roost fleet schema`: check config files, show values, print samples.

The sample of the policy is a policy.yaml: all rules of the API with their defaults. The schema of fleet files is a
JSON schema.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from roost.api.policy_rules import RULES, Rule
from roost.cli.arguments import add_config_arguments, config_files
from roost.cli.output import Report, ReportCommand, titled
from roost.errors import BadInput, OptionError, RoostError
from roost.messages.open_transport import check_transport
from roost.messages.options import RpcOptions
from roost.options.declare import Declared
from roost.options.names import PASSED_ON, OptionNames, redact
from roost.options.read import Examined, examine
from roost.options.report import ReportEntry, SourceReport, describe_kind, sample
from roost.options.settings import DEFAULT_ORIGIN, Settings
from roost.plugins.context import PluginContext
from roost.plugins.nova_conf import PluginOptions
from roost.plugins.registry import places_of
from roost.scheduler.all_options import names_own_plugins, option_owners, options_of_plugins
from roost.scheduler.build import Preparation, build_pipeline
from roost.scheduler.drivers import find_driver
from roost.scheduler.options import NOVA, OWN, CloudOptions, ServiceOptions, ShadowOptions
from roost.services.logs import check_logging
from roost.services.options import LogOptions
from roost.store.engine import parse_database_url
from roost.store.options import DatabaseOptions

CHECK_COLUMNS = titled("Option", "Standing", "Value", "Remark", "File")
SHOW_COLUMNS = titled("Section", "Option", "Value", "From", "Reloads")
SAMPLE_COLUMNS = titled("Section", "Option", "Default", "Kind", "Help", "Old", "Reloads")
INVALID_CONFIG = 2
"""Exit code of `config check` for files that no service would start with."""
STANDINGS = ("renamed", "unused", "plugin's", "understood")
"""Values of the column Standing in the order of the rows: options that may need an edit come first."""
MOST_SECTIONS = 8
"""Ignored sections that the summary names; any further ones are only counted."""
KEYSTONEAUTH_SECTION = "placement"
"""The section that keystoneauth reads in a nova cloud."""
KEYSTONEAUTH = "keystoneauth"


class ConfigCheck(ReportCommand):
    """Say what Roost understands in config files, what has a new name, what changes nothing, and what is wrong."""

    columns = CHECK_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name config files."""
        add_config_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row per option, and 0; for files with problems a line each on stderr, no rows, and INVALID_CONFIG."""
        files = config_files(parsed_args)
        if not files:
            raise BadInput(
                "there is nothing to check", "name a file with --config-file, or a folder with --config-dir"
            )
        found = _examine_files(files)
        problems: list[RoostError] = [*found.problems]
        problems = problems or list(_problems_in_use(found.settings, files))
        cloud = {} if problems else _cloud_record(found.settings, files)
        sources = [_with_keystoneauth(source, cloud) for source in found.settings.report.sources]
        record = {
            "is_good": not problems,
            "problems": [str(problem) for problem in problems],
            "cloud": cloud,
            "files": [_source_record(source) for source in sources],
        }
        if problems:
            for problem in problems:
                app: Any = self.app
                app.report_error(problem)
            return Report(record, (), ()), INVALID_CONFIG
        return _check_report(record, sources), 0


class ConfigShow(ReportCommand):
    """Show every option with its value and where that comes from; those that are set come first."""

    columns = SHOW_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name config files and those that select options."""
        parser.add_argument("name", nargs="?", metavar="NAME", help="only options that have this in their name")
        add_config_arguments(parser)
        parser.add_argument("--set", action="store_true", dest="is_set", help="only options that are set")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """One row per option, sorted, and exit code 0."""
        found = _examine_files(config_files(parsed_args))  # no warnings about old names: `config check` reports them
        if found.problems:
            raise found.problems[0]
        settings = found.settings
        records = [_option_record(settings, option) for option in settings.options.values()]
        records.sort(key=_sort_key)
        set_count = sum(each["from"] != DEFAULT_ORIGIN for each in records)
        wanted = [each for each in records if (parsed_args.name or "") in each["option"]]
        if parsed_args.is_set:
            wanted = [each for each in wanted if each["from"] != DEFAULT_ORIGIN]
        rows = [tuple(_value_text(value) for value in each.values()) for each in wanted]
        caption = f"{set_count} set, {len(records) - set_count} at their defaults"
        return Report(wanted, tuple(SHOW_COLUMNS), rows, caption=caption, minor=frozenset({"Reloads"})), 0


class ConfigSample(ReportCommand):
    """Print a config file that has every option, explained and commented out."""

    columns = SAMPLE_COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the file; with -f or -c, the declarations of the options instead. Returns exit code 0."""
        if parsed_args.format != "table" or parsed_args.column:
            return super().take_action(parsed_args)
        sys.stdout.write(sample(_all_options()))
        return 0

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """One row per option, and exit code 0."""
        records = [_declaration_record(option) for option in _all_options()]
        rows = [tuple(_value_text(value) for value in each.values()) for each in records]
        return Report(records, tuple(SAMPLE_COLUMNS), rows), 0


def _examine_files(files: Sequence[Path]) -> Examined:
    return examine(
        option_owners(),
        files,
        has_plugins=names_own_plugins,
        plugin_options=lambda settings: options_of_plugins(settings, files),
    )


def _all_options() -> Iterable[Declared]:
    return OptionNames(option_owners()).options.values()


# --- check -------------------------------------------------------------------------------------------


def _problems_in_use(settings: Settings, files: Sequence[Path]) -> Iterator[RoostError]:
    """Problems that only appear when the options are used: missing plugins, malformed addresses."""
    places = places_of(files)
    plugin_context = PluginContext(PluginOptions(settings, files))
    checks: tuple[Callable[[], Any], ...] = (
        lambda: build_pipeline(settings, places, plugin_context),
        lambda: find_driver(settings.fill(ServiceOptions).driver, places),
        lambda: Preparation(settings, ()),
        *_cloud_checks(settings, files),
        *_shadow_checks(settings),
        lambda: check_transport(settings.fill(RpcOptions), files),
        lambda: check_logging(settings.fill(LogOptions)),
    )
    for check in checks:
        try:
            check()
        except RoostError as error:
            yield error


def _cloud_checks(settings: Settings, files: Sequence[Path]) -> tuple[Callable[[], Any], ...]:
    """Checks of the options by which a scheduler finds hosts and claims them."""
    if settings.fill(CloudOptions).cloud != NOVA:
        return (lambda: _check_database(settings.fill(DatabaseOptions)),)
    from roost.nova import snapshot  # needs keystoneauth, which is slow to import

    return (
        lambda: snapshot.find_api_database(settings),
        lambda: snapshot.check_service_record(settings),
        lambda: snapshot.find_placement(files),
    )


def _shadow_checks(settings: Settings) -> tuple[Callable[[], Any], ...]:
    """Checks of the options of shadow mode, if it is switched on."""
    options, live_topic = settings.fill(ShadowOptions), settings.fill(RpcOptions).scheduler_topic
    if not options.shadow:
        return ()
    return lambda: options.check_topic(live_topic), lambda: _check_shadow_report(options)


def _check_shadow_report(options: ShadowOptions) -> None:
    """Check that the report of shadow mode could be written, without making the file."""
    if not options.shadow_report:
        return
    file, hint = Path(options.shadow_report), "name a file in a folder that this user may write to"
    problem = f"[roost] shadow_report: {file} cannot be written"
    if not file.parent.is_dir():
        raise OptionError(f"{problem}: there is no folder {file.parent}", hint)
    if file.is_dir():
        raise OptionError(f"{problem}: it is a folder", hint)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OptionError(f"{problem}: permission denied", hint)


def _cloud_record(settings: Settings, files: Sequence[Path]) -> dict[str, Any]:
    """The kind of the cloud, and the connections that would be used in a nova cloud, without secrets."""
    if settings.fill(CloudOptions).cloud != NOVA:
        return {"kind": OWN}
    from roost.nova.snapshot import summarize_connections  # needs keystoneauth

    return summarize_connections(settings, files)


def _with_keystoneauth(source: SourceReport, cloud: Mapping[str, Any]) -> SourceReport:
    """The report of a file with the sections that keystoneauth reads in a nova cloud as passed on, not as ignored."""
    placement = cloud.get("placement")
    if placement is None:
        return source
    sections = {KEYSTONEAUTH_SECTION, placement.get("auth_section", KEYSTONEAUTH_SECTION)}
    taken = {name: count for name, count in source.ignored.items() if name in sections}
    left = {name: count for name, count in source.ignored.items() if name not in sections}
    return dataclasses.replace(source, passed_on={**source.passed_on, **taken}, ignored=left)


def _check_database(options: DatabaseOptions) -> None:
    """Check the address of the database if one is set; with a fleet file none is needed."""
    if options.connection is not None:
        parse_database_url(options.connection)


def _check_report(record: Mapping[str, Any], sources: Iterable[SourceReport]) -> Report:
    rows = [row for source in sources for row in _rows_of(source)]
    rows.sort(key=lambda row: STANDINGS.index(row[1]))
    minor = frozenset() if len({row[-1] for row in rows}) > 1 else frozenset({"File"})
    caption = "\n".join([*map(_summary, sources), *_cloud_lines(record["cloud"])])
    return Report(record, tuple(CHECK_COLUMNS), rows, caption=caption, minor=minor)


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
    """One line with the counts of a file; a second line where sections of other services were ignored."""
    known = len(source.understood) + len(source.renamed)
    old = f" ({len(source.renamed)} by old names)" if source.renamed else ""
    line = f"{source.source}: {known} understood{old}, {len(source.unused)} unused here"
    if source.unknown:
        line += f", {len(source.unknown)} left to plugins"
    for reader, sections in _readers_of(source).items():
        line += f", {sum(source.passed_on[each] for each in sections)} passed on to {reader}"
    if not source.ignored:
        return line
    ordered = sorted(source.ignored.items(), key=lambda each: -each[1])
    named = ", ".join(f"[{section}] {count}" for section, count in ordered[:MOST_SECTIONS])
    more = f" and {len(ordered) - MOST_SECTIONS} more sections" if len(ordered) > MOST_SECTIONS else ""
    return (
        f"{line}, {sum(source.ignored.values())} ignored\n  ignored, for they belong to other services: {named}{more}"
    )


def _readers_of(source: SourceReport) -> dict[str, list[str]]:
    """Library -> the sections of a file that it reads itself."""
    readers: dict[str, list[str]] = {}
    for section in source.passed_on:
        readers.setdefault(PASSED_ON.get(section, KEYSTONEAUTH), []).append(section)
    return readers


def _cloud_lines(cloud: Mapping[str, Any]) -> Iterator[str]:
    """Lines that say which connections would be used in a nova cloud; none for a cloud of Roost's own."""
    if cloud["kind"] != NOVA:
        return
    user = cloud["cell_database_user"]
    yield "a nova cloud: Roost would take the place of nova-scheduler (`roost cloud check` tries the connections)"
    yield f"  API database: {cloud['api_database']}"
    yield f"  cells: their mappings, {f'as user {user}' if user else 'with the users that are named there'}"
    yield f"  placement: {', '.join(f'{name} {value}' for name, value in cloud['placement'].items())}"


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


def _sort_key(record: Mapping[str, Any]) -> tuple[bool, bool, str, str]:
    """Sort key of an option: set before default, [DEFAULT] before other sections, then by section and name."""
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
    """A value as JSON data: numbers and lists keep their type, secrets in texts are redacted."""
    if isinstance(value, tuple):
        return [redact(option, each) for each in value]
    return redact(option, value) if isinstance(value, str) else value


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value)
    return "-" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


COLUMNS = {"Rule": "name", "Default": "check", "Scopes": "scopes", "Requests": "operations"}


class PolicySample(ReportCommand):
    """Print a policy.yaml that has every rule of the API, explained and commented out."""

    columns = COLUMNS

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Print the file; with -f or -c, the rules as data instead. Returns exit code 0."""
        if parsed_args.format != "table" or parsed_args.column:
            return super().take_action(parsed_args)
        sys.stdout.write("\n".join(map(_as_lines, RULES)))
        return 0

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each rule; exit code 0."""
        rows = [(rule.name, rule.check, " ".join(rule.scopes), ", ".join(rule.operations)) for rule in RULES]
        records = [
            rule._asdict() | {"operations": list(rule.operations), "scopes": list(rule.scopes)} for rule in RULES
        ]
        return Report(records, tuple(COLUMNS), rows), 0


def _as_lines(rule: Rule) -> str:
    scopes = [f"Intended scope(s): {', '.join(rule.scopes)}"] if rule.scopes else []
    comments = (rule.description, *rule.operations, *scopes)
    return "".join(f"# {each}\n" for each in comments) + f'#"{rule.name}": "{rule.check}"\n'
