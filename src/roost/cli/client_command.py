# SPDX-License-Identifier: Apache-2.0
"""What all commands share that ask a cloud: which cloud it is, waiting with progress, dry runs, failures.

A snapshot can be asked instead of a cloud (`SnapshotClient`): it answers what can be read, and refuses changes.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property, partial
from typing import Any, NoReturn, Protocol, cast

from rich.text import Text

from roost.cli.arguments import (
    add_cloud_argument,
    add_config_arguments,
    add_snapshot_argument,
    config_files,
    whole_number,
)
from roost.cli.output import Columns, Report, ReportCommand, console, titled
from roost.cli.server_report import NOTHING, cell
from roost.client.interface import CloudClient, CommandClient, Plan, Record
from roost.client.waiting import Goal, ServerWait, WaitOutcome
from roost.clock import Clock
from roost.errors import (
    AccessError,
    BadInput,
    FieldError,
    PartlyChanged,
    RoostError,
    ServerFailed,
    UnknownName,
    nearest,
)
from roost.hosts import HostRecord
from roost.hosts.record import describe_host
from roost.model.descriptions import describe_flavor, describe_image
from roost.model.remedy import listed
from roost.scheduler.all_options import read_options
from roost.scheduler.options import SchedulerOptions
from roost.sources.snapshot import Snapshot


def _listed(server: Record) -> Record:
    """A server as it is listed: without its migrations, and with its fault only while it is in ERROR."""
    is_faulty = server.get("status") == "ERROR"
    return {**server, "migrations": [], "fault": server.get("fault") if is_faulty else None}


WAIT_SECONDS = 600
PLAN_COLUMNS = titled("Server", "Action", "Host", "Summary")
PLANNED_ALONE = "each was planned by itself: what one of them would take still counts as free for the next"
NO_VALID_HOST = "No valid host"
"""How a fault begins that a scheduler caused, in nova's words."""
PARTLY_DONE = 1
"""Exit code where some of several items were changed, and others could not be."""


class CommandFrame(Protocol):
    """What these commands need of the program around them."""

    @property
    def clock(self) -> Clock:
        """By which they wait."""

    def report_error(self, error: RoostError) -> int:
        """Print an error as one line on stderr; returns its exit code."""


class Progress:
    """A line on stderr that says what is waited for; only on a terminal."""

    def __init__(self, is_quiet: bool) -> None:
        self._status = (
            None if is_quiet or not sys.stderr.isatty() else console(stderr=True).status("asking the cloud")
        )
        if self._status:
            self._status.start()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._status:
            self._status.update(Text(text))

    def stop(self) -> None:
        """Remove the line; may be called again."""
        if self._status:
            self._status.stop()


@contextmanager
def opened_client(parsed_args: argparse.Namespace, project: str | None = None) -> Iterator[CommandClient]:
    """The client of the cloud that the arguments name, closed at exit. `project`: of servers that are created."""
    files = config_files(parsed_args)
    from roost.client.rpc_client import open_client  # needs what only clients of a cloud have installed

    opened = open_client(read_options(files), files, project, parsed_args.os_cloud)
    try:
        yield opened
    finally:
        opened.close()


class ClientCommand(ReportCommand):
    """Base class of commands that ask a cloud, over its API or by messages, or the `roost dev` of this user."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that name the cloud."""
        where = parser.add_argument_group("cloud (default: a running roost dev)")
        add_cloud_argument(where)
        add_config_arguments(where, "transport_url")

    @property
    def frame(self) -> CommandFrame:
        """The program around the command."""
        return cast(CommandFrame, self.app)

    @contextmanager
    def client(self, parsed_args: argparse.Namespace, project: str | None = None) -> Iterator[CommandClient]:
        """The client of the cloud, closed at exit. `project`: of servers that are created."""
        with opened_client(parsed_args, project) as opened:
            self.progress = Progress(getattr(self.app_args, "quiet", False))
            try:
                yield opened
            finally:
                self.progress.stop()

    def report_error(self, error: RoostError) -> int:
        """Print an error as one line on stderr; returns its exit code."""
        self.progress.stop()
        return self.frame.report_error(error)


class ReadingCommand(ClientCommand):
    """Base class of commands that only read: they take a snapshot in place of the cloud, too."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --from and the arguments that name the cloud."""
        add_snapshot_argument(parser, "the live cloud")
        super().add_arguments(parser)

    @contextmanager
    def client(self, parsed_args: argparse.Namespace, project: str | None = None) -> Iterator[CommandClient]:
        """The client of the cloud, or of the snapshot that the arguments name."""
        if parsed_args.snapshot is not None:
            yield SnapshotClient(Snapshot.load(parsed_args.snapshot))
            return
        with super().client(parsed_args, project) as opened:
            yield opened


class ChangingCommand(ClientCommand):
    """Base class of commands that change something: they have a dry run."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --dry-run and the arguments that name the cloud."""
        parser.add_argument(
            "--dry-run", action="store_true", help="check and plan it by the same code, say what would happen"
        )
        super().add_arguments(parser)

    def columns_for(self, parsed_args: argparse.Namespace) -> Columns | None:
        """The columns of a plan for a dry run, else those of what was changed."""
        return PLAN_COLUMNS if parsed_args.dry_run else super().columns_for(parsed_args)

    def each(
        self, items: Sequence[Record], do: Callable[[Record], Record], is_dry_run: bool
    ) -> tuple[list[tuple[Record, Record]], int]:
        """Do something with each of several items: (item, answer) of those that succeeded, and the exit code.

        The error of a single item is raised; of several, each error is printed, and the others are done all the same.
        The exit code is PARTLY_DONE where some of them were changed, and that of the worst error where none was.
        """
        if len(items) == 1:
            return [(items[0], do(items[0]))], 0
        done, codes = [], [0]
        for item in items:
            try:
                done.append((item, do(item)))
            except RoostError as error:
                codes.append(self.report_error(error))
        is_partly_done = bool(done) and len(codes) > 1 and not is_dry_run
        return done, PARTLY_DONE if is_partly_done else max(codes)


class WaitingCommand(ChangingCommand):
    """Base class of commands that begin something with servers, and can see it through."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --wait, --no-wait, --timeout, --dry-run and the arguments that name the cloud."""
        parser.add_argument(
            "--wait",
            action=argparse.BooleanOptionalAction,
            default=True,
            help="see it through, or return when it has begun (default: --wait)",
        )
        parser.add_argument(
            "--timeout",
            type=whole_number(least=1),
            default=WAIT_SECONDS,
            metavar="SECONDS",
            help=f"how long to wait (default: {WAIT_SECONDS})",
        )
        super().add_arguments(parser)

    def see_through(
        self, client: CommandClient, servers: Sequence[Record], parsed_args: argparse.Namespace, goal: Goal
    ) -> tuple[list[Record], int]:
        """Wait for servers, which are given as they were before; as they are then, and the exit code.

        What failed is printed, a line for servers that failed alike. PartlyChanged where they can be seen no more.
        """
        wait = ServerWait(client, self.frame.clock, parsed_args.timeout)
        try:
            outcomes = wait.until(goal, servers, partial(self._show, len(servers)))
        except (BadInput, AccessError) as error:  # a token has expired: as such it would mean that nothing is begun
            raise PartlyChanged(f"it was begun, and cannot be waited for: {error.message}", error.hint) from None
        codes = [self.report_error(error) for error in failures(outcomes)]
        return [each.server for each in outcomes], max(codes, default=0)

    def _show(self, total: int, done: int, server: Record) -> None:
        count = f"{done} of {total} complete; " if total > 1 else ""
        self.progress.show(f"{count}{server.get('name')}: {server.get('status')}, {server.get('task_state')}")


def failures(outcomes: Iterable[WaitOutcome]) -> Iterator[ServerFailed]:
    """An error for each way in which changes of servers have failed, with the details where the cloud tells them."""
    alike: dict[tuple[str, str], list[str]] = {}
    for each in outcomes:
        if each.problem:
            alike.setdefault((each.problem, each.details), []).append(str(each.server.get("name")))
    for (problem, details), names in alike.items():
        if details and problem.startswith(NO_VALID_HOST):  # decisions are for callers who may see details
            details = f"{details}; roost decision why {names[0]} says what would help"
        which = f"server {names[0]}" if len(names) == 1 else f"servers {listed(names)}"
        yield ServerFailed(f"{which}: {problem}", details)


def plan_report(plan: Plan, is_one_decision: bool = True) -> Report:
    """A row for each step that a dry run would do; the summaries of decisions are below the table.

    `is_one_decision`: the steps were planned together, and have one summary; else each was planned by itself.
    """
    keys = ("action", "host", "summary")
    rows = [(cell(each.get("name") or each.get("server")), *(cell(each.get(key)) for key in keys)) for each in plan]
    caption = "\n".join([*_summaries(plan, is_one_decision), "dry run: nothing was changed"])
    minor = {"Summary"} if any(row[0] != NOTHING for row in rows) else {"Server", "Summary"}
    return Report({"plan": plan}, tuple(PLAN_COLUMNS), rows, caption=caption, minor=frozenset(minor))


def _summaries(plan: Plan, is_one_decision: bool) -> list[str]:
    found = [(cell(each.get("name") or each.get("host")), each["summary"]) for each in plan if each.get("summary")]
    if is_one_decision or len(found) < 2:
        return list(dict.fromkeys(summary for _, summary in found))
    return [*(f"{name}: {summary}" for name, summary in found), PLANNED_ALONE]


_FILTERS = ("host", "project_id", "status", "name")
_PLACES = ("source_compute", "dest_compute")


class SnapshotClient(CloudClient):
    """Reads from a snapshot what a conductor would answer at the moment when it was taken."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def get_snapshot(self) -> Record:
        """The snapshot itself."""
        return {"snapshot": b64encode(self._snapshot.to_bytes()).decode()}

    # --- servers ---

    def list_servers(self, filters: Mapping[str, str]) -> list[Record]:
        """The servers that match all filters: host, project_id, status, name."""
        for name in filters:
            if name not in _FILTERS:
                raise FieldError(f"filters.{name}", "is not known", nearest(name, _FILTERS))
        found = self._snapshot.servers
        return [_listed(each) for each in found if all(each.get(key) == value for key, value in filters.items())]

    def get_server(self, server: str) -> Record:
        """One server, by uuid or name; UnknownName where there is none, or the name is that of several."""
        found = [each for each in self._snapshot.servers if each["id"] == server]
        found = found or [each for each in self._snapshot.servers if each.get("name") == server]
        if len(found) > 1:
            raise UnknownName(f"several servers are named {server[:60]!r}", "give the uuid")
        if not found:
            raise UnknownName(f"there is no server {server[:60]!r}", "roost server list shows them")
        return found[0]

    def list_migrations(self, server: str | None = None, host: str | None = None) -> list[Record]:
        """Migrations of a server, from or to a host, or all."""
        servers = self._snapshot.servers if server is None else [self.get_server(server)]
        found = [each for record in servers for each in record.get("migrations") or ()]
        return [each for each in found if host is None or host in [each.get(name) for name in _PLACES]]

    # --- hosts, flavors and images ---

    def list_hosts(self) -> list[Record]:
        """All hosts, by name."""
        return self._hosts

    def get_host(self, host: str) -> Record:
        """One host, by its first node; UnknownName where there is none."""
        found = next((each for each in self._hosts if each["host"] == host), None)
        if found is None:
            known = [each["host"] for each in self._hosts]
            raise UnknownName(f"Compute host {host[:60]} could not be found.", nearest(host, known))
        return found

    def list_flavors(self) -> list[Record]:
        """All flavors."""
        return [describe_flavor(each) for each in self._snapshot.fleet.flavors.values()]

    def list_images(self) -> list[Record]:
        """All images."""
        return [describe_image(each) for each in self._snapshot.fleet.images.values()]

    @cached_property
    def _hosts(self) -> list[Record]:
        settings = read_options((), self._snapshot.fleet.options, self._snapshot.fleet.options)
        down = settings.fill(SchedulerOptions).seconds_until_down
        zone = settings.value("DEFAULT", "default_availability_zone")
        found = [self._describe(each, down, zone) for each in self._records()]
        return sorted(found, key=lambda each: (each["host"], each["node"]))

    def _records(self) -> list[HostRecord]:
        """A record of each host: those of equal hosts differ in their names alone."""
        runs = self._snapshot.fleet.runs
        return [dataclasses.replace(record, host=host, node=node) for record, pairs in runs for host, node in pairs]

    def _describe(self, record: HostRecord, seconds_until_down: float, default_zone: str) -> Record:
        age = record.service.seconds_since_seen
        seen_at = None if age is None else self._snapshot.taken_at - timedelta(seconds=age)
        return describe_host(
            record, seconds_until_down=seconds_until_down, default_zone=default_zone, seen_at=seen_at
        )

    def _have_none(self, *args: Any, **kwargs: Any) -> NoReturn:
        """BadInput: decisions are kept in the database alone."""
        raise BadInput(f"{self._snapshot.source}: a snapshot has no decisions", "ask the live cloud")

    list_decisions = get_decision = _have_none

    # --- decisions ---

    def _has_none(self, *args: Any, **kwargs: Any) -> NoReturn:
        """BadInput: decisions are not part of a snapshot."""
        raise BadInput(
            f"{self._snapshot.source}: a snapshot holds no decisions", "ask the live cloud: leave out --from"
        )

    list_decisions = get_decision = _has_none

    # --- changes ---

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        """BadInput: what was recorded cannot be changed."""
        problem = f"{self._snapshot.source}: a snapshot is a record of what was, and cannot be changed"
        raise BadInput(problem, "leave out --from: then it is the live cloud")

    create_servers = delete_server = start_server = stop_server = resize_server = confirm_resize = _refuse
    revert_resize = migrate_server_cold = live_migrate_server = evacuate_server = shelve_server = _refuse
    unshelve_server = rebuild_server = set_host = update_server = set_server_metadata = _refuse
    delete_server_metadata = reset_server_state = _refuse
