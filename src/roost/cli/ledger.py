# SPDX-License-Identifier: Apache-2.0
"""`roost db ...` and `roost ledger ...`: the schema of the database, and the invariants of the ledger.

The schema is checked against this version of Roost, shown and upgraded; what violates the invariants is repaired.
Uuids that are known are read from a file or standard input: one per line, or a JSON list.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from roost.cli.arguments import add_config_arguments, config_files, whole_number
from roost.cli.output import Report, ReportCommand, titled
from roost.clock import SystemClock
from roost.errors import BadInput, FieldError
from roost.ledger.audit import audit, heal
from roost.ledger.audits import Finding
from roost.ledger.ledger import Ledger
from roost.model.kinds import shown
from roost.model.uuids import UUID
from roost.scheduler.all_options import read_options
from roost.store.engine import open_engine, redacted_url
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import SchemaState, check, ensure_current, upgrade
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors

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


STDIN = "-"
_REMEDY = "write one uuid per line, or a JSON list of them"


def read_known_uuids(file: str) -> frozenset[str]:
    """The uuids in the file, `-` for stdin, in their one spelling. BadInput if it has none, or something else."""
    name = "standard input" if file == STDIN else file
    found = frozenset(_parse_uuids(_read(file, name), name))
    if not found:
        raise BadInput(f"{name}: there is no uuid in it", "leave out --known where nothing is known elsewhere")
    return found


def _read(file: str, name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{name}: is no text in UTF-8", _REMEDY) from None


def _parse_uuids(text: str, name: str) -> Iterable[str]:
    if not text.lstrip().startswith(("[", '{"')):
        lines = enumerate(text.splitlines(), start=1)
        return [_parse(line.strip(), f"{name}, line {number}") for number, line in lines if line.strip()]
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: is no JSON: {error}", _REMEDY) from None
    if not isinstance(listed, list):
        raise BadInput(f"{name}: {shown(listed)} is no list", _REMEDY)
    return [_parse(each, f"{name}, entry {number}") for number, each in enumerate(listed, start=1)]


def _parse(value: Any, place: str) -> str:
    try:
        return UUID.strict(value, place)
    except FieldError as error:
        raise BadInput(f"{place}: {error.problem}", _REMEDY) from None


COLUMNS = {
    "Finding": "kind",
    "Subject": "subject",
    "Host": "host",
    "Age": "age",
    "Project": "project_id",
    "Detail": "detail",
    "Remedy": "remedy",
}
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
FOUND = 1
"""Exit code where the audit has findings that were not healed."""


class LedgerAudit(DbCommand):
    """Compare allocations with servers and nodes: leaks, wrong sums, overfull hosts, broken groups."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name the database, --grace, --known, --fix and --yes."""
        super().add_arguments(parser)
        parser.add_argument(
            "--grace",
            type=whole_number(least=0),
            default=3600,
            metavar="SECONDS",
            help="a claim may be so old and have no server yet (default: 3600)",
        )
        parser.add_argument(
            "--known",
            metavar="FILE",
            help="uuids that are known elsewhere, such as nova's servers: one per line, or a JSON list; - for stdin",
        )
        parser.add_argument("--fix", action="store_true", help="show what would be healed, then ask")
        parser.add_argument("--yes", action="store_true", help="with --fix: heal without asking")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """All findings, healed where --fix says so; exit code 0 if none are left, else FOUND."""
        if parsed_args.yes and not parsed_args.fix:
            raise BadInput("--yes goes with --fix", "without --fix nothing is changed")
        known = read_known_uuids(parsed_args.known) if parsed_args.known is not None else frozenset()
        with self.engine(parsed_args) as engine:
            ensure_current(engine)
            now = _now(engine)
            findings = audit(engine, now, parsed_args.grace, known)
            healed = self._heal(engine, findings, parsed_args) if parsed_args.fix else 0
            left = audit(engine, _now(engine), parsed_args.grace, known) if healed else findings
        return _audit_report(findings, healed, now, parsed_args), FOUND if left else 0

    def _heal(self, engine: Engine, findings: list[Finding], parsed_args: argparse.Namespace) -> int:
        healable = [finding for finding in findings if finding.remedy]
        if not healable or not (parsed_args.yes or _confirm(healable)):
            return 0
        return heal(engine, healable, Ledger(engine))


def _now(engine: Engine) -> datetime.datetime:
    """The present time by the clock that stamps claims."""
    with database_errors(engine), engine.connect() as connection:
        return StoreClock(engine, SystemClock()).read(connection)


def _confirm(findings: list[Finding]) -> bool:
    """List the findings on stderr and ask for confirmation; False where stdin is no terminal."""
    if not sys.stdin.isatty():
        return False
    for finding in findings:
        sys.stderr.write(f"{finding.kind} {finding.subject} {finding.host}: {finding.detail}: {finding.remedy}\n")
    sys.stderr.write(f"heal {len(findings)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _audit_report(
    findings: list[Finding], healed: int, now: datetime.datetime, parsed_args: argparse.Namespace
) -> Report:
    record = {"findings": [_finding_record(each, now) for each in findings], "healed": healed}
    rows = [
        (
            each.kind,
            each.subject,
            each.host,
            _age_text(_age_seconds(each, now)),
            each.project_id or "",
            each.detail,
            each.remedy or "look at it",
        )
        for each in findings
    ]
    caption = f"{len(findings)} found, {healed} healed" if findings else "everything adds up"
    if parsed_args.fix and not healed and any(each.remedy for each in findings):
        caption += "; nothing was changed (--fix --yes heals without asking)"
    empty = {"Age": not any(each.created_at for each in findings)}
    empty["Project"] = not any(each.project_id for each in findings)
    minor = frozenset(name for name in empty if empty[name])
    return Report(record, tuple(COLUMNS), rows, caption=caption, minor=minor)


def _finding_record(finding: Finding, now: datetime.datetime) -> dict[str, Any]:
    record = {name: value for name, value in finding._asdict().items() if name != "key"}
    created_at = finding.created_at
    record["created_at"] = created_at.isoformat() if created_at else None
    return {**record, "age_seconds": _age_seconds(finding, now)}


def _age_seconds(finding: Finding, now: datetime.datetime) -> int | None:
    return int((now - finding.created_at).total_seconds()) if finding.created_at else None


def _age_text(seconds: int | None) -> str:
    """An age in its largest unit: 45 s, 12 min, 3 h, 5 d; empty if it is not known."""
    if seconds is None:
        return ""
    unit, length = next((each for each in _UNITS if abs(seconds) >= each[1]), _UNITS[-1])
    return f"{seconds // length} {unit}"
