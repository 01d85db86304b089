# SPDX-License-Identifier: Apache-2.0
"""`roost help`: the list of commands, or the arguments of one."""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import Any

from cliff.complete import CompleteCommand

from roost.cli.arguments import RoostCommand
from roost.errors import UnknownName


class Help(RoostCommand):
    """Explain a command and its arguments."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the name of the command to explain."""
        parser = super().get_parser(prog_name)
        parser.add_argument("command", nargs="*", metavar="COMMAND", help="its name; all are listed without one")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Print the help on stdout, as it was requested and is no error."""
        sys.stdout.write(help_text(self.app, parsed_args.command))


class Complete(CompleteCommand, RoostCommand):  # in this order: the parser of the second is extended by the first
    """Print a script that completes commands and options in bash."""

    def get_epilog(self) -> str:
        """An empty text; the default names cliff."""
        return ""


def help_text(app: Any, words: list[str]) -> str:
    """The help of the command named by the first of `words`; that of the program where there are none."""
    if not words:
        return f"{app.parser.format_help()}\ncommands:\n{_command_list(app)}\nroost help COMMAND says more.\n"
    try:
        factory, name, _ = app.command_manager.find_command(words)
    except ValueError:
        raise unknown_command(app, words) from None
    return str(factory(app, app.options, cmd_name=name).get_parser(f"{app.NAME} {name}").format_help())


_REPLACED = {"demo": "dev --once"}
"""Commands that no longer exist, and what to type instead."""


def unknown_command(app: Any, words: list[str]) -> UnknownName:
    """An error that names an unknown command; its hint: what has replaced it, or the nearest known one."""
    if replacement := _REPLACED.get(words[0]):
        return UnknownName(f"unknown command {words[0]!r}", f"use roost {replacement}")
    return UnknownName(f"unknown command {words[0]!r}", _nearest_command(app, words))


def _nearest_command(app: Any, words: list[str]) -> str:
    names = sorted(name for name, _ in app.command_manager)
    close = [name for name in names if name.startswith(words[0])]
    close = close or difflib.get_close_matches(" ".join(words[:2]), names, n=1)
    close = close or difflib.get_close_matches(words[0], names, n=1)
    return f"did you mean {' or '.join(close)}?" if close else "see roost help"


def _command_list(app: Any) -> str:
    lines, points = [], sorted(app.command_manager)
    width = max(len(name) for name, _ in points)
    for name, point in points:
        summary = point.load()(app, None, cmd_name=name).get_description().splitlines()[0].rstrip(".")
        lines.append(f"  {name:<{width}} {summary}\n")
    return "".join(lines)
