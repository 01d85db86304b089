# SPDX-License-Identifier: Apache-2.0
"""A progress bar for commands that work through many items."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from roost.cli.output import console


@contextmanager
def progress_bar(what: str, total: int, is_quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """A function that advances a progress bar on stderr; the bar is shown only on a terminal."""
    with _make_bar(is_quiet) as bar:
        task = bar.add_task(what, total=total)
        yield lambda more: bar.advance(task, more)


@contextmanager
def changing_bar(is_quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function that sets a progress bar: what is being done, how many items of it are done, and of how many."""
    with _make_bar(is_quiet) as bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _make_bar(is_quiet: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=is_quiet or not sys.stderr.isatty(),
    )
