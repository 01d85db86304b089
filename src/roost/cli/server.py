# SPDX-License-Identifier: Apache-2.0
"""`roost server ...`: create, list and show servers; delete, start, stop, resize, migrate one or several."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import (
    add_size_arguments,
    check_size,
    flavor_parts,
    group_by_key,
    key_and_value,
    whole_number,
)
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
from roost.client.interface import STATUSES, CommandClient, Record
from roost.client.waiting import (
    BUILT,
    GONE,
    MOVED,
    RESIZED,
    SETTLED,
    SHELVED_AWAY,
    STARTED,
    STOPPED,
    Goal,
)
from roost.errors import BadInput, RemoteNoValidHost


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


class ServerChange(WaitingCommand):
    """Base class of changes. All servers are looked up before the first is changed."""

    columns = SERVER_COLUMNS
    goal: Goal
    """What servers are like afterwards."""
    names_needed = "+"
    """How many servers have to be named, as argparse writes it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the servers, the arguments of the change, and how to wait."""
        parser.add_argument(
            "server", metavar="SERVER", nargs=self.names_needed, help="name or uuid; several may be given"
        )
        self.add_own_arguments(parser)
        super().add_arguments(parser)

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this change; none by default."""

    def goal_for(self, parsed_args: argparse.Namespace) -> Goal:
        """What the servers are like afterwards."""
        return self.goal

    def find(self, client: CommandClient, parsed_args: argparse.Namespace) -> list[Record]:
        """The servers to change, each once."""
        return list({each["id"]: each for each in map(client.get_server, parsed_args.server)}.values())

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin the change of a server, or plan it; the answer of the cloud."""
        raise NotImplementedError

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The servers afterwards, or the plan of a dry run; exit code 0 if all was done, 1 if part of it failed."""
        with self.client(parsed_args) as client:
            found = self.find(client, parsed_args)
            dry_run = parsed_args.dry_run
            begun, code = self.each(found, lambda each: self.begin(client, each["id"], parsed_args), dry_run)
            if dry_run:
                steps = [step for _, answer in begun for step in answer["plan"]]
                return plan_report(steps, is_one_decision=False), code
            if not parsed_args.wait:
                return server_report([answer for _, answer in begun]), code
            before = [server for server, _ in begun]
            servers, failed = self.see_through(client, before, parsed_args, self.goal_for(parsed_args))
        return server_report(servers), max(code, failed)


class ServerDelete(ServerChange):
    """Delete servers; what they hold is released."""

    goal = GONE

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to delete a server."""
        return client.delete_server(server, parsed_args.dry_run)


class ServerStart(ServerChange):
    """Start stopped servers."""

    goal = STARTED

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to start a server."""
        return client.start_server(server, parsed_args.dry_run)


class ServerStop(ServerChange):
    """Stop servers; they keep their hosts and what they hold there."""

    goal = STOPPED

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to stop a server."""
        return client.stop_server(server, parsed_args.dry_run)


class ServerResize(ServerChange):
    """Give servers another flavor, mostly on another host; then they are VERIFY_RESIZE: confirm or revert."""

    goal = RESIZED

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --flavor."""
        parser.add_argument("--flavor", required=True, metavar="NAME", help="the new size, by name or id")

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to resize a server."""
        return client.resize_server(server, parsed_args.flavor, parsed_args.dry_run)


class ServerConfirm(ServerChange):
    """Confirm a resize or a migration: what the servers hold on their former hosts is released."""

    goal = SETTLED

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to confirm."""
        return client.confirm_resize(server, parsed_args.dry_run)


class ServerRevert(ServerChange):
    """Take back a resize or a migration: the servers return to their former hosts and flavors."""

    goal = SETTLED

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to revert."""
        return client.revert_resize(server, parsed_args.dry_run)


class ServerMove(ServerChange):
    """Base class of moves to other hosts, of named servers or of all that are on a host."""

    names_needed = "*"
    force_needs: tuple[str, ...] = ("host",)
    """Arguments without which --force has no meaning."""

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --from, --host and --force."""
        parser.add_argument("--from", dest="source", metavar="HOST", help="all servers that are on this host")
        parser.add_argument("--host", metavar="NAME", help="to this host, if the filters let it")
        options = " ".join(f"--{each}" for each in self.force_needs)
        parser.add_argument("--force", action="store_true", help=f"with {options}: do not ask the filters")

    def find(self, client: CommandClient, parsed_args: argparse.Namespace) -> list[Record]:
        """The named servers, or all on the host of --from, with their faults; UnknownName if it does not exist."""
        if parsed_args.source is None:
            return super().find(client, parsed_args)
        source = client.get_host(parsed_args.source)["host"]
        return [client.get_server(each["id"]) for each in client.list_servers({"host": source})]

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The servers afterwards, or the plan of a dry run."""
        if bool(parsed_args.server) == (parsed_args.source is not None):
            raise BadInput("the servers to move are missing, or named twice", "give SERVER ..., or --from HOST")
        if parsed_args.force and not all(getattr(parsed_args, each) for each in self.force_needs):
            needed = " and ".join(f"--{each}" for each in self.force_needs)
            raise BadInput(f"--force goes with {needed}", "without it, a scheduler is asked")
        return super().report(parsed_args)


class ServerMigrate(ServerMove):
    """Move servers to other hosts: stopped meanwhile, to be confirmed or reverted; or live, with --live."""

    force_needs = ("live", "host")

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --live, --from, --host and --force."""
        parser.add_argument("--live", action="store_true", help="while they run; nothing is to be confirmed then")
        super().add_own_arguments(parser)

    def goal_for(self, parsed_args: argparse.Namespace) -> Goal:
        """Another host; of a cold migration, to be confirmed."""
        return MOVED if parsed_args.live else RESIZED

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to move a server."""
        if parsed_args.live:
            return client.live_migrate_server(server, parsed_args.host, parsed_args.force, parsed_args.dry_run)
        return client.migrate_server_cold(server, parsed_args.host, parsed_args.dry_run)


class ServerEvacuate(ServerMove):
    """Rebuild servers whose hosts are down on other hosts."""

    goal = MOVED

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to evacuate a server."""
        return client.evacuate_server(server, parsed_args.host, parsed_args.force, parsed_args.dry_run)


class ServerShelve(ServerChange):
    """Take servers off their hosts, and keep them for later; what they hold is released."""

    goal = SHELVED_AWAY

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to shelve a server."""
        return client.shelve_server(server, parsed_args.dry_run)


class ServerUnshelve(ServerChange):
    """Bring shelved servers back, on hosts that are chosen anew."""

    goal = BUILT

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --host and --availability-zone."""
        parser.add_argument("--host", metavar="NAME", help="on this host, if the filters let it")
        parser.add_argument("--availability-zone", metavar="ZONE", help="in this zone")

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to unshelve a server."""
        zone = parsed_args.availability_zone
        return client.unshelve_server(server, parsed_args.host, zone, parsed_args.dry_run)


class ServerRebuild(ServerChange):
    """Build servers anew where they are, from the same image or another."""

    goal = SETTLED

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --image."""
        parser.add_argument("--image", metavar="NAME", help="the new image, by name or id (default: the same)")

    def begin(self, client: CommandClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to rebuild a server."""
        return client.rebuild_server(server, parsed_args.image, parsed_args.dry_run)
