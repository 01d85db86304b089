# SPDX-License-Identifier: Apache-2.0
"""`roost fleet ...`, `roost snapshot save`: a fleet file into and out of the database, a cloud as one file."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from roost.cli.arguments import (
    add_cloud_argument,
    add_config_arguments,
    add_snapshot_argument,
    config_files,
    path_argument,
)
from roost.cli.fleet_arguments import load_live_snapshot
from roost.cli.ledger import DbCommand
from roost.cli.output import YAML_DUMPER, Columns, Report, ReportCommand, progress_bar, titled, write_atomically
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.model.descriptions import time_text
from roost.records.fleet_export import export_fleet
from roost.records.fleet_import import import_fleet
from roost.records.import_summary import ImportSummary
from roost.scheduler.all_options import read_options
from roost.sources.documents import parse_document, read_text
from roost.sources.fleet_file import Fleet
from roost.sources.snapshot import Snapshot, deciding_options, servers_of_instances
from roost.store.engine import redacted_url
from roost.store.schema_upgrade import ensure_current
from roost.store.store_clock import StoreClock

FLEET_FORMATS = {"table": False, "yaml": False, "json": True}
"""Values of -f with which a fleet can be printed -> whether that prints JSON; else it is YAML."""
IMPORT_COLUMNS = titled("What", "New", "Changed", "Unchanged")
EXPORT_COLUMNS = titled("What", "Count")
SECTIONS = ("hosts", "aggregates", "flavors", "images", "server_groups")


class FleetImport(DbCommand):
    """Bring a fleet file into the database; what is equal there is left alone, and what the file does not name."""

    columns = IMPORT_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the fleet file, --dry-run and the arguments that name the database."""
        parser.add_argument("file", metavar="FILE", help="fleet file, YAML or JSON; - for stdin")
        parser.add_argument(
            "--dry-run", action="store_true", help="do everything, take it back, say what would change"
        )
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Numbers of new, changed and unchanged records per section, and exit code 0."""
        with self.engine(parsed_args) as engine:
            ensure_current(engine)
            fleet = Fleet.load(parsed_args.file, keeps_records=True)
            with progress_bar("hosts", len(fleet.table)) as progress:
                done = import_fleet(engine, fleet, StoreClock(engine, SystemClock()), progress, parsed_args.dry_run)
            address = redacted_url(engine.url)
        return import_report(done, address, parsed_args.dry_run), 0


def import_report(done: ImportSummary, address: str, is_dry_run: bool) -> Report:
    """One row per section of the file; `address` is that of the database, without its password."""
    record = {"database": address, "dry_run": is_dry_run, **asdict(done), "notes": list(done.notes)}
    tallies = [(name, getattr(done, name)) for name in SECTIONS]
    rows = [(name.replace("_", " "), tally.new, tally.changed, tally.unchanged) for name, tally in tallies]
    return Report(record, tuple(IMPORT_COLUMNS), rows, caption=_caption(done, is_dry_run))


def _caption(done: ImportSummary, is_dry_run: bool) -> str:
    lines = ["dry run: nothing was written"] if is_dry_run else []
    if done.hosts_left_alone:
        lines.append(f"{done.hosts_left_alone} hosts of the database are not in the file: left alone")
    return "\n".join([*lines, *done.notes])


class FleetExport(DbCommand):
    """Write what the database or a snapshot knows as a fleet file: YAML, or JSON if its name ends in .json."""

    columns = EXPORT_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the target file, --from and the arguments that name the database."""
        parser.add_argument("file", metavar="FILE", nargs="?", help="where to write it (default: stdout)")
        add_snapshot_argument(parser, "the database")
        super().add_arguments(parser)

    def columns_for(self, parsed_args: argparse.Namespace) -> Columns | None:
        """Those of the report; none where the fleet itself is printed."""
        return EXPORT_COLUMNS if parsed_args.file is not None else {}

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write the fleet to FILE and print a report; without FILE print the fleet. Returns exit code 0."""
        if parsed_args.file is not None:
            return super().take_action(parsed_args)
        if parsed_args.format not in FLEET_FORMATS:
            raise BadInput(f"-f {parsed_args.format}: a fleet is more than a table", "yaml or json, or name a FILE")
        sys.stdout.write(format_fleet(self._export(parsed_args), FLEET_FORMATS[parsed_args.format]))
        return 0

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Write the file; the number of records per section, and exit code 0."""
        document = self._export(parsed_args)
        text = format_fleet(document, parsed_args.file.endswith(".json"))
        write_atomically(Path(parsed_args.file), text.encode())
        counts = {name: len(document.get(name, ())) for name in SECTIONS}
        rows = [(name.replace("_", " "), count) for name, count in counts.items()]
        caption = f"written to {parsed_args.file}"
        return Report({"file": parsed_args.file, **counts}, tuple(EXPORT_COLUMNS), rows, caption=caption), 0

    def _export(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        if parsed_args.snapshot is not None:
            return Snapshot.load(parsed_args.snapshot).fleet_document()
        with self.engine(parsed_args) as engine:
            ensure_current(engine)
            return export_fleet(engine, StoreClock(engine, SystemClock()))


def format_fleet(document: dict[str, Any], is_json: bool) -> str:
    """A fleet document as JSON or YAML text."""
    if is_json:
        return json.dumps(document, indent=2) + "\n"
    return str(yaml.dump(document, Dumper=YAML_DUMPER, sort_keys=False, allow_unicode=True, width=118))


COLUMNS = titled("What", "Count")
_SECTIONS = ("hosts", "aggregates", "flavors", "images", "server_groups")


class SnapshotSave(ReportCommand):
    """Save the fleet, the scheduler's options and the servers of a cloud as one file, which --from reads.

    It holds no secrets, and gives the same answers on another machine.
    """

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file, --fleet and the arguments that name the cloud."""
        parser.add_argument("file", metavar="FILE", type=path_argument, help="where to write it")
        parser.add_argument(
            "--fleet", metavar="FILE", help="take it of a fleet file, - for stdin (default: of the live cloud)"
        )
        where = parser.add_argument_group("cloud (default: a running roost dev)")
        add_cloud_argument(where)
        add_config_arguments(where, "transport_url, or options for --fleet")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Write the file; the number of records per section, and exit code 0."""
        if parsed_args.fleet is None:
            snapshot = load_live_snapshot(parsed_args, getattr(self.app_args, "quiet", False))
        else:
            snapshot = snapshot_of_file(parsed_args.fleet, config_files(parsed_args), SystemClock().now())
        content = snapshot.to_bytes()
        report = _saved_report(snapshot, parsed_args.file, len(content))  # may be refused: it reads the fleet
        write_atomically(parsed_args.file, content)
        return report, 0


def snapshot_of_file(path: str, files: list[Path], now: datetime) -> Snapshot:
    """The snapshot of a fleet file, with its options and those of config files; its instances are the servers."""
    text = read_text(Path(path))
    fleet = Fleet.parse(text, Path(path), keeps_records=True)
    document, _ = parse_document(text, Path(path))
    options = deciding_options(read_options(files, fleet.options))
    sections = {name: entries for name, entries in (document or {}).items() if name != "options"}
    return Snapshot(now, options, sections, list(servers_of_instances(fleet.runs)), source=path)


def _saved_report(snapshot: Snapshot, file: Path, size: int) -> Report:
    counts = {name: len(snapshot.document.get(name) or ()) for name in _SECTIONS}
    counts = {**counts, "hosts": len(snapshot.fleet.table), "servers": len(snapshot.servers)}
    rows = [(name.replace("_", " "), count) for name, count in counts.items()]
    record = {"file": str(file), "bytes": size, "taken_at": time_text(snapshot.taken_at), **counts}
    return Report(record, tuple(COLUMNS), rows, caption=f"written to {file}: {size / 1024:.1f} KiB")
