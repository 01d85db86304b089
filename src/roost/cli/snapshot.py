# SPDX-License-Identifier: Apache-2.0
"""`roost snapshot save`: what is known of a cloud at this moment, as one file."""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path

from roost.cli.arguments import add_cloud_argument, add_config_arguments, config_files, path_argument
from roost.cli.columns import titled
from roost.cli.fleet_arguments import load_live_snapshot
from roost.cli.output import Report, ReportCommand, write_atomically
from roost.clock import SystemClock
from roost.model.descriptions import time_text
from roost.scheduler.all_options import read_options
from roost.sources.documents import parse_document, read_text
from roost.sources.fleet_file import Fleet
from roost.sources.snapshot import Snapshot, deciding_options, servers_of_instances

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
