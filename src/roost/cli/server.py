# SPDX-License-Identifier: Apache-2.0
"""`roost server create`, `list` and `show`. The changes of existing servers are in `server_changes.py`."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import group_by_key, key_and_value, whole_number
from roost.cli.client_command import ReadingCommand, WaitingCommand, plan_report
from roost.cli.output import Report
from roost.cli.server_report import (
    SERVER_COLUMNS,
    SERVER_FIELDS,
    SERVER_MINOR,
    list_report,
    record_report,
    server_report,
)
from roost.cli.size_arguments import add_size_arguments, check_size, flavor_parts
from roost.client.interface import STATUSES, CommandClient
from roost.client.waiting import BUILT
from roost.errors import RemoteNoValidHost


class ServerCreate(WaitingCommand):
    """Boot servers: they are placed together, all or none, then built; ends when they are ACTIVE or ERROR."""

    columns = SERVER_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the size, where the server may be, and how to wait."""
        parser.add_argument("name", metavar="NAME", help="of the server; with --count, NAME-1, NAME-2 and so on")
        add_size_arguments(parser.add_argument_group("size: a flavor, or its parts"), "flavor, by name or id")
        parser.add_argument("--image", metavar="NAME", help="what it boots, by name or id")
        parser.add_argument(
            "--count", type=whole_number(least=1), default=1, metavar="N", help="how many (default: 1)"
        )
        where = parser.add_argument_group("where it may be")
        where.add_argument("--group", metavar="NAME", help="its server group, by name or uuid")
        where.add_argument("--availability-zone", metavar="ZONE", help="zone, or ZONE:HOST, or ZONE:HOST:NODE")
        where.add_argument("--host", metavar="NAME", help="this host, if the filters let it")
        where.add_argument(
            "--hint", action="append", default=[], type=key_and_value, metavar="KEY=VALUE",
            help="scheduler hint; repeatable",
        )  # fmt: skip
        parser.add_argument(
            "--project", metavar="ID", help="the project that it belongs to (default: that of the cloud's user)"
        )
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The servers, or the plan of a dry run; exit code 0 if all are ACTIVE, 1 if one failed."""
        check_size(parsed_args)
        with self.client(parsed_args, parsed_args.project) as client:
            if parsed_args.dry_run:
                return self._plan(client, parsed_args)
            answer = client.create_servers(_request(parsed_args))
            if not parsed_args.wait:
                return server_report(answer["servers"]), 0
            servers, code = self.see_through(client, answer["servers"], parsed_args, BUILT)
        return server_report(servers), code

    def _plan(self, client: CommandClient, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The plan of a dry run. Where no host fits, a table would say no more than the error: it is for scripts."""
        try:
            return plan_report(client.create_servers(_request(parsed_args), dry_run=True)["plan"]), 0
        except RemoteNoValidHost as error:
            if parsed_args.format == "table":
                raise
            step = {"server": None, "action": "create", "host": None, "summary": error.summary or error.message}
            return plan_report([{**step, "name": name} for name in _names(parsed_args)]), self.report_error(error)


def _names(parsed_args: argparse.Namespace) -> list[str]:
    """The names that the servers would have."""
    name, count = parsed_args.name, parsed_args.count
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]


def _request(parsed_args: argparse.Namespace) -> dict[str, Any]:
    hints = {
        key: values[0] if len(values) == 1 else list(values) for key, values in group_by_key(parsed_args.hint).items()
    }
    wanted = {key: getattr(parsed_args, key) for key in ("name", "image", "count", "group", "host")}
    wanted["flavor"] = parsed_args.flavor or flavor_parts(parsed_args)
    return {**wanted, "availability_zone": parsed_args.availability_zone, "hints": hints}


class ServerList(ReadingCommand):
    """List servers that are not deleted."""

    columns = SERVER_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the filters, --long and the arguments that name the cloud."""
        parser.add_argument("--host", metavar="NAME", help="only those on this host")
        parser.add_argument("--project", metavar="ID", help="only those of this project")
        parser.add_argument(
            "--status",
            type=str.upper,
            choices=STATUSES,
            metavar="STATUS",
            help="only those that are ACTIVE, ERROR, SHUTOFF and so on",
        )
        parser.add_argument("--name", metavar="NAME", help="only those with this name")
        parser.add_argument("--long", action="store_true", help="show more columns")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each server; exit code 0."""
        given = {"host": parsed_args.host, "project_id": parsed_args.project}
        given |= {"status": parsed_args.status, "name": parsed_args.name}
        filters = {key: value for key, value in given.items() if value is not None}
        with self.client(parsed_args) as client:
            servers = client.list_servers(filters)
        minor = frozenset() if parsed_args.long else SERVER_MINOR
        return list_report(servers, SERVER_COLUMNS, "server", minor), 0


class ServerShow(ReadingCommand):
    """Show all that is known of a server: state, host, fault, failed attempts, migrations."""

    columns = SERVER_FIELDS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the server and the arguments that name the cloud."""
        parser.add_argument("server", metavar="SERVER", help="its name or uuid")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each field; exit code 0."""
        with self.client(parsed_args) as client:
            return record_report(client.get_server(parsed_args.server)), 0
