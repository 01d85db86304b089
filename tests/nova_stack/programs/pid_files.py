# SPDX-License-Identifier: Apache-2.0
"""Files that name a process: its pid, when it began, and the signal that ends it in good order."""

import signal
from pathlib import Path


def write_pid(directory, name, pid, stop=signal.SIGTERM):
    """`pids/NAME`: what `end` needs to end this process, and no later one with the same pid."""
    (Path(directory) / "pids" / name).write_text(f"{pid} {start_time(pid)} {int(stop)}")


def start_time(pid):
    """When a living process began, in clock ticks; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return fields[19] if fields[0] != "Z" else None
