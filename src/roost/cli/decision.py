# SPDX-License-Identifier: Apache-2.0
"""`roost decision ...`: what schedulers decided, and why, from the state of the fleet at that moment.

Decisions are found at a conductor, or in a nova cloud in the scheduler's own file.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from roost.cli.arguments import config_files, whole_number
from roost.cli.client_command import ClientCommand
from roost.cli.explain import (
    add_explanation_arguments,
    check_explanation_arguments,
    explanation_report,
    host_explanation_report,
)
from roost.cli.output import Report
from roost.cli.place import placement_report
from roost.cli.server_report import list_report, record_report
from roost.client.interface import Record
from roost.clock import SystemClock
from roost.errors import BadInput, UnknownName
from roost.library import Scheduler
from roost.model import Decision
from roost.model.remedy import listed
from roost.model.uuids import canonical_uuid
from roost.options.settings import Settings
from roost.questions.past_decision import PastDecision, fleet_seen_by, why_not_explained
from roost.records.decision_codec import decision_from_data
from roost.records.decisions import DecisionQueries, DecisionStore
from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import FullScanEngine
from roost.scheduler.options import NOVA, CloudOptions
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.store_clock import StoreClock


class DecisionSource(Protocol):
    """What can be asked about decisions."""

    def list_decisions(self, filters: Mapping[str, Any]) -> list[Record]:
        """Decisions that match all filters, the latest first."""

    def get_decision(self, decision: str, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest about a server."""


class DecisionCommand(ClientCommand):
    """Base class of commands about decisions."""

    @contextmanager
    def decisions(self, parsed_args: argparse.Namespace) -> Iterator[DecisionSource]:
        """The decisions of the cloud that the arguments name, closed at exit."""
        settings = read_options(config_files(parsed_args))
        if parsed_args.os_cloud is None and settings.fill(CloudOptions).cloud == NOVA:
            with _recorded_in_file(settings) as found:
                yield found
        else:
            with self.client(parsed_args) as client:
                yield client


@contextmanager
def _recorded_in_file(settings: Settings) -> Iterator[DecisionSource]:
    """The decisions that schedulers of a nova cloud have recorded on this machine."""
    from roost.nova.decision_file import FILE_NAME  # the package needs keystoneauth, which is slow to import

    folder = settings.fill(CloudOptions).state_directory
    hint = "set it to the folder that the scheduler has: systemd's is /var/lib/roost"
    if not folder:
        raise BadInput("[roost] state_directory is not set: in a nova cloud decisions are kept there", hint)
    file = Path(folder, FILE_NAME)
    if not file.is_file():
        raise BadInput(f"{file}: no scheduler has recorded decisions there", hint)
    engine = open_engine(DatabaseOptions(connection=f"sqlite:///{file}"))
    try:
        yield DecisionQueries(DecisionStore(engine, StoreClock(engine, SystemClock())), canonical_uuid)
    finally:
        engine.dispose()


MOST_LISTED = 1000
DATA = "data"
"""What of a decision is for administrators and readers of the system: request, steps, scores, choices."""
COLUMNS = {
    "ID": "id",
    "Time": "created_at",
    "Result": "result",
    "Instances": "instances",
    "Hosts": "hosts",
    "Project": "project_id",
    "Request": "request_id",
    "Summary": "summary",
}
MINOR = frozenset({"Hosts", "Project", "Request"})
"""Columns that only --long shows."""
WITHOUT_CANDIDATES = (
    "Placement was asked for candidates. They are not kept: capacity is explained by the hosts' own amounts."
)
DECISION_HELP = "its id, the id of its request (req-...), or a server by name or uuid: the latest about it"


class DecisionList(DecisionCommand):
    """List decisions of the schedulers, the latest first."""

    columns = COLUMNS

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
        with self.decisions(parsed_args) as source:
            found = source.list_decisions(filters)
        shown = [{**each, "result": "placed" if each["placed"] else "no host"} for each in found]
        report = list_report(shown, COLUMNS, "decision", frozenset() if parsed_args.long else MINOR)
        return replace(report, record=found), 0


class DecisionShow(DecisionCommand):
    """Show a decision as it was recorded: hosts left out by each step, scores, choices."""

    columns = None  # of scores a column for each weigher

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the decision and the arguments that name the cloud."""
        parser.add_argument("decision", metavar="DECISION", help=DECISION_HELP)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The scores of the chosen hosts, or the steps of one that found none; exit code 0."""
        with self.decisions(parsed_args) as source:
            record = source.get_decision(parsed_args.decision)
        return recorded_report(record) if DATA in record else record_report(record), 0


class DecisionWhy(DecisionCommand):
    """Say why a decision came out as it did, from the state of all hosts at that moment.

    What happened since makes no difference. The exit code is 0 if a host was found - with --host, if that host could
    take the request - and 1 if not.
    """

    columns = None  # those of the explanation

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the decision, the host that is asked about and the arguments that name the cloud."""
        parser.add_argument("decision", metavar="DECISION", help=DECISION_HELP)
        add_explanation_arguments(parser)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The explanation of that moment; what was recorded, where the state is no longer kept."""
        check_explanation_arguments(parsed_args)
        with self.decisions(parsed_args) as source:
            record = source.get_decision(parsed_args.decision, with_state=True)
        if DATA not in record:
            return record_report(record), 0 if record["placed"] else 1
        decision = decision_from_data(record["data"])
        remark = why_not_explained(record)
        if remark:
            if parsed_args.host:
                raise UnknownName(f"decision {record['id']}: {remark}", "roost decision show has what was recorded")
            return recorded_report(record, remark), 0 if decision.is_placed else 1
        files = config_files(parsed_args)
        past = PastDecision(record, Scheduler(fleet_seen_by(record), config_files=files, engine=FullScanEngine))
        if parsed_args.host:
            about_host = past.explain_host(parsed_args.host, parsed_args.node)
            return noted(record, host_explanation_report(about_host)), 0 if about_host.own else 1
        explanation = past.explain()
        return noted(record, explanation_report(explanation, parsed_args.long)), 0 if explanation.fits else 1


def noted(record: Record, report: Report) -> Report:
    """The report, with which decision it is about and what was chosen."""
    decision = decision_from_data(record["data"])
    chosen = list(dict.fromkeys(each.host for each in decision.selections))
    result = f"It chose {listed(chosen, 5)}." if chosen else "It found no host."
    remark = f"\n{WITHOUT_CANDIDATES}" if any(step.name == "placement" for step in decision.steps) else ""
    below = f"{heading(record)}. {result}{remark}"
    return replace(report, caption=f"{report.caption}\n\n{below}" if report.caption else below)


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
