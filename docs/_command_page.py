# SPDX-License-Identifier: Apache-2.0
"""Generates the reference page of the command `roost`: exit codes, and the arguments of all commands."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterable
from typing import Any

from docs._markdown import code, join, page, table

import roost.cli.main as command_frame
from roost.cli.commands import COMMANDS


def command_page() -> str:
    app = command_frame.Roost()
    codes = (command_frame.__doc__ or "").partition("Exit codes:")[2].partition("\n\n")[0]
    return page(
        "The command",
        f"{app.parser.description} `roost help COMMAND` prints the same information.",
        join("## Exit codes", "\n".join(f"- {each.strip()}" for each in codes.strip().rstrip(".").split(","))),
        join("## For every command", argument_table(app.parser._actions)),
        *(command_section(app, name, kind) for name, kind in commands()),
    )


def commands() -> list[tuple[str, Any]]:
    """(name, class) of all registered commands, sorted."""
    return sorted((name, entry.load()) for name, entry in COMMANDS.items())


def command_section(app: Any, name: str, kind: Any) -> str:
    parser: argparse.ArgumentParser = kind(app, None, cmd_name=name).get_parser(f"roost {name}")
    parts = [f"## roost {name}", inspect.getdoc(kind) or ""]
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.dest != "help"]
        if actions:
            title = "" if group.title == "options" else f"**{group.title[0].upper()}{group.title[1:]}**"
            parts.append(join(title, argument_table(actions)))
    return join(*parts)


def argument_table(actions: Iterable[argparse.Action]) -> str:
    return table(("argument", "meaning"), [(argument(each), argument_meaning(each)) for each in actions])


def argument_meaning(action: argparse.Action) -> str:
    if action.help == argparse.SUPPRESS:
        return "for the command's own use: how it starts its worker processes"
    return (action.help or "") + (" (required)" if action.required else "")


def argument(action: argparse.Action) -> str:
    spelt = ", ".join(code(each) for each in action.option_strings) or code(action.dest)
    if action.nargs == 0:
        return spelt
    value = "{" + ",".join(action.choices) + "}" if action.choices else action.metavar or action.dest.upper()
    return f"{spelt} {code(str(value))}"
