# SPDX-License-Identifier: Apache-2.0
"""`roost db ...`: the tables in the database, whether they fit this version of Roost, and how to make them fit."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine

from roost.cli.arguments import add_config_arguments, config_files
from roost.cli.output import Report, ReportCommand
from roost.scheduler.build import read_options
from roost.store.database_url import show_address
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import SchemaState, check, upgrade

NOT_CURRENT = 4
"""Exit code of `db check` for a database that no service would start on."""


class DbCommand(ReportCommand):
    """A command that works on the database of [database] connection."""

    may_create = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Where the database is."""
        add_config_arguments(parser, "[database] connection")
        parser.add_argument(
            "--connection",
            metavar="URL",
            help="address of the database, instead of that in the file; keep passwords in a file",
        )

    @contextmanager
    def engine(self, parsed_args: argparse.Namespace) -> Iterator[Engine]:
        """The database, until the command is done with it."""
        explicit = (
            {"database": {"connection": parsed_args.connection}} if parsed_args.connection is not None else None
        )
        settings = read_options(config_files(parsed_args), explicit=explicit)
        engine = open_engine(settings.fill(DatabaseOptions), self.may_create)
        try:
            yield engine
        finally:
            engine.dispose()


class DbUpgrade(DbCommand):
    """Make the tables, or bring them up to date; those that are up to date are left alone."""

    may_create = True

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """What it was, what it is."""
        with self.engine(parsed_args) as engine:
            before, after = upgrade(engine)
            record = {
                "database": show_address(engine.url),
                "changed": before.revision != after.revision,
                "before": before.revision,
                "revision": after.revision,
            }
        what = f"upgraded from {before.revision or 'nothing'}" if record["changed"] else "nothing to do"
        return _as_report(record, f"{what}; the revision is {after.revision}"), 0


class DbVersion(DbCommand):
    """Show the revision that the database has, and the one that this version of Roost needs."""

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """Both, without a judgement."""
        with self.engine(parsed_args) as engine:
            found = check(engine)
            record = {"database": show_address(engine.url), "revision": found.revision, "wanted": found.wanted}
        return _as_report(record), 0


class DbCheck(DbCommand):
    """Say whether the tables and this version of Roost agree; services ask the same before they start."""

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The state, with what to do about it."""
        with self.engine(parsed_args) as engine:
            found = check(engine)
            record = _check_record(found, show_address(engine.url))
        advice = f" ({found.remedy})" if found.remedy else ""
        return _as_report(record, f"{found.meaning}{advice}"), 0 if found.is_current else NOT_CURRENT


def _check_record(found: SchemaState, address: str) -> dict[str, Any]:
    return {
        "database": address,
        "state": found.state,
        "revision": found.revision,
        "wanted": found.wanted,
        "missing": list(found.missing),
    }


def _as_report(record: dict[str, Any], caption: str = "") -> Report:
    """One row: the record, lists as words."""
    cells = {name: " ".join(value) if isinstance(value, list) else value for name, value in record.items()}
    row = tuple("-" if value is None else value for value in cells.values())
    columns = tuple(name.capitalize() for name in record)
    silent = frozenset() if cells.get("missing") else frozenset({"Missing"})
    return Report(record, columns, [row], caption=caption, minor=silent)
