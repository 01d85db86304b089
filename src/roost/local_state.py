# SPDX-License-Identifier: Apache-2.0
"""Folders with the state of a cloud on this machine: where they are, whose they are, and files in them."""

from __future__ import annotations

import fcntl
import os
import shlex
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from roost.errors import BadInput

OTHER_FOLDER = "choose another --state-dir"
"""What to do about a folder that cannot be used."""


def user_state_folder(environment: Mapping[str, str] = os.environ, usual: Path | None = None) -> Path:
    """$XDG_STATE_HOME; where that is not set, or not a full path: `usual`, by default ~/.local/state."""
    named = environment.get("XDG_STATE_HOME", "")
    if os.path.isabs(named):
        return Path(named)
    return usual or Path(os.path.expanduser("~"), ".local", "state")


def with_state_dir(command: str, folder: Path, usual: Path) -> str:
    """The command for this folder: with --state-dir, unless it is the usual one."""
    path = os.path.abspath(folder)
    return command if path == os.path.abspath(usual) else f"{command} --state-dir {shlex.quote(path)}"


def claim_folder(path: Path, command: str, mode: int, lock_name: str, is_ours: Callable[[], bool]) -> None:
    """Make the folder if there is none. BadInput if it cannot be used, or has files that are not those of `command`.

    `is_ours`: whether one that has more files than a lock is.
    """
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        names = sorted(each.name for each in path.iterdir() if each.name != lock_name)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"{path} is not a folder", OTHER_FOLDER) from None
    except OSError as error:
        raise BadInput(f"{error.filename or path}: cannot be used: {error.strerror}", OTHER_FOLDER) from None
    if names and not is_ours():
        problem = f"{path} has other files, such as {names[0]}: it is not one of `{command}`"
        raise BadInput(problem, "choose an empty or new --state-dir")


def take_lock(file: Path, refusal: Callable[[str], BadInput]) -> int:
    """Lock a file and write our pid to it; returns its descriptor, whose closing unlocks it.

    `refusal` makes the error where another process has it, given the pid of that process.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError:
        pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise refusal(pid) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_in_one_step(file: Path, text: str) -> None:
    """Write a file that only its user can read: a reader sees all of it, or what was there before."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as target:
            target.write(text)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
