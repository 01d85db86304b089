# SPDX-License-Identifier: Apache-2.0
"""A number of its own for each process on a machine.

oslo.messaging can name queues after their process (`use_queue_manager`), so that a service that starts again finds
its own. Two processes of one name would share a queue then, and each would hear half of what is told to all.
oslo.messaging tells the members of a process group apart, and no others: neither our workers, which have groups of
their own, nor two schedulers on a machine.
"""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path

from roost.errors import OptionError

_held: dict[tuple[Path, str], int] = {}
"""Numbers of this process. Each is the lock of a file that stays open, until the process ends."""


def own_number(folder: Path, name: str) -> int:
    """The lowest that no other living process of this name has. `folder` is where they agree on it."""
    if (folder, name) not in _held:
        _held[folder, name] = next(number for number in count(1) if _take(folder / f"{name}.{number}.lock"))
    return _held[folder, name]


def have_a_group() -> None:
    """Make sure that there is a process which our process group is named after: oslo.messaging asks how old it is.

    Whoever was started in the background, by a shell that has ended, is in the group of that shell.
    """
    if not Path(f"/proc/{os.getpgrp()}").exists():
        os.setpgid(0, 0)


def _take(file: Path) -> bool:
    """Whether it was nobody's."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(file, os.O_CREAT | os.O_WRONLY, mode=0o600)
    except OSError as error:
        problem = f"[oslo_concurrency] lock_path: {file.parent} cannot be used: {error.strerror}"
        raise OptionError(problem, "name a folder that this user may write to") from None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return False
    return True
