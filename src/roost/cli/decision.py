# SPDX-License-Identifier: Apache-2.0
"""`roost decision ...`: what schedulers decided, and why, from the state of the fleet at that moment."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import whole_number
from roost.cli.client_command import ClientCommand
from roost.cli.output import Report
from roost.cli.place import placement_report
from roost.cli.server_report import list_report
from roost.client import Record
from roost.decisions.records import decision_from_data
from roost.model import Decision

MOST_LISTED = 1000
COLUMNS = {
    "ID": "id",
    "Time": "created_at",
    "Placed": "placed",
    "Instances": "instances",
    "Hosts": "hosts",
    "Project": "project_id",
    "Request": "request_id",
    "Summary": "summary",
}
MINOR = frozenset({"Hosts", "Project", "Request"})
"""Columns that only --long shows."""
DECISION_HELP = "its id, the id of its request (req-...), or a server by name or uuid: the latest about it"


class DecisionList(ClientCommand):
    """List decisions of the schedulers, the latest first."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters, --limit, --long and the arguments that name the cloud."""
        parser.add_argument("--server", metavar="SERVER", help="only those about this server, by name or uuid")
        parser.add_argument("--project", metavar="ID", help="only those for this project")
        parser.add_argument("--request", metavar="ID", help="only those for the request with this id (req-...)")
        result = parser.add_mutually_exclusive_group()
        result.add_argument("--failed", action="store_true", help="only those that found no host")
        result.add_argument("--placed", action="store_true", help="only those that placed something")
        parser.add_argument(
            "--limit",
            type=whole_number(least=1, most=MOST_LISTED),
            default=20,
            metavar="N",
            help="how many at most (default: 20)",
        )
        parser.add_argument("--before", type=whole_number(least=1), metavar="ID", help="only those before this one")
        parser.add_argument("--long", action="store_true", help="show more columns")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each decision; exit code 0."""
        given = {
            "server": parsed_args.server,
            "project_id": parsed_args.project,
            "request_id": parsed_args.request,
            "placed": True if parsed_args.placed else False if parsed_args.failed else None,
            "before": parsed_args.before,
            "limit": parsed_args.limit,
        }
        filters = {name: value for name, value in given.items() if value is not None}
        with self.client(parsed_args) as client:
            found = client.list_decisions(filters)
        return list_report(found, COLUMNS, "decision", frozenset() if parsed_args.long else MINOR), 0


class DecisionShow(ClientCommand):
    """Show a decision as it was recorded: hosts left out by each step, scores, choices."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the decision and the arguments that name the cloud."""
        parser.add_argument("decision", metavar="DECISION", help=DECISION_HELP)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The scores of the chosen hosts, or the steps of one that found none; exit code 0."""
        with self.client(parsed_args) as client:
            record = client.get_decision(parsed_args.decision)
        return recorded_report(record), 0


def recorded_report(record: Record, remark: str = "") -> Report:
    """A decision as it was recorded, without the state that it saw."""
    decision = decision_from_data(record["data"])
    shown = placement_report(decision) if decision.is_placed else steps_report(decision)
    caption = "\n".join(filter(None, (shown.caption, heading(record), remark)))
    return Report(record, shown.columns, shown.rows, caption=caption, minor=shown.minor)


def steps_report(decision: Decision) -> Report:
    """A row for each step that rejected hosts, with what these lacked."""
    rows: list[tuple[Any, ...]] = [
        (step.stage, step.name, step.before, step.after, step.detail)
        for step in decision.steps
        if step.before > step.after
    ]
    return Report(None, ("Stage", "Step", "Before", "After", "Detail"), rows, caption=decision.summary)


def heading(record: Record) -> str:
    """One line that says which decision it is."""
    rounds = record["data"]["rounds"]
    again = f", after {rounds} rounds" if rounds > 1 else ""
    return f"decision {record['id']} of {record['created_at']}, request {record['request_id'] or '-'}{again}"
