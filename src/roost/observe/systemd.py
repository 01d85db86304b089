# SPDX-License-Identifier: Apache-2.0
"""Tells systemd how the service is (Type=notify, WatchdogSec=), over the socket that it names in the environment.

What to send: `READY=1` (does its work now), `STATUS=...` (shown by `systemctl status`), `WATCHDOG=1` (still alive),
`reloading()` and then `READY=1` around a reload, `STOPPING=1`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

LONGEST_WAIT_SECONDS = 1.0


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send this state; whether it was sent. Without systemd nothing happens; nothing is ever raised."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # Linux's abstract sockets: no file, the name begins with a zero byte
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(LONGEST_WAIT_SECONDS)
            sender.sendto(state.encode(errors="replace"), address)
    except (OSError, ValueError):
        return False
    return True


def reloading() -> str:
    """The state to send before a reload; READY=1 ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Within how many seconds systemd wants to hear WATCHDOG=1; None where it does not ask this process."""
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not _is_number(microseconds) or int(microseconds) == 0:
        return None
    if process and process != str(os.getpid()):
        return None
    return int(microseconds) / 1_000_000


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
