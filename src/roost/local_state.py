# SPDX-License-Identifier: Apache-2.0
"""Folders with the state of a cloud on this machine: where they are, and how a command names them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path


def user_state_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """$XDG_STATE_HOME; None where it is not set, or not a full path, which the standard says to ignore."""
    named = environment.get("XDG_STATE_HOME", "")
    return Path(named) if os.path.isabs(named) else None


def with_state_dir(command: str, folder: Path, usual: Path) -> str:
    """The command for this folder: with --state-dir, unless it is the usual one."""
    path = os.path.abspath(folder)
    return command if path == os.path.abspath(usual) else f"{command} --state-dir {shlex.quote(path)}"
