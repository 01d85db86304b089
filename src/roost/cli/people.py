# SPDX-License-Identifier: Apache-2.0
"""`roost project ...`, `roost user ...`, `roost token ...`: who may use the API, kept in the database.

The commands work on the database, without the API. Servers belong to projects, and users have roles in them. A token,
for scripts, is shown once, when it is made; then only its id.
"""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from roost.cli.arguments import non_empty, path_argument, whole_number
from roost.cli.ledger import DbCommand
from roost.cli.output import Report, titled
from roost.cli.server_report import list_report
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.records.tokens import TOKEN, AcceptedToken, TokenStore
from roost.records.users import ROLES, SYSTEM, Assignment, Project, ProjectStore, User, UserStore
from roost.store.schema_upgrade import ensure_current

STDIN = Path("-")


class IdentityStores(NamedTuple):
    """Users, projects and tokens of one database."""

    users: UserStore
    projects: ProjectStore
    tokens: TokenStore


class IdentityCommand(DbCommand):
    """Base class of commands that read or change users, projects and tokens in the configured database."""

    @contextmanager
    def stores(self, parsed_args: argparse.Namespace) -> Iterator[IdentityStores]:
        """The stores of the configured database, whose tables must be up to date."""
        with self.engine(parsed_args) as engine:
            ensure_current(engine)
            clock = SystemClock()
            yield IdentityStores(UserStore(engine, clock), ProjectStore(engine, clock), TokenStore(engine, clock))


def add_scope_arguments(parser: Any, help_text: str, is_required: bool = False) -> None:
    """Add --project and --system, of which one may be given."""
    scope = parser.add_mutually_exclusive_group(required=is_required)
    scope.add_argument("--project", metavar="PROJECT", help=f"name or id of the project {help_text}")
    scope.add_argument(
        "--system", action="store_const", const=SYSTEM, dest="project", help=f"the cloud as a whole {help_text}"
    )


def add_password_file_argument(parser: Any) -> None:
    """Add --password-file."""
    parser.add_argument(
        "--password-file",
        type=path_argument,
        metavar="FILE",
        help="file whose first line is the password; - for stdin (default: ask for it)",
    )


def read_password(file: Path | None) -> str:
    """The password in a file, or from a prompt; BadInput where there is none."""
    if file is not None:
        return _first_line(file)
    if not sys.stdin.isatty():
        raise BadInput("there is no terminal to ask for the password", "name a file with --password-file")
    password = getpass.getpass("Password: ", sys.stderr)
    if getpass.getpass("Again: ", sys.stderr) != password:
        raise BadInput("the two passwords differ")
    return password


def _first_line(file: Path) -> str:
    try:
        text = sys.stdin.read() if file == STDIN else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadInput(f"{file}: {reason}", "name a file with the password in its first line") from None
    return text.partition("\n")[0].removesuffix("\r")


PROJECT_COLUMNS = {"Name": "name", "ID": "id", "Enabled": "enabled"}


class ProjectCreate(IdentityCommand):
    """Make a project."""

    columns = PROJECT_COLUMNS

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

    columns = PROJECT_COLUMNS

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each project; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _report(stores.projects.list_projects()), 0


class ProjectDelete(IdentityCommand):
    """Delete a project with the roles and tokens in it. Its servers stay."""

    columns = PROJECT_COLUMNS

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
    return list_report(records, PROJECT_COLUMNS, "project")


USER_COLUMNS = {"Name": "name", "ID": "id", "Enabled": "enabled", "Roles": "roles"}
NO_ROLE = "none"


class UserCreate(IdentityCommand):
    """Make a user with a role in a project, or in the system."""

    columns = USER_COLUMNS

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

    columns = USER_COLUMNS

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

    columns = USER_COLUMNS

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each user; exit code 0."""
        with self.stores(parsed_args) as stores:
            return _users_report(stores.users.list_users(), stores.users.list_assignments()), 0


class UserShow(IdentityCommand):
    """Show a user with its roles."""

    columns = USER_COLUMNS

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
    return list_report(records, USER_COLUMNS, "user")


TOKEN_COLUMNS = {
    "ID": "id",
    "User": "user",
    "Project": "project",
    "Method": "method",
    "Expires": "expires_at",
    "Description": "description",
}
NEW_COLUMNS = {"Token": "token", **{title: TOKEN_COLUMNS[title] for title in ("ID", "User", "Project", "Expires")}}
DAY_SECONDS = 86_400


class TokenCreate(IdentityCommand):
    """Make a token with which a script calls the API as a user; it is shown this once."""

    columns = NEW_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the user, the scope and the days."""
        parser.add_argument("user", metavar="USER", help="name or id")
        add_scope_arguments(parser, "that the token is for", is_required=True)
        parser.add_argument(
            "--days", type=whole_number(1, 3650), default=30, metavar="N", help="how long it is valid (default: 30)"
        )
        parser.add_argument("--description", metavar="TEXT", help="what it is for")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The token with its secret; exit code 0."""
        with self.stores(parsed_args) as stores:
            user = stores.users.find(parsed_args.user)
            target = SYSTEM if parsed_args.project == SYSTEM else stores.projects.find(parsed_args.project).id
            roles = stores.users.read_roles(user.id).get(target)
            if not roles or not user.enabled:
                where = "the system" if target == SYSTEM else f"project {parsed_args.project}"
                raise BadInput(
                    f"user {user.name} is disabled, or has no role in {where}", "see roost user set --help"
                )
            seconds = parsed_args.days * DAY_SECONDS
            issued = stores.tokens.issue(user.id, target, roles, TOKEN, seconds, description=parsed_args.description)
        record = {"token": issued.secret, **_record(issued.accepted)}
        rows = [tuple(record[key] for key in NEW_COLUMNS.values())]
        return Report(record, tuple(NEW_COLUMNS), rows, caption="the token is not shown again"), 0


class TokenList(IdentityCommand):
    """List tokens that are valid, those of one user or all."""

    columns = TOKEN_COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --user."""
        parser.add_argument("--user", metavar="USER", help="only tokens of this user, by name or id")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each token; exit code 0."""
        with self.stores(parsed_args) as stores:
            user_id = None if parsed_args.user is None else stores.users.find(parsed_args.user).id
            records = [_record(each) for each in stores.tokens.list_tokens(user_id)]
        return list_report(records, TOKEN_COLUMNS, "token"), 0


class TokenRevoke(IdentityCommand):
    """End a token: it is refused from now on."""

    columns = titled("ID")

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the id."""
        parser.add_argument(
            "id", metavar="ID", help="of the token, as roost token list shows it; not the token itself"
        )
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """The id; exit code 0."""
        with self.stores(parsed_args) as stores:
            stores.tokens.revoke_by_id(parsed_args.id)
        return Report({"id": parsed_args.id, "revoked": True}, ("ID",), [(parsed_args.id,)], caption="revoked"), 0


def _record(token: AcceptedToken) -> dict[str, Any]:
    caller = token.caller
    return {
        "id": token.id,
        "user": caller.user_name,
        "project": SYSTEM if caller.is_system else caller.project_name or None,
        "roles": sorted(caller.roles),
        "method": token.method,
        "expires_at": token.expires_at.isoformat(timespec="seconds"),
        "description": token.description,
    }
