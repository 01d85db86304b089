# SPDX-License-Identifier: Apache-2.0
"""The progress bar of commands that work through many items, on stderr, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from roost.cli.output import console


@contextmanager
def progress_bar(is_quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows what is being done, how many items of it are done, and how many there are."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=console(stderr=True),
        transient=True,
        redirect_stdout=False,
        disable=is_quiet or not sys.stderr.isatty(),
    )
    with bar:
        task = bar.add_task("", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)
