# SPDX-License-Identifier: Apache-2.0
"""`roost server-group ...`: servers of a project that are to be on the same host, or on different ones."""

from __future__ import annotations

import argparse

from roost.cli.arguments import non_empty, whole_number
from roost.cli.catalogue_command import CatalogueCommand, DeleteCommand, ShowCommand
from roost.cli.output import Report, fields
from roost.cli.server_report import list_report, record_report
from roost.client.api_client import GROUP_FIELDS, ApiCatalogue
from roost.client.interface import Record

GROUP = "server group"
FIELDS = fields(*GROUP_FIELDS)
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
COLUMNS = {"ID": "id", "Name": "name", "Policy": "policy", "Members": "members", "Project": "project_id"}
MINOR = frozenset({"Members", "Project"})
"""Columns that only --long shows."""


class ServerGroupList(CatalogueCommand):
    """List the server groups of the project."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --all-projects, --long and the argument that names the cloud."""
        parser.add_argument("--all-projects", action="store_true", help="those of all projects, for administrators")
        parser.add_argument("--long", action="store_true", help="show more columns")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each group; exit code 0."""
        with self.catalogue(parsed_args) as catalogue:
            found = catalogue.list_server_groups(parsed_args.all_projects)
        return list_report(found, COLUMNS, GROUP, frozenset() if parsed_args.long else MINOR), 0


class ServerGroupCreate(CatalogueCommand):
    """Make a server group of the project; new servers join it by `server create --group`."""

    columns = FIELDS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the policy, its limit and the argument that names the cloud."""
        parser.add_argument("name", metavar="NAME", type=non_empty, help="of the group")
        parser.add_argument("--policy", choices=POLICIES, default="affinity", help="default: affinity")
        parser.add_argument(
            "--max-server-per-host",
            type=whole_number(least=1),
            metavar="N",
            help="with anti-affinity: how many may be on one host (default: 1)",
        )
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The group; exit code 0."""
        most = parsed_args.max_server_per_host
        rules = {} if most is None else {"max_server_per_host": most}
        with self.catalogue(parsed_args) as catalogue:
            return record_report(catalogue.create_server_group(parsed_args.name, parsed_args.policy, rules)), 0


class ServerGroupShow(ShowCommand):
    """Show a server group with its members."""

    columns = FIELDS
    noun = GROUP

    def do(self, catalogue: ApiCatalogue, parsed_args: argparse.Namespace) -> Record:
        """The group."""
        return catalogue.find_server_group(parsed_args.name)


class ServerGroupDelete(DeleteCommand):
    """Delete server groups; their members stay where they are."""

    noun = GROUP

    def find(self, catalogue: ApiCatalogue, name: str) -> Record:
        """The group with this name or id."""
        return catalogue.find_server_group(name)

    def delete(self, catalogue: ApiCatalogue, found: Record) -> None:
        """Delete a group."""
        catalogue.delete_server_group(found["id"])
