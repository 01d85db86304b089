# SPDX-License-Identifier: Apache-2.0
"""Notifies systemd of the state of the service (Type=notify, WatchdogSec=), over the socket NOTIFY_SOCKET.

States: `READY=1` (started), `STATUS=...` (shown by `systemctl status`), `WATCHDOG=1` (heartbeat), `reloading()` and
then `READY=1` around a reload, `STOPPING=1`.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping

SEND_TIMEOUT_SECONDS = 1.0


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send this state; returns whether it was sent. Does nothing without systemd, and never raises."""
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # an abstract socket of Linux: no file, its name begins with a zero byte
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(SEND_TIMEOUT_SECONDS)
            sender.sendto(state.encode(errors="replace"), address)
    except (OSError, ValueError):
        return False
    return True


def reloading() -> str:
    """The state to send before a reload; READY=1 ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}"


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Seconds within which systemd expects WATCHDOG=1; None where it expects none of this process."""
    microseconds, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not _is_number(microseconds) or int(microseconds) == 0:
        return None
    if process and process != str(os.getpid()):
        return None
    return int(microseconds) / 1_000_000


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
