# SPDX-License-Identifier: Apache-2.0
"""`roost snapshot save`: what is known of a cloud at this moment, as one file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from roost.all_options import read_options
from roost.cli.arguments import add_config_arguments, config_files, path_argument
from roost.cli.inspected_fleet import load_live_snapshot
from roost.cli.output import Report, ReportCommand
from roost.cli.written_file import write_atomically
from roost.client import Record
from roost.clock import SystemClock
from roost.fleet import Fleet
from roost.fleet.document import parse_document, read_text
from roost.hosts import Instance
from roost.servers.descriptions import describe_flavor, time_text
from roost.snapshot import Snapshot, deciding_options

_SECTIONS = ("hosts", "aggregates", "flavors", "images", "server_groups")


class SnapshotSave(ReportCommand):
    """Save the fleet, the scheduler's options and the servers of a cloud as one file, which --from reads.

    It holds no secrets, and gives the same answers on another machine.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the file, --fleet and the arguments that name the cloud."""
        parser.add_argument("file", metavar="FILE", type=path_argument, help="where to write it")
        parser.add_argument(
            "--fleet", metavar="FILE", help="take it of a fleet file, - for stdin (default: of the live cloud)"
        )
        add_config_arguments(
            parser.add_argument_group("cloud (default: a running roost dev)"), "transport_url, or options for --fleet"
        )

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Write the file; the number of records per section, and exit code 0."""
        if parsed_args.fleet is None:
            snapshot = load_live_snapshot(parsed_args, getattr(self.app_args, "quiet", False))
        else:
            snapshot = snapshot_of_file(parsed_args.fleet, config_files(parsed_args), SystemClock().now())
        content = snapshot.to_bytes()
        write_atomically(parsed_args.file, content)
        return _saved_report(snapshot, parsed_args.file, len(content)), 0


def snapshot_of_file(path: str, files: list[Path], now: datetime) -> Snapshot:
    """The snapshot of a fleet file, with its options and those of config files; its instances are the servers."""
    text = read_text(Path(path))
    fleet = Fleet.parse(text, Path(path), keeps_records=True)
    document, _ = parse_document(text, Path(path))
    options = deciding_options(read_options(files, fleet.options))
    sections = {name: entries for name, entries in (document or {}).items() if name != "options"}
    return Snapshot(now, options, sections, list(_servers(fleet)), source=path)


def _servers(fleet: Fleet) -> Iterator[Record]:
    """The instances of a fleet file as servers; it says nothing of their names and states."""
    for record, pairs in fleet.runs:
        for host, node in pairs:
            yield from (_server(each, host, node) for each in record.instances)


def _server(instance: Instance, host: str, node: str) -> Record:
    return {
        "id": instance.uuid,
        "name": None,
        "status": "UNKNOWN",
        "host": host,
        "node": node,
        "project_id": instance.project_id,
        "flavor": describe_flavor(instance.flavor) if instance.flavor else None,
        "created_at": time_text(instance.created_at),
    }


def _saved_report(snapshot: Snapshot, file: Path, size: int) -> Report:
    counts = {name: len(snapshot.document.get(name) or ()) for name in _SECTIONS}
    counts = {**counts, "hosts": len(snapshot.fleet.table), "servers": len(snapshot.servers)}
    rows = [(name.replace("_", " "), count) for name, count in counts.items()]
    record = {"file": str(file), "bytes": size, "taken_at": time_text(snapshot.taken_at), **counts}
    return Report(record, ("What", "Count"), rows, caption=f"written to {file}: {size / 1024:.1f} KiB")
