# SPDX-License-Identifier: Apache-2.0
"""`roost server delete`, `start`, `stop`, `resize`, `migrate` and so on: changes of one or several servers."""

from __future__ import annotations

import argparse

from roost.cli.client_command import WaitingCommand, plan_report
from roost.cli.output import Report
from roost.cli.server_report import server_report
from roost.client import CloudClient, Record
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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the servers, the arguments of the change, and how to wait."""
        parser.add_argument("server", metavar="SERVER", nargs="+", help="name or uuid; several may be given")
        self.add_own_arguments(parser)
        super().add_arguments(parser)

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of this change; none by default."""

    def goal_for(self, parsed_args: argparse.Namespace) -> Goal:
        """What the servers are like afterwards."""
        return self.goal

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin the change of a server, or plan it; the answer of the cloud."""
        raise NotImplementedError

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The servers afterwards, or the plan of a dry run; exit code 0 if all was done, 1 if one failed."""
        with self.client(parsed_args) as client:
            found = {each["id"]: each for each in map(client.get_server, parsed_args.server)}
            begun, code = self.each(list(found.values()), lambda each: self.begin(client, each["id"], parsed_args))
            if parsed_args.dry_run:
                return plan_report([step for _, answer in begun for step in answer["plan"]]), code
            if not parsed_args.wait:
                return server_report([answer for _, answer in begun]), code
            before = [server for server, _ in begun]
            servers, failed = self.see_through(client, before, parsed_args, self.goal_for(parsed_args))
        return server_report(servers), max(code, failed)


class ServerDelete(ServerChange):
    """Delete servers; what they hold is released."""

    goal = GONE

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to delete a server."""
        return client.delete_server(server, parsed_args.dry_run)


class ServerStart(ServerChange):
    """Start stopped servers."""

    goal = STARTED

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to start a server."""
        return client.start_server(server, parsed_args.dry_run)


class ServerStop(ServerChange):
    """Stop servers; they keep their hosts and what they hold there."""

    goal = STOPPED

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to stop a server."""
        return client.stop_server(server, parsed_args.dry_run)


class ServerResize(ServerChange):
    """Give servers another flavor, mostly on another host; then they are VERIFY_RESIZE: confirm or revert."""

    goal = RESIZED

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --flavor."""
        parser.add_argument("--flavor", required=True, metavar="NAME", help="the new size, by name or id")

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to resize a server."""
        return client.resize_server(server, parsed_args.flavor, parsed_args.dry_run)


class ServerConfirm(ServerChange):
    """Confirm a resize or a migration: what the servers hold on their former hosts is released."""

    goal = SETTLED

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to confirm."""
        return client.confirm_resize(server, parsed_args.dry_run)


class ServerRevert(ServerChange):
    """Take back a resize or a migration: the servers return to their former hosts and flavors."""

    goal = SETTLED

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to revert."""
        return client.revert_resize(server, parsed_args.dry_run)


class ServerMigrate(ServerChange):
    """Move servers to other hosts: stopped meanwhile, to be confirmed or reverted; or live, with --live."""

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --live, --host and --force."""
        parser.add_argument("--live", action="store_true", help="while they run; nothing is to be confirmed then")
        parser.add_argument("--host", metavar="NAME", help="to this host, if the filters let it")
        parser.add_argument("--force", action="store_true", help="with --live --host: do not ask the filters")

    def goal_for(self, parsed_args: argparse.Namespace) -> Goal:
        """Another host; of a cold migration, to be confirmed."""
        return MOVED if parsed_args.live else RESIZED

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to move a server."""
        if parsed_args.live:
            return client.live_migrate_server(server, parsed_args.host, parsed_args.force, parsed_args.dry_run)
        return client.migrate_server_cold(server, parsed_args.host, parsed_args.dry_run)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The servers afterwards, or the plan of a dry run."""
        if parsed_args.force and not (parsed_args.live and parsed_args.host):
            raise BadInput("--force goes with --live and --host", "without it, a scheduler is asked")
        return super().report(parsed_args)


class ServerEvacuate(ServerChange):
    """Rebuild servers whose hosts are down on other hosts."""

    goal = MOVED

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --host and --force."""
        parser.add_argument("--host", metavar="NAME", help="to this host, if the filters let it")
        parser.add_argument("--force", action="store_true", help="with --host: do not ask the filters")

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to evacuate a server."""
        return client.evacuate_server(server, parsed_args.host, parsed_args.force, parsed_args.dry_run)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The servers afterwards, or the plan of a dry run."""
        if parsed_args.force and not parsed_args.host:
            raise BadInput("--force goes with --host", "without it, a scheduler is asked")
        return super().report(parsed_args)


class ServerShelve(ServerChange):
    """Take servers off their hosts, and keep them for later; what they hold is released."""

    goal = SHELVED_AWAY

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to shelve a server."""
        return client.shelve_server(server, parsed_args.dry_run)


class ServerUnshelve(ServerChange):
    """Bring shelved servers back, on hosts that are chosen anew."""

    goal = BUILT

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --host and --availability-zone."""
        parser.add_argument("--host", metavar="NAME", help="on this host, if the filters let it")
        parser.add_argument("--availability-zone", metavar="ZONE", help="in this zone")

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to unshelve a server."""
        zone = parsed_args.availability_zone
        return client.unshelve_server(server, parsed_args.host, zone, parsed_args.dry_run)


class ServerRebuild(ServerChange):
    """Build servers anew where they are, from the same image or another."""

    goal = SETTLED

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --image."""
        parser.add_argument("--image", metavar="NAME", help="the new image, by name or id (default: the same)")

    def begin(self, client: CloudClient, server: str, parsed_args: argparse.Namespace) -> Record:
        """Begin to rebuild a server."""
        return client.rebuild_server(server, parsed_args.image, parsed_args.dry_run)
