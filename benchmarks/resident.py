# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.resident FILE`: bytes by which this process grows when it loads the fleet of a workload."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from benchmarks.inputs import fleet_document
from benchmarks.workload import read_workload

from roost import Fleet


def resident_bytes() -> int:
    """Memory that this process holds now."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main(path: str) -> None:
    document = fleet_document(read_workload(Path(path)))
    before = resident_bytes()
    fleet = Fleet.load(document)
    print(resident_bytes() - before)
    del fleet  # so that it is there while the second reading is made


if __name__ == "__main__":
    main(sys.argv[1])
