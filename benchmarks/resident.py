# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.resident FILE`: prints the bytes by which this process grows when it loads a fleet.

Where the workload has requests, the growth includes a scheduler that has placed them one by one.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleets import make_fleet
from benchmarks.inputs import make_requests, scheduler_options
from benchmarks.measuring import place
from benchmarks.workload import Workload, read_workload

from roost import Fleet, RequestSpec, Scheduler


def resident_bytes() -> int:
    """Resident set size of this process in bytes, after a garbage collection."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main(path: str) -> None:
    workload = read_workload(Path(path))
    requests = make_requests(workload.requests, workload.seed) if workload.requests else []
    before = resident_bytes()
    fleet = make_fleet(workload)
    scheduler = serve(fleet, workload, requests)
    print(resident_bytes() - before)
    del fleet, scheduler  # keep them alive until the second reading


def serve(fleet: Fleet, workload: Workload, requests: Sequence[RequestSpec]) -> Scheduler | None:
    """A scheduler that has placed these requests; None where there are none."""
    if not requests:
        return None
    scheduler = Scheduler(fleet, scheduler_options(workload), seed=workload.seed)
    for spec in requests:
        place(scheduler, spec)
    return scheduler


if __name__ == "__main__":
    main(sys.argv[1])
