# SPDX-License-Identifier: Apache-2.0
"""The frame of the command: finds the subcommand, turns errors into one line and an exit code.

Exit codes: 0 done, 1 no host fits, 2 wrong input, 3 somebody's plugin failed, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cliff.app import App
from cliff.commandmanager import CommandManager

import roost
from roost.cli.output import console
from roost.errors import BadInput, NoValidHost, RoostError


class Roost(App):
    """The application; cliff does the rest."""

    CONSOLE_MESSAGE_FORMAT = "%(levelname)s: %(message)s"

    def __init__(self) -> None:
        super().__init__(
            description="Decides on which host a virtual machine runs, and says why.",
            version=roost.__version__,
            command_manager=CommandManager("roost.cli"),
            deferred_help=True,
        )
        self.interactive_mode = False

    def run_subcommand(self, argv: list[str]) -> int:
        """Run it; what went wrong is one line on stderr."""
        try:
            name = self.command_manager.find_command(argv)
        except ValueError as error:
            return self._unknown_command(argv, str(error))
        factory, command_name, arguments = name
        command = factory(self, self.options, cmd_name=command_name)
        try:
            parsed = command.get_parser(f"{self.NAME} {command_name}").parse_args(arguments)
            return int(command.run(parsed) or 0)
        except RoostError as error:
            return _complain(error)
        except KeyboardInterrupt:
            return 130
        except BrokenPipeError:  # the reader, `head` say, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0

    def _unknown_command(self, argv: Sequence[str], message: str) -> int:
        close = self.get_fuzzy_matches(" ".join(argv[:1]))
        hint = f"; did you mean {close[0]}?" if close else "; see roost help"
        console(stderr=True).print(f"roost: {message}{hint}", style="red", markup=False, highlight=False)
        return 2


def _complain(error: RoostError) -> int:
    console(stderr=True).print(f"roost: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
    if isinstance(error, NoValidHost):
        return 1
    return 2 if isinstance(error, BadInput) else 3


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["help"]
    return int(Roost().run(arguments))
