# SPDX-License-Identifier: Apache-2.0
"""How arguments are parsed: what is wrong with them is one line, like every other mistake."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from cliff.command import Command

from roost.config.files import files_in
from roost.errors import BadInput, FieldError, nearest
from roost.validation.kinds import MOST, WholeNumber


class Parser(argparse.ArgumentParser):
    """Raises BadInput instead of printing its usage and leaving. Options are written out: `--ver` is no option."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", _Formatter)
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """All arguments, or an error that names the first one nobody knows."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            hint = nearest(option, self._option_string_actions) if option.startswith("-") else ""
            raise BadInput(f"unknown argument {unknown[0]}", hint if "did you mean" in hint else self._see_help())
        return parsed

    def error(self, message: str) -> NoReturn:
        """Called by argparse for whatever is wrong."""
        raise BadInput(message.removeprefix("argument "), self._see_help())

    def _see_help(self) -> str:
        return f"see {self.prog} --help"


class _Formatter(argparse.HelpFormatter):
    """Room for the longest option, and the explanation beside it."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=30, **settings)


class RoostCommand(Command):
    """A subcommand with our parser."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """A parser with nothing but --help."""
        return Parser(prog=prog_name, description=self.get_description())


def add_config_arguments(parser: Any, what: str = "options") -> None:
    """--config-file and --config-dir, the same for every command; `parser` may be a group of one."""
    parser.add_argument(
        "--config-file",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help=f"nova.conf-style file with {what}; repeatable, the last one wins",
    )
    parser.add_argument(
        "--config-dir",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="folder whose *.conf are read after the files, sorted by name; repeatable",
    )


def config_files(parsed_args: argparse.Namespace) -> list[Path]:
    """Every file that --config-file and --config-dir name, in the order in which they are read."""
    return [*parsed_args.config_file, *files_in(parsed_args.config_dir)]


def whole_number(least: float = -math.inf, most: float = MOST) -> Callable[[str], int]:
    """For `type=`: digits, within bounds."""
    kind = WholeNumber(least, most)

    def parse(text: str) -> int:
        try:
            return kind.strict(int(text), "")
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} {kind.mismatch}") from None
        except FieldError as error:
            raise argparse.ArgumentTypeError(f"{error.problem}: {error.hint}") from None

    return parse


def key_and_value(text: str) -> tuple[str, str]:
    """For `type=`: KEY=VALUE."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not KEY=VALUE")
    return key, value


def gathered(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Repeated keys gather their values in a list."""
    found: dict[str, tuple[str, ...]] = {}
    for key, value in pairs:
        found[key] = (*found.get(key, ()), value)
    return found
