# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks/run.py [NAME ...]`: measure the workloads on one core, one JSON object per line.

This file only prepares the process; the work is in `suite.py`.
"""

import os
import sys
from pathlib import Path

# Read when numpy is imported: the figures are those of one core.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.suite import main

if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sys.exit(main(sys.argv[1:]))
