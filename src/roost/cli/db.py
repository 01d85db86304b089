# SPDX-License-Identifier: Apache-2.0
"""`roost db ...`: check the database schema against this version of Roost, show its revision, upgrade it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine

from roost.cli.arguments import add_config_arguments, config_files
from roost.cli.columns import titled
from roost.cli.output import Report, ReportCommand
from roost.scheduler.all_options import read_options
from roost.store.engine import DatabaseOptions, open_engine, redacted_url
from roost.store.schema_upgrade import SchemaState, check, upgrade

NOT_CURRENT = 4
"""Exit code of `db check` where the schema is not current: no service would start on it."""


class DbCommand(ReportCommand):
    """Base class of commands that use the database of [database] connection."""

    may_create = False
    """Whether an SQLite file that does not exist is created."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name the database."""
        add_config_arguments(parser, "[database] connection")
        parser.add_argument(
            "--connection",
            metavar="URL",
            help="address of the database, instead of that in the file; keep passwords in a file",
        )

    @contextmanager
    def engine(self, parsed_args: argparse.Namespace) -> Iterator[Engine]:
        """The engine of the configured database, disposed of at exit."""
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

    columns = titled("Database", "Changed", "Before", "Revision")
    may_create = True

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The revision before and after, and exit code 0."""
        with self.engine(parsed_args) as engine:
            before, after = upgrade(engine)
            record = {
                "database": redacted_url(engine.url),
                "changed": before.revision != after.revision,
                "before": before.revision,
                "revision": after.revision,
            }
        what = f"upgraded from {before.revision or 'nothing'}" if record["changed"] else "nothing to do"
        return _single_row_report(record, f"{what}; the revision is {after.revision}"), 0


class DbVersion(DbCommand):
    """Show the revision that the database has, and the one that this version of Roost needs."""

    columns = titled("Database", "Revision", "Wanted")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The found and the wanted revision, and exit code 0 whether or not they agree."""
        with self.engine(parsed_args) as engine:
            found = check(engine)
            record = {"database": redacted_url(engine.url), "revision": found.revision, "wanted": found.wanted}
        return _single_row_report(record), 0


class DbCheck(DbCommand):
    """Say whether the tables and this version of Roost agree; services ask the same before they start."""

    columns = titled("Database", "State", "Revision", "Wanted", "Missing")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The state of the schema and its remedy; exit code 0 if it is current, else NOT_CURRENT."""
        with self.engine(parsed_args) as engine:
            found = check(engine)
            record = _check_record(found, redacted_url(engine.url))
        advice = f" ({found.remedy})" if found.remedy else ""
        return _single_row_report(record, f"{found.meaning}{advice}"), 0 if found.is_current else NOT_CURRENT


def _check_record(found: SchemaState, address: str) -> dict[str, Any]:
    return {
        "database": address,
        "state": found.state,
        "revision": found.revision,
        "wanted": found.wanted,
        "missing": list(found.missing),
    }


def _single_row_report(record: dict[str, Any], caption: str = "") -> Report:
    """A report of one row, with a column per key of the record; None is shown as a dash."""
    cells = {name: " ".join(value) if isinstance(value, list) else value for name, value in record.items()}
    row = tuple("-" if value is None else value for value in cells.values())
    columns = tuple(name.capitalize() for name in record)
    minor = frozenset() if cells.get("missing") else frozenset({"Missing"})
    return Report(record, columns, [row], caption=caption, minor=minor)
