# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: T201 - a command that prints
"""`python fuzz/api.py`: generated requests to the API of a whole cloud, for ten minutes.

Fails (exit 1) at the first answer that is a 5xx or not as published, and prints the request. Environment variables:
SECONDS is the time, SEED repeats a run.
"""

from __future__ import annotations

import itertools
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich.progress import Progress
from tests.api.cloud import ApiCloud
from tests.api.generated_requests import FailureGroup, known_values, operations, try_operation

REQUESTS_AT_ONCE = 20
"""Generated for an operation before the next one has its turn."""


def run(cloud: ApiCloud, seed: int, seconds: float) -> int:
    """Try all operations in turn until the time is over; returns how many requests were sent."""
    end, sent = time.monotonic() + seconds, 0
    with Progress(disable=not sys.stdout.isatty()) as progress:
        task = progress.add_task("fuzz of the API", total=seconds)
        for turn in itertools.count():
            found, known = operations(cloud), known_values(cloud)
            for operation in found.values():
                left = end - time.monotonic()
                if left <= 0:
                    return sent
                progress.update(task, completed=seconds - left)
                try_operation(cloud, operation, known, REQUESTS_AT_ONCE, seed + turn)
                sent += REQUESTS_AT_ONCE
    return sent


def main() -> int:
    """Run for the time that the environment variables say; returns 1 if something was found, else 0."""
    seed = int(os.environ.get("SEED") or secrets.randbelow(2**32))
    seconds = float(os.environ.get("SECONDS") or 600)
    print(f"fuzz of the API: seed {seed}, {seconds:g} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="roost-fuzz-") as folder:
        cloud = ApiCloud(Path(folder))
        try:
            sent = run(cloud, seed, seconds)
        except FailureGroup as failures:
            for each in failures.exceptions:
                print(each, file=sys.stderr)
            print(f"again: SEED={seed} python fuzz/api.py", file=sys.stderr)
            return 1
        finally:
            cloud.stop()
    print(f"fuzz of the API: nothing found in about {sent:,} requests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
