# SPDX-License-Identifier: Apache-2.0
"""`roost host ...`: the hosts of a cloud, and whether they may get servers."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import non_empty
from roost.cli.client_command import ChangingCommand, ReadingCommand, plan_report
from roost.cli.output import Report
from roost.cli.server_report import HOST_COLUMNS, HOST_FIELDS, HOST_MINOR, list_report, record_report


class HostList(ReadingCommand):
    """List hosts: whether they are up and enabled, and how full they are."""

    columns = HOST_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --long and the arguments that name the cloud."""
        parser.add_argument("--long", action="store_true", help="show more columns")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each host; exit code 0."""
        with self.client(parsed_args) as client:
            hosts = client.list_hosts()
        return list_report(hosts, HOST_COLUMNS, "host", frozenset() if parsed_args.long else HOST_MINOR), 0


class HostShow(ReadingCommand):
    """Show all that is known of a host."""

    columns = HOST_FIELDS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the host and the arguments that name the cloud."""
        parser.add_argument("host", metavar="HOST", help="its name")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each field; exit code 0."""
        with self.client(parsed_args) as client:
            return record_report(client.get_host(parsed_args.host)), 0


class HostSwitch(ChangingCommand):
    """Base class of changes of hosts. All hosts are looked up before the first is changed."""

    columns = HOST_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the hosts and the arguments that name the cloud."""
        parser.add_argument("host", metavar="HOST", nargs="+", help="its name; several may be given")
        super().add_arguments(parser)

    def values(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """What is set, as arguments of `CommandClient.set_host`."""
        raise NotImplementedError

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The hosts afterwards, or the plan of a dry run; exit code 0."""
        values, dry_run = self.values(parsed_args), parsed_args.dry_run
        with self.client(parsed_args) as client:
            found = {each["host"]: each for each in map(client.get_host, parsed_args.host)}
            done, code = self.each(
                list(found.values()), lambda each: client.set_host(each["host"], dry_run=dry_run, **values), dry_run
            )
            if dry_run:
                return plan_report([{**step, "name": None} for _, answer in done for step in answer["plan"]]), code
        hosts = [answer for _, answer in done]
        return list_report(hosts, HOST_COLUMNS, "host", HOST_MINOR - {"Reason"}), code


class HostDisable(HostSwitch):
    """Let no further servers come to hosts; those that are there stay."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --reason, --forced-down, the hosts and the arguments that name the cloud."""
        parser.add_argument(
            "--reason", required=True, type=non_empty, metavar="TEXT", help="why, for those who see it later"
        )
        parser.add_argument(
            "--forced-down",
            action="store_true",
            help="take them for down at once: they are known to be dead, and their servers may be evacuated",
        )
        super().add_arguments(parser)

    def values(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Disabled, with the reason."""
        forced_down = True if parsed_args.forced_down else None
        return {"disabled": True, "reason": parsed_args.reason, "forced_down": forced_down}


class HostEnable(HostSwitch):
    """Let servers come to hosts again; hosts that were forced down are what their heartbeats say."""

    def values(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Enabled, and not forced down."""
        return {"disabled": False, "forced_down": False}
