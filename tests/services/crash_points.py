# SPDX-License-Identifier: Apache-2.0
"""The command `roost`, with points at which a process kills itself: `python crash_points.py FOLDER service ...`.

A point is armed by a file in the folder that is named for it, such as `compute.before.FakeDriver.spawn`. The process
that gets there first removes the file and is gone, as if by kill -9.
"""

import functools
import importlib
import os
import signal
import sys
from pathlib import Path

METHODS = {
    "conductor": (
        "roost.messages.dispatcher:ServerMessages.wake",
        "roost.messages.scheduler_client:SchedulerClient.select_destinations",
        "roost.records.servers:ServerStore.advance",
    ),
    "scheduler": ("roost.ledger.ledger:Ledger.claim", "roost.ledger.ledger:Ledger.claim_and_move"),
    "compute": (
        "roost.compute.drivers.fake:FakeDriver.spawn",
        "roost.compute.drivers.fake:FakeDriver.live_migrate",
        "roost.compute.drivers.fake:FakeDriver.power_off",
        "roost.compute.drivers.fake:FakeDriver.destroy",
        "roost.messages.dispatcher:ServerMessages.wake",
        "roost.records.servers:ServerStore.advance",
    ),
}
POINTS = [
    f"{service}.{moment}.{method.partition(':')[2]}"
    for service, methods in METHODS.items()
    for method in methods
    for moment in ("before", "after")
]


def crash_if_armed(file):
    try:
        file.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def install(folder, service):
    """Wrap the methods at which a process of this service may be killed."""
    for path in METHODS[service]:
        module, _, name = path.partition(":")
        owner, _, method = name.partition(".")
        wrap(getattr(importlib.import_module(module), owner), method, folder, f"{service}.{{}}.{name}")


def wrap(owner, method, folder, point):
    inner = getattr(owner, method)
    before, after = folder / point.format("before"), folder / point.format("after")

    @functools.wraps(inner)
    def crashing(*arguments, **named):
        crash_if_armed(before)
        answer = inner(*arguments, **named)
        crash_if_armed(after)
        return answer

    setattr(owner, method, crashing)


if __name__ == "__main__":
    from roost.cli.main import main

    install(Path(sys.argv[1]), sys.argv[3])
    sys.exit(main(sys.argv[2:]))
