# SPDX-License-Identifier: Apache-2.0
"""Command blocks in the pages of the docs: finds them, runs the commands, and updates the pasted output.

A block starts with `$ roost ...`, followed by what the command prints on stdout and stderr. A line `...` in the
output stands for any number of lines. `tests/docs` runs all of them.

    python docs/_commands.py README.md docs/tutorial/*.md    update the output in these pages
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from roost.cli.main import main

ROOT = Path(__file__).parents[1]
ELLIPSIS = "..."

_BLOCK = re.compile(r"^```(?:console|sh|shell)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d[\d.,]* (ms|us|µs|s)\b")


@dataclass(frozen=True)
class CommandBlock:
    """A command in a page, and the output pasted below it."""

    command: str
    output: str


def shown_commands(page: str) -> list[CommandBlock]:
    """All blocks of roost commands in a page, in order."""
    return [_parse(match["body"]) for match in _BLOCK.finditer(page) if _is_command(match["body"])]


def run(command: str) -> str:
    """Run a command in the root of the repository; what it prints on stdout and stderr."""
    printed = io.StringIO()
    arguments = shlex.split(command)[1:]
    no_exit = contextlib.suppress(SystemExit)  # raised by argparse
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.chdir(ROOT), no_exit:
        main(arguments)
    return "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())


def without_times(output: str) -> str:
    """The output with every duration replaced by a placeholder, because durations differ from run to run."""
    return _TIME.sub(r"TIME \1", output)


def is_same(pasted: str, printed: str) -> bool:
    """Whether the pasted output equals the printed one, except for durations and lines left out by `...`."""
    pieces = [re.escape(line) for line in without_times(pasted).splitlines()]
    pattern = "".join("(?:.*\n)*?" if piece == re.escape(ELLIPSIS) else f"{piece}\n" for piece in pieces)
    return re.fullmatch(pattern, without_times(printed)) is not None


def with_fresh_output(page: str) -> str:
    """The page with current output below each command; elided output is left as it is."""

    def renew(match: re.Match[str]) -> str:
        body = match["body"]
        if not _is_command(body):
            return match[0]
        block = _parse(body)
        if is_same(block.output, run(block.command)) or ELLIPSIS in block.output.splitlines():
            return match[0]
        prompt = body.splitlines()[0]
        return match[0].replace(body, f"{prompt}\n{run(block.command)}")

    return _BLOCK.sub(renew, page)


def _is_command(body: str) -> bool:
    return body.startswith(("$ roost ", "roost "))


def _parse(body: str) -> CommandBlock:
    prompt, _, output = body.partition("\n")
    return CommandBlock(prompt.removeprefix("$ "), output)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_fresh_output(path.read_text(encoding="utf-8")), encoding="utf-8")
