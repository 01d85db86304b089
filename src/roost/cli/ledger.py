# SPDX-License-Identifier: Apache-2.0
"""`roost ledger ...`: check the invariants of the ledger, and repair what violates them."""

from __future__ import annotations

import argparse
import datetime
import sys
from typing import Any

from sqlalchemy import Engine

from roost.cli.arguments import whole_number
from roost.cli.db import DbCommand
from roost.cli.known_uuids import read_known_uuids
from roost.cli.output import Report
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.ledger.audit import audit, heal
from roost.ledger.audits import Finding
from roost.ledger.ledger import Ledger
from roost.store.schema_upgrade import ensure_current
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors

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
