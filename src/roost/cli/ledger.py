# SPDX-License-Identifier: Apache-2.0
"""`roost ledger ...`: check the invariants of the ledger, and repair what violates them."""

from __future__ import annotations

import argparse
import datetime
import sys

from sqlalchemy import Engine

from roost.claims import Ledger
from roost.claims.audit import audit, heal
from roost.claims.findings import Finding
from roost.cli.arguments import whole_number
from roost.cli.db import DbCommand
from roost.cli.output import Report
from roost.errors import BadInput
from roost.store.schema_upgrade import ensure_current

FOUND = 1
"""Exit code where the audit has findings that were not healed."""


class LedgerAudit(DbCommand):
    """Compare allocations with servers and nodes: leaks, wrong sums, overfull hosts, broken groups."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name the database, --grace, --fix and --yes."""
        super().add_arguments(parser)
        parser.add_argument(
            "--grace",
            type=whole_number(least=0),
            default=3600,
            metavar="SECONDS",
            help="a claim may be so old and have no server yet (default: 3600)",
        )
        parser.add_argument("--fix", action="store_true", help="show what would be healed, then ask")
        parser.add_argument("--yes", action="store_true", help="with --fix: heal without asking")

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """All findings, healed where --fix says so; exit code 0 if none are left, else FOUND."""
        if parsed_args.yes and not parsed_args.fix:
            raise BadInput("--yes goes with --fix", "without --fix nothing is changed")
        with self.engine(parsed_args) as engine:
            ensure_current(engine)
            findings = audit(engine, _now(), parsed_args.grace)
            healed = self._heal(engine, findings, parsed_args) if parsed_args.fix else 0
            left = audit(engine, _now(), parsed_args.grace) if healed else findings
        return _audit_report(findings, healed, parsed_args), FOUND if left else 0

    def _heal(self, engine: Engine, findings: list[Finding], parsed_args: argparse.Namespace) -> int:
        healable = [finding for finding in findings if finding.remedy]
        if not healable or not (parsed_args.yes or _confirm(healable)):
            return 0
        return heal(engine, healable, Ledger(engine))


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _confirm(findings: list[Finding]) -> bool:
    """List the findings on stderr and ask for confirmation; False where stdin is no terminal."""
    if not sys.stdin.isatty():
        return False
    for finding in findings:
        sys.stderr.write(f"{finding.kind} {finding.subject} {finding.host}: {finding.detail}: {finding.remedy}\n")
    sys.stderr.write(f"heal {len(findings)}? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _audit_report(findings: list[Finding], healed: int, parsed_args: argparse.Namespace) -> Report:
    record = {
        "findings": [{name: value for name, value in each._asdict().items() if name != "key"} for each in findings],
        "healed": healed,
    }
    rows = [(each.kind, each.subject, each.host, each.detail, each.remedy or "look at it") for each in findings]
    caption = f"{len(findings)} found, {healed} healed" if findings else "everything adds up"
    if parsed_args.fix and not healed and any(each.remedy for each in findings):
        caption += "; nothing was changed (--fix --yes heals without asking)"
    return Report(record, ("Finding", "Subject", "Host", "Detail", "Remedy"), rows, caption=caption)
