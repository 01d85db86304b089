# SPDX-License-Identifier: Apache-2.0
"""Argument parsing that raises BadInput, so that a wrong argument is reported in one line like any other error."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from cliff.command import Command

from roost.errors import BadInput, FieldError, nearest
from roost.model.kinds import MOST, WholeNumber
from roost.options.files import files_in


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises BadInput instead of exiting. Options cannot be abbreviated."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", _Formatter)
        super().__init__(allow_abbrev=False, **settings)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """The parsed arguments. Raises BadInput, with the nearest option as its hint, for the first unknown one."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            option = unknown[0].partition("=")[0]
            raise BadInput(f"unknown argument {unknown[0]}", self._nearest_option(option) or self._see_help())
        return parsed

    def _nearest_option(self, option: str) -> str:
        """A hint that names the option that is meant: one with all its words, or else a similar one; or empty."""
        if not option.startswith("-"):
            return ""
        words, known = _words(option), list(self._option_string_actions)
        having = (each for each in known if each.startswith("--") and words <= _words(each))
        if option.startswith("--") and (full := next(having, "")):
            return f"did you mean {full}?"
        hint = nearest(option, known)
        return hint if "did you mean" in hint else ""

    def error(self, message: str) -> NoReturn:
        """Raise BadInput with a message of argparse, which calls this for every invalid argument."""
        raise BadInput(message.removeprefix("argument "), self._see_help())

    def _see_help(self) -> str:
        return f"see {self.prog} --help"


def _words(option: str) -> set[str]:
    return set(option.strip("-").split("-"))


class _Formatter(argparse.HelpFormatter):
    """A help formatter whose first column fits the longest option."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, max_help_position=30, **settings)


class RoostCommand(Command):
    """Base class of all commands: a cliff command whose errors are BadInput."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """A parser that knows only --help; commands extend it."""
        return Parser(prog=prog_name, description=self.get_description())


def add_config_arguments(parser: Any, what: str = "options") -> None:
    """Add --config-file and --config-dir to a parser or to an argument group; `what` completes the help text."""
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


def add_cloud_argument(parser: Any) -> None:
    """Add --os-cloud, the name of a cloud whose API is asked, to a parser or to an argument group."""
    parser.add_argument(
        "--os-cloud",
        metavar="NAME",
        help="the API of this cloud of clouds.yaml (default: what OS_CLOUD or OS_AUTH_URL names)",
    )


def add_snapshot_argument(parser: Any, default: str) -> None:
    """Add --from, the file of a snapshot, to a parser or an argument group. `default`: what is read without it."""
    parser.add_argument(
        "--from",
        dest="snapshot",
        metavar="SNAPSHOT",
        help=f"read a file of roost snapshot save; - for stdin (default: {default})",
    )


def config_files(parsed_args: argparse.Namespace) -> list[Path]:
    """The files of --config-file, then the *.conf of --config-dir: the order in which they are read."""
    return [*parsed_args.config_file, *files_in(parsed_args.config_dir)]


def whole_number(least: float = -math.inf, most: float = MOST) -> Callable[[str], int]:
    """A converter for `type=`: text to an integer from `least` to `most`, bounds included."""
    kind = WholeNumber(least, most)

    def parse(text: str) -> int:
        try:
            return kind.strict(int(text), "")
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} {kind.mismatch}") from None
        except FieldError as error:
            raise argparse.ArgumentTypeError(f"{error.problem}: {error.hint}") from None

    return parse


def path_argument(text: str) -> Path:
    """A converter for `type=`: text to a path. An empty one, which would mean the present folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty")
    return Path(text)


def non_empty(text: str) -> str:
    """A converter for `type=`: the text itself, which must be more than spaces."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty")
    return text


def key_and_value(text: str) -> tuple[str, str]:
    """A converter for `type=`: KEY=VALUE to (key, value), split at the first equals sign."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not KEY=VALUE")
    return key, value


def group_by_key(pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Key -> the values of all pairs with that key, in order."""
    grouped: dict[str, tuple[str, ...]] = {}
    for key, value in pairs:
        grouped[key] = (*grouped.get(key, ()), value)
    return grouped
