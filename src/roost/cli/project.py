# SPDX-License-Identifier: Apache-2.0
"""`roost project ...`: projects, to which servers belong and in which users have roles."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from roost.cli.arguments import non_empty
from roost.cli.identity_command import IdentityCommand
from roost.cli.output import Report
from roost.cli.server_report import list_report
from roost.records.users import Project

COLUMNS = {"Name": "name", "ID": "id", "Enabled": "enabled"}


class ProjectCreate(IdentityCommand):
    """Make a project."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name."""
        parser.add_argument("name", metavar="NAME", type=non_empty, help="which no other project has")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The project; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _report([stores.projects.create(parsed_args.name)]), 0


class ProjectList(IdentityCommand):
    """List projects."""

    columns = COLUMNS

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each project; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _report(stores.projects.list_projects()), 0


class ProjectDelete(IdentityCommand):
    """Delete a project with the roles and tokens in it. Its servers stay."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name."""
        parser.add_argument("name", metavar="PROJECT", help="name or id")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The project that was; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _report([stores.projects.delete(parsed_args.name)]), 0


def _report(projects: Sequence[Project]) -> Report:
    records = [{"id": each.id, "name": each.name, "enabled": each.enabled} for each in projects]
    return list_report(records, COLUMNS, "project")
