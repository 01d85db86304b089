# SPDX-License-Identifier: Apache-2.0
"""The frame of the command: finds the subcommand, turns errors into one line and an exit code.

Exit codes: 0 done, 1 no host fits, 2 wrong input, 3 somebody's plugin failed, 70 a mistake in Roost itself,
74 the answer could not be written, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cliff.app import App
from cliff.commandmanager import CommandManager

import roost
from roost.cli.arguments import Parser
from roost.cli.help import Complete, Help, find_command, help_text
from roost.cli.output import console
from roost.errors import BadInput, NoValidHost, PluginFailed, RoostError


class Roost(App):
    """The application: cliff finds the commands, the rest is here."""

    NAME = "roost"

    def __init__(self) -> None:
        super().__init__(
            description="Decides on which host a virtual machine runs, and says why.",
            version=roost.__version__,
            command_manager=CommandManager("roost.cli"),
        )
        self.command_manager.add_command("help", Help)
        self.command_manager.add_command("complete", Complete)
        self.options = self.parser.parse_args([])

    def build_option_parser(self, description: Any, version: Any, argparse_kwargs: Any = None) -> Parser:
        """The options that go with every command, before or after its name."""
        parser = Parser(
            prog=self.NAME, description=description, usage="roost [options] COMMAND [arguments]", add_help=False
        )
        parser.add_argument(
            "-h", "--help", action="store_true", dest="wants_help", help="explain the program or a command"
        )
        parser.add_argument("--version", action="store_true", help="print the version")
        parser.add_argument(
            "-q", "--quiet", action="store_true", help="print the answer alone, without remarks and warnings"
        )
        parser.add_argument(
            "--debug", action="store_true", help="show the traceback of what fails unexpectedly, plugins included"
        )
        return parser

    def run(self, argv: list[str]) -> int:
        """The whole way, from arguments to exit code."""
        try:
            self.options, words = self.parser.parse_known_args(argv)
            if self.options.version:
                sys.stdout.write(f"roost {roost.__version__}\n")
            elif self.options.wants_help or not words:
                sys.stdout.write(help_text(self, [] if words[:1] == ["help"] else words))
            else:
                with _warnings_on_stderr(self.options.quiet):
                    return self.run_subcommand(words)
        except RoostError as error:
            return self.complain(error)
        return 0

    def run_subcommand(self, argv: list[str]) -> int:
        """Run it; what went wrong is one line on stderr."""
        try:
            factory, name, arguments = find_command(self, argv)
            command = factory(self, self.options, cmd_name=name)
            parsed = command.get_parser(f"{self.NAME} {name}").parse_args(arguments)
            return int(command.run(parsed) or 0)
        except RoostError as error:
            return self.complain(error)
        except SystemExit as stop:  # nothing of ours leaves this way; argparse does with 2
            return 2 if stop.code == 2 else self.complain(PluginFailed("a plugin", "", stop))

    def complain(self, error: RoostError) -> int:
        """Tell of an error; with --debug also where somebody's plugin failed."""
        if self.options.debug and isinstance(error, PluginFailed):
            traceback.print_exception(error.cause)
        return _complain(error)


def _complain(error: RoostError) -> int:
    _tell(str(error))
    if isinstance(error, NoValidHost):
        return 1
    return 2 if isinstance(error, BadInput) else 3


def _tell(message: str) -> None:
    """One line on stderr, whatever is in the message."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(f"roost: {message}".split()))
    console(stderr=True).print(line, style="red", markup=False, emoji=False, highlight=False, soft_wrap=True)


@contextmanager
def _warnings_on_stderr(is_quiet: bool) -> Iterator[None]:
    """What is logged as a warning or worse becomes a line like every other."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("roost: %(levelname)s: %(message)s"))
    handler.setLevel(logging.ERROR if is_quiet else logging.WARNING)
    handler.addFilter(_lower_level)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


def _lower_level(record: logging.LogRecord) -> bool:
    record.levelname = record.levelname.lower()
    return True


def main(argv: Sequence[str] | None = None) -> int:
    """The entry point."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no reason to fail
    app = Roost()
    try:
        code = app.run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        _drop_stdout()
        return 0
    except Exception as error:
        return _internal_error(error, app.options)


def _internal_error(error: Exception, options: argparse.Namespace) -> int:
    if options.debug:
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename is None:
        _drop_stdout()
        _tell(f"the answer cannot be written: {error.strerror or error}")
        return 74
    what = f"{type(error).__name__}: {error}"
    _tell(f"internal error: {what} (not your fault: please report it, with what --debug shows)")
    return 70


def _drop_stdout() -> None:
    """What is still to be written goes nowhere, or Python would complain when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
