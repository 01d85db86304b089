# SPDX-License-Identifier: Apache-2.0
"""The entry point of `roost`: finds the command, runs it, and turns errors into one line and an exit code.

Exit codes: 0 done, 1 no host fits or all or part of a change failed or a check found something, 2 wrong input and
nothing was changed, 3 a plugin failed, 4 the database or the cloud cannot be used, 70 a bug in Roost, 74 the answer
could not be written, 130 interrupted.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import io
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from cliff.app import App
from cliff.complete import CompleteCommand

import roost
from roost.cli.commands import COMMANDS, Commands, Parser, RoostCommand
from roost.cli.output import console
from roost.clock import Clock, SystemClock
from roost.errors import (
    AccessError,
    ApiError,
    BadInput,
    DatabaseError,
    NoValidHost,
    PartlyChanged,
    PluginFailed,
    ProcessFailed,
    RemoteFailure,
    RemoteNoValidHost,
    RoostError,
    RpcTimeout,
    RpcUnreachable,
    ServerFailed,
    ServiceUnavailable,
    UnknownName,
)


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
        return f"{app.parser.format_help()}\ncommands:\n{_command_list()}\nroost help COMMAND says more.\n"
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


def _command_list() -> str:
    width = max(map(len, COMMANDS))
    return "".join(f"  {name:<{width}} {entry.summary}\n" for name, entry in sorted(COMMANDS.items()))


class Roost(App):
    """The cliff application: global options, dispatch to a command, and exit codes for errors."""

    NAME = "roost"

    def __init__(self, clock: Clock | None = None) -> None:
        """`clock`: by which commands wait."""
        self.clock = clock or SystemClock()
        super().__init__(
            description="Decides on which host a virtual machine runs, and says why.",
            version=roost.__version__,
            command_manager=Commands(),
        )
        self.options = self.parser.parse_args([])

    def build_option_parser(self, description: Any, version: Any, argparse_kwargs: Any = None) -> Parser:
        """A parser of the global options, which may stand before or after the name of the command."""
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
        """Run the command that the arguments name, print warnings and errors, and return the exit code."""
        try:
            self.options, words = self.parser.parse_known_args(argv)
            if self.options.version:
                sys.stdout.write(f"roost {roost.__version__}\n")
            elif self.options.wants_help or not words:
                sys.stdout.write(help_text(self, [] if words[:1] == ["help"] else words))
            else:
                with _buffered_warnings(self.options.quiet) as warnings:
                    code = self.run_subcommand(words)
                    if code != 2:  # wrong input is reported in one line, without warnings around it
                        warnings.print_all()
                    return code
        except RoostError as error:
            return self.report_error(error)
        return 0

    def run_subcommand(self, argv: list[str]) -> int:
        """Run a command; an error is one line on stderr. Returns the exit code."""
        try:
            factory, name, arguments = self.command_manager.find_command(argv)
        except ValueError:
            return self.report_error(unknown_command(self, argv))
        try:
            command = factory(self, self.options, cmd_name=name)
            parsed = command.get_parser(f"{self.NAME} {name}").parse_args(arguments)
            return int(command.run(parsed) or 0)
        except RoostError as error:
            return self.report_error(error)
        except SystemExit as stop:  # raised by argparse with 2, or by a plugin
            return 2 if stop.code == 2 else self.report_error(PluginFailed("a plugin", "", stop))

    def report_error(self, error: RoostError) -> int:
        """Print an error on stderr, with --debug also the traceback of a failed plugin; returns the exit code."""
        if self.options.debug and isinstance(error, PluginFailed):
            traceback.print_exception(error.cause)
        _print_line(str(error))
        return _exit_code(error)


def _exit_code(error: RoostError) -> int:
    if isinstance(error, (NoValidHost, RemoteNoValidHost, ServerFailed, PartlyChanged, ProcessFailed)):
        return 1
    if isinstance(error, (DatabaseError, ServiceUnavailable, RpcUnreachable, RpcTimeout, ApiError)):
        return 4
    if isinstance(error, RemoteFailure) and error.is_unavailable:
        return 4
    return 2 if isinstance(error, (BadInput, AccessError)) else 3


def _print_line(message: str, style: str = "red") -> None:
    """Print a message as one line on stderr; line breaks and unprintable characters become spaces."""
    line = "".join(each if each.isprintable() else " " for each in " ".join(f"roost: {message}".split()))
    console(stderr=True).print(line, style=style, markup=False, emoji=False, highlight=False, soft_wrap=True)


class _WarningBuffer(logging.Handler):
    """A log handler that buffers records of its level and above until print_all."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")

    def print_all(self) -> None:
        """Print the buffered records on stderr, a line each, and clear the buffer."""
        while self.lines:
            _print_line(self.lines.pop(0), style="yellow")


@contextmanager
def _buffered_warnings(is_quiet: bool) -> Iterator[_WarningBuffer]:
    buffer = _WarningBuffer(logging.ERROR if is_quiet else logging.WARNING)
    root = logging.getLogger()
    root.addHandler(buffer)
    try:
        yield buffer
    finally:
        root.removeHandler(buffer)


def main(argv: Sequence[str] | None = None, clock: Clock | None = None) -> int:
    """Run `roost` with these arguments (default: those of the process) and return its exit code.

    `clock`: by which commands wait; default: that of the system.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the encoding may lack a character
    app = Roost(clock)
    try:
        _check_streams()
        code = app.run(arguments)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has closed its end
        _drop_stdout()
        return 0
    except ModuleNotFoundError as error:
        return _missing_module(error, app.options)
    except Exception as error:
        return _internal_error(error, app.options)


_EXTRAS = {"keystoneauth1": "nova", "libvirt": "libvirt"}
"""Module -> the extra of the distribution that brings it; that of any other is `cloud`."""


def _missing_module(error: ModuleNotFoundError, options: argparse.Namespace) -> int:
    name = (error.name or "roost").partition(".")[0]
    if name == "roost":
        return _internal_error(error, options)
    _print_line(
        f"{name} is not installed, which this command needs: pip install 'roost[{_EXTRAS.get(name, 'cloud')}]'"
    )
    return 2


def _internal_error(error: Exception, options: argparse.Namespace) -> int:
    if options.debug:
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.filename is None:
        _drop_stdout()
        _print_line(f"the answer cannot be written: {error.strerror or error}")
        return 74
    what = f"{type(error).__name__}: {error}"
    _print_line(f"internal error: {what} (not your fault: please report it, with what --debug shows)")
    return 70


def _check_streams() -> None:
    """Replace a closed stderr by /dev/null and raise OSError for a closed stdout: Python leaves None for them."""
    if sys.__stderr__ is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - lives as long as the process
    if sys.__stdout__ is None:
        raise OSError(errno.EBADF, "standard output is closed")


def _drop_stdout() -> None:
    """Redirect stdout to /dev/null, or flushing its buffer at exit would raise again."""
    with suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
