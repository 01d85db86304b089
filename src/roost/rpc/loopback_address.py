# SPDX-License-Identifier: Apache-2.0
"""Where the Unix socket of a development cloud is: in its state directory, by default below the user's own."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from roost.local_state import user_state_folder

VARIABLE = "ROOST_DEV_STATE"
"""Environment variable that names the state directory, for `roost dev` and for its clients."""
SOCKET_NAME = "roost.sock"
LONGEST_PATH_BYTES = 107
"""Longest path of a Unix socket on Linux, without the byte that ends it."""
CONNECT_SECONDS = 2.0


def default_state_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of `roost dev`: $ROOST_DEV_STATE, or else roost/dev below $XDG_STATE_HOME or ~/.local/state."""
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    return user_state_folder(environment) / "roost" / "dev"


def find_dev_cloud(state_directory: Path | None = None) -> Path | None:
    """The socket of the cloud that `roost dev` runs in a state directory (default: the user's); None if none runs."""
    path = (state_directory or default_state_directory()) / SOCKET_NAME
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(CONNECT_SECONDS)
        try:
            probe.connect(os.fspath(path))
        except (OSError, ValueError):  # no file, no server behind it, no right to use it, a path that is too long
            return None
    return path
