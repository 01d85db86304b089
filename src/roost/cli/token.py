# SPDX-License-Identifier: Apache-2.0
"""`roost token ...`: tokens for scripts. A token is shown once, when it is made; then only its id."""

from __future__ import annotations

import argparse
from typing import Any

from roost.cli.arguments import whole_number
from roost.cli.columns import titled
from roost.cli.identity_command import IdentityCommand, add_scope_arguments
from roost.cli.output import Report
from roost.cli.server_report import list_report
from roost.errors import BadInput
from roost.records.tokens import TOKEN, AcceptedToken
from roost.records.users import SYSTEM

COLUMNS = {
    "ID": "id",
    "User": "user",
    "Project": "project",
    "Method": "method",
    "Expires": "expires_at",
    "Description": "description",
}
NEW_COLUMNS = {"Token": "token", **{title: COLUMNS[title] for title in ("ID", "User", "Project", "Expires")}}
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

    columns = COLUMNS

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add --user."""
        parser.add_argument("--user", metavar="USER", help="only tokens of this user, by name or id")
        super().add_arguments(parser)

    def report(self, parsed_args: argparse.Namespace) -> tuple[Report, int]:
        """A row for each token; exit code 0."""
        with self.stores(parsed_args) as stores:
            user_id = None if parsed_args.user is None else stores.users.find(parsed_args.user).id
            records = [_record(each) for each in stores.tokens.list_tokens(user_id)]
        return list_report(records, COLUMNS, "token"), 0


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
