# SPDX-License-Identifier: Apache-2.0
"""What the commands about users, projects and tokens share: they work on the database, without the API."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from roost.cli.arguments import path_argument
from roost.cli.ledger import DbCommand
from roost.clock import SystemClock
from roost.errors import BadInput
from roost.records.tokens import TokenStore
from roost.records.users import SYSTEM, ProjectStore, UserStore
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
