# SPDX-License-Identifier: Apache-2.0
"""The command blocks of our pages: which commands they show, and what those print today.

A block starts with `$ roost ...`; below it stands what the command prints, on either stream. A line `...` in
the output stands for any number of lines. `tests/docs` runs every one of them.

    python docs/_commands.py README.md docs/tutorial/*.md    paste the output anew
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
class Shown:
    """A command on a page, and the output pasted below it."""

    command: str
    output: str


def shown_commands(page: str) -> list[Shown]:
    """Every roost command of a page."""
    return [_take(match["body"]) for match in _BLOCK.finditer(page) if _is_command(match["body"])]


def run(command: str) -> str:
    """What the command prints, stdout and stderr together, as at a shell prompt in the root of the repository."""
    printed = io.StringIO()
    arguments = shlex.split(command)[1:]
    leaves = contextlib.suppress(SystemExit)  # argparse does
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.chdir(ROOT), leaves:
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
    """The page with today's output below each command; what is shortened by hand stays."""

    def renew(match: re.Match[str]) -> str:
        body = match["body"]
        if not _is_command(body):
            return match[0]
        shown = _take(body)
        if is_same(shown.output, run(shown.command)) or ELLIPSIS in shown.output.splitlines():
            return match[0]
        prompt = body.splitlines()[0]
        return match[0].replace(body, f"{prompt}\n{run(shown.command)}")

    return _BLOCK.sub(renew, page)


def _is_command(body: str) -> bool:
    return body.startswith(("$ roost ", "roost "))


def _take(body: str) -> Shown:
    prompt, _, output = body.partition("\n")
    return Shown(prompt.removeprefix("$ "), output)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(with_fresh_output(path.read_text(encoding="utf-8")), encoding="utf-8")
