# SPDX-License-Identifier: Apache-2.0
"""`roost user ...`: users of the API, with their passwords and roles."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from roost.cli.arguments import non_empty
from roost.cli.identity_command import (
    IdentityCommand,
    IdentityStores,
    add_password_file_argument,
    add_scope_arguments,
    read_password,
)
from roost.cli.output import Report
from roost.cli.server_report import list_report
from roost.errors import BadInput
from roost.records.users import ROLES, Assignment, User

COLUMNS = {"Name": "name", "ID": "id", "Enabled": "enabled", "Roles": "roles"}
NO_ROLE = "none"


class UserCreate(IdentityCommand):
    """Make a user with a role in a project, or in the system."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name, the role and where, and the file with the password."""
        parser.add_argument("name", metavar="NAME", type=non_empty, help="by which the user signs in")
        add_scope_arguments(parser, "where the user has the role", is_required=True)
        parser.add_argument("--role", choices=ROLES, required=True, help="each role implies those after it")
        add_password_file_argument(parser)
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The user; exit code 0."""
        password = read_password(parsed_args.password_file)
        with self.stores(parsed_args) as stores:
            made = stores.users.create(parsed_args.name, password, {parsed_args.project: parsed_args.role})
            return _user_report(stores, made), 0


class UserSet(IdentityCommand):
    """Change a user: its password, its role in a project, or whether it may sign in."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name and what can be changed."""
        parser.add_argument("name", metavar="USER", help="name or id")
        parser.add_argument("--password", action="store_true", help="a new password; ends all tokens of the user")
        add_password_file_argument(parser)
        state = parser.add_mutually_exclusive_group()
        state.add_argument(
            "--enable", action="store_const", const=True, dest="is_enabled", help="let the user sign in"
        )
        state.add_argument("--disable", action="store_const", const=False, dest="is_enabled", help="refuse the user")
        add_scope_arguments(parser, "where --role applies")
        parser.add_argument("--role", choices=(*ROLES, NO_ROLE), help="the only role there; none: no role")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The user as it is then; exit code 0."""
        if (parsed_args.role is None) != (parsed_args.project is None):
            raise BadInput("--role needs --project or --system, and they need --role")
        wants_password = parsed_args.password or parsed_args.password_file is not None
        if not wants_password and parsed_args.is_enabled is None and parsed_args.role is None:
            raise BadInput("there is nothing to change", "see roost user set --help")
        password = read_password(parsed_args.password_file) if wants_password else None
        role = None if parsed_args.role == NO_ROLE else parsed_args.role
        roles = {} if parsed_args.role is None else {parsed_args.project: role}
        with self.stores(parsed_args) as stores:
            changed = stores.users.change(
                parsed_args.name, password=password, is_enabled=parsed_args.is_enabled, roles=roles
            )
            return _user_report(stores, changed), 0


class UserList(IdentityCommand):
    """List users with their roles."""

    columns = COLUMNS

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each user; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _users_report(stores.users.list_users(), stores.users.list_assignments()), 0


class UserShow(IdentityCommand):
    """Show a user with its roles."""

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the name."""
        parser.add_argument("name", metavar="USER", help="name or id")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The user; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _user_report(stores, stores.users.find(parsed_args.name)), 0


class UserDelete(UserShow):
    """Delete a user with its roles, tokens and application credentials. Its servers stay."""

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The user that was; exit code 0."""
        with self.stores(parsed_args) as stores:
            report = _user_report(stores, stores.users.find(parsed_args.name))
            stores.users.delete(parsed_args.name)
            return report, 0


def _user_report(stores: IdentityStores, user: User) -> Report:
    return _users_report([user], stores.users.list_assignments(user.id))


def _users_report(users: Sequence[User], assignments: Sequence[Assignment]) -> Report:
    roles: dict[str, list[str]] = {user.id: [] for user in users}
    for each in assignments:
        roles.setdefault(each.user_id, []).append(f"{each.role} in {each.target_name}")
    records = [
        {"id": user.id, "name": user.name, "enabled": user.enabled, "roles": ", ".join(roles[user.id])}
        for user in users
    ]
    return list_report(records, COLUMNS, "user")
