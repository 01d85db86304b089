# SPDX-License-Identifier: Apache-2.0
"""The benchmark command: selects and orders workloads, prints a JSON line per result, returns the exit status."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.growth import growth
from benchmarks.measuring import measure
from benchmarks.workload import Expectation, Workload, read_workload
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from roost.errors import BadInput, nearest

WORKLOADS = Path(__file__).parent / "workloads"


def main(arguments: Sequence[str], folder: Path = WORKLOADS) -> int:
    """Run workloads. Returns 0 if all expectations are met and all choices agree, 1 if not, 2 for invalid input."""
    parsed = parse_arguments(arguments)
    try:
        known = {path.stem: read_workload(path) for path in sorted(folder.glob("*.yaml"))}
        wanted = with_needed(parsed.names or known, known)
        if parsed.list:
            for each in wanted:
                print(f"{each.name:20} {each.description}")
            return 0
        verdicts = [print_result(each) for each in run(wanted, known.values())]
        return 0 if all(verdicts) else 1
    except BadInput as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description="Measure workloads on one core.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="workload to run (default: all)")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    return parser.parse_args(arguments)


def with_needed(names: Iterable[str], known: Mapping[str, Workload], waiting: Sequence[str] = ()) -> list[Workload]:
    """The named workloads, each after those its expectations refer to. `waiting`: the chain of references so far."""
    ordered: dict[str, Workload] = {}
    for name in names:
        if name not in known:
            raise BadInput(f"there is no workload {name}", nearest(name, known))
        if name in waiting:
            raise BadInput(f"the expectations of {' and '.join(waiting)} go round in a circle")
        needed = [each.times for each in known[name].expectations if each.times]
        for workload in (*with_needed(needed, known, (*waiting, name)), known[name]):
            ordered.setdefault(workload.name, workload)
    return list(ordered.values())


def run(workloads: Sequence[Workload], known: Collection[Workload] = ()) -> Iterator[dict[str, Any]]:
    """Yield the result of each workload, then the growth exponents if all workloads they need were run."""
    results: dict[str, dict[str, Any]] = {}
    for done, workload in enumerate(workloads):
        with progress_bar(workload.name, done, len(workloads)):
            result = {"name": workload.name, "hosts": workload.hosts.count} | measure(workload)
        results[workload.name] = result
        yield result | {"expectations": [judge(each, result, results) for each in workload.expectations]}
    if found := growth(known, results):
        yield {"name": "growth", **found, "expectations": []}


def progress_bar(name: str, done: int, total: int) -> Progress:
    """A progress bar, shown only on a terminal. Not refreshed while a workload runs: drawing would cost CPU time."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        disable=not sys.stderr.isatty(),
    )
    bar.add_task(name, completed=done, total=total)
    return bar


def judge(expectation: Expectation, result: Mapping[str, Any], results: Mapping[str, Any]) -> dict[str, Any]:
    """An expectation as data: its bound, the measured figure, and whether it is met."""
    measured = result[expectation.measure]
    if expectation.times:
        measured = round(measured / results[expectation.times][expectation.measure], 2)
    return {
        "expectation": str(expectation),
        "bound": expectation.bound,
        "measured": measured,
        "ok": expectation.is_met(measured),
    }


def print_result(result: Mapping[str, Any]) -> bool:
    """Print a result as one line; returns whether the choices agree and all expectations are met."""
    print(json.dumps(result), flush=True)
    return result.get("same_choice", True) and all(each["ok"] for each in result["expectations"])
