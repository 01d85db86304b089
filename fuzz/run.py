# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: S311, T201 - randomness is not used for secrets; a command that prints
"""`python fuzz/run.py`: put random inputs to every parser and check of external values.

Fails (exit 1) at the first input that raises an exception other than RoostError or takes longer than a second, and
prints how to reproduce it. Environment variables: N is the number of inputs, SEED repeats a run, ONLY runs one input.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.inputs import MAKERS
from fuzz.targets import TARGETS
from rich.progress import track

from roost.errors import RoostError

SECONDS = 1.0
"""Limit per input, in CPU time, which does not depend on the load of the machine."""


class TooSlow(Exception):
    """An input took longer than SECONDS."""


@dataclass(frozen=True)
class Failure:
    """An input that raised an unexpected exception or took too long; its text says how to reproduce it."""

    seed: int
    number: int
    kind: str
    value: Any
    problem: str

    def __str__(self) -> str:
        try:
            shown = repr(self.value)
        except (RecursionError, ValueError):
            shown = "(too deep or too large to show)"
        shown = shown if len(shown) <= 2000 else f"{shown[:1000]} ... {len(shown)} characters ... {shown[-500:]}"
        again = f"SEED={self.seed} ONLY={self.number} python fuzz/run.py"
        return f"{self.problem}\n{self.kind}: {shown}\nseed {self.seed}, input {self.number}; again: {again}"


def run(seed: int, numbers: Iterable[int]) -> Failure | None:
    """Run the inputs with these numbers; the first failure, or None. An input depends only on seed and number."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in numbers:
            kind, value = make_input(seed, number)
            problem = problem_with(kind, value)
            if problem:
                return Failure(seed, number, kind, value, problem)
    return None


def make_input(seed: int, number: int) -> tuple[str, Any]:
    """The kind and the value of one input."""
    random = Random(f"{seed}/{number}")
    kind = random.choice(sorted(MAKERS))
    return kind, MAKERS[kind](random)


def problem_with(kind: str, value: Any) -> str:
    """Run one input; the traceback or the excessive time as text, empty on success. A RoostError is a success."""
    started = time.process_time()
    try:
        with _interrupted_after(SECONDS):
            TARGETS[kind](value)
    except RoostError:
        pass
    except Exception:
        return traceback.format_exc()
    spent = time.process_time() - started
    return f"took {spent:.1f} s" if spent > SECONDS else ""


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlow(f"longer than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def main() -> int:
    """Run the inputs that the environment variables select; returns 1 if one failed, else 0."""
    seed = int(os.environ.get("SEED") or secrets.randbelow(2**32))
    count, only = int(os.environ.get("N") or 100_000), os.environ.get("ONLY")
    numbers: Iterable[int] = [int(only)] if only else range(count)
    print(f"fuzz: seed {seed}, {1 if only else count} inputs", flush=True)
    if sys.stdout.isatty() and not only:
        numbers = track(numbers, "fuzz", total=count)
    started = time.perf_counter()
    failure = run(seed, numbers)
    if failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"fuzz: nothing found in {time.perf_counter() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
