# SPDX-License-Identifier: Apache-2.0
"""A number for each process that no other process on the machine has.

oslo.messaging can name queues after their process (`use_queue_manager`), so that a restarted service finds its queues
again. Two processes of the same name would share a queue, and each would get half of the casts to all servers.
oslo.messaging itself distinguishes only members of one process group: neither our workers, which have groups of their
own, nor two schedulers on a machine.
"""

from __future__ import annotations

import fcntl
import os
from itertools import count
from pathlib import Path

from roost.errors import OptionError

_held: dict[tuple[Path, str], int] = {}
"""Numbers that this process has taken. Each is a locked file that stays open until the process ends."""


def take_process_number(folder: Path, name: str) -> int:
    """The lowest number, from 1, that no other living process of this name has. `folder` holds the lock files."""
    if (folder, name) not in _held:
        _held[folder, name] = next(number for number in count(1) if _try_lock(folder / f"{name}.{number}.lock"))
    return _held[folder, name]


def ensure_process_group() -> None:
    """Make this process the leader of a new process group where the leader of its group has ended.

    oslo.messaging reads the leader's start time. A process that was started in the background by a shell that has
    ended is still in the group of that shell.
    """
    if not Path(f"/proc/{os.getpgrp()}").exists():
        os.setpgid(0, 0)


def _try_lock(file: Path) -> bool:
    """Lock the file until this process ends; returns False where another process holds the lock."""
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
