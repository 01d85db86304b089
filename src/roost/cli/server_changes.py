# SPDX-License-Identifier: Apache-2.0
"""`roost server delete`, `start`, `stop`, `resize`, `migrate` and so on: changes of one or several servers."""

from __future__ import annotations

import argparse

from roost.cli.client_command import WaitingCommand, plan_report
from roost.cli.output import Report
from roost.cli.server_report import SERVER_COLUMNS, server_report
from roost.client.interface import CommandClient, Record
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
from roost.errors import BadInput


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
