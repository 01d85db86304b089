# SPDX-License-Identifier: Apache-2.0
"""`make bench BESIDE=COMMIT`: this tree and another commit, measured in turn on one core, as ratios.

The commit gets a worktree and an environment of its own in `build/beside`. In each of five rounds both run the same
workloads, and some commands, one after the other; what else the machine does then affects both. Figures are CPU time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ROOT / "benchmarks" / "workloads"
ROUNDS = 5
MOST_IN_ALL, MOST_OF_ONE = 1.03, 1.10
"""Bounds on the geometric mean of the ratios, and on each."""
NAMES = (
    *("cold-10k", "cold-10k-default", "cold-100k-default", "filters-10k", "weighers-10k", "numa-10k", "pci-10k"),
    *("many-10k", "stream-10k", "trace-10k", "group-5k", "nowhere-10k", "explain-10k", "headroom-10k"),
)
FIGURES = {"trace": "us_per_decision", "explain": "blockers_us", "cold": "median_us", "stream": "median_us"}
RATES = {"group": "members_per_second", "headroom": "per_second"}
"""Kind of workload -> the figure that counts; of rates, the reciprocal."""
COMMANDS: Mapping[str, Sequence[str]] = {
    "import Scheduler": ("-c", "from roost import Scheduler"),
    "roost --help": ("-m", "roost", "--help"),
    "roost place": ("-m", "roost", "place", "--fleet", "examples/fleet.yaml", "--flavor", "small"),
}
RUN = "import sys; from pathlib import Path; from benchmarks.suite import main; main(sys.argv[2:], Path(sys.argv[1]))"


class Side(NamedTuple):
    """A tree with its environment."""

    folder: Path

    def run(self, *arguments: str) -> str:
        """What its Python prints."""
        command = [str(self.folder / ".venv/bin/python"), *arguments]
        return subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.PIPE, text=True).stdout

    def figures(self, workloads: Path, names: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Name of each workload or command -> its time."""
        for line in self.run("-c", RUN, str(workloads), *names).splitlines() if names else ():
            result = json.loads(line)
            if result["name"] in names:
                yield result["name"], figure_of(kind_of(result["name"]), result)
        for name, arguments in COMMANDS.items():
            before = cpu_seconds()
            self.run(*arguments)
            yield name, (cpu_seconds() - before) * 1e6


def main(arguments: Sequence[str]) -> int:
    """Print the table; 1 where a bound is broken, 2 for a commit or workload that does not exist."""
    parser = argparse.ArgumentParser(prog="benchmarks/beside.py", description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="what to compare this tree with")
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads (default: those on one core)")
    parsed = parser.parse_args(arguments)
    names = parsed.names or NAMES
    if unknown := [each for each in names if not (WORKLOADS / f"{each}.yaml").is_file()]:
        parser.error(f"there is no workload {unknown[0]}")
    if unfit := [each for each in names if kind_of(each) not in {**FIGURES, **RATES}]:
        parser.error(f"{unfit[0]} is not measured by the CPU time of one thread")
    try:
        other = prepare(parsed.commit)
    except subprocess.CalledProcessError as error:
        print(f"error: {parsed.commit}: {(error.stderr or str(error)).strip().splitlines()[-1]}", file=sys.stderr)
        return 2
    pin_to_one_core()
    return report(parsed.commit, measure(Side(ROOT), other, names))


def prepare(commit: str) -> Side:
    """The worktree of a commit, with its environment."""
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    folder = ROOT / "build" / "beside" / full[:12]
    if not folder.is_dir():
        git("worktree", "prune")
        git("worktree", "add", "--detach", str(folder), full)
    command = ["make", "--silent", ".venv/.ready"]
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
    return Side(folder)


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def pin_to_one_core() -> None:
    """For this process and those that it starts: numpy takes one thread."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def measure(here: Side, there: Side, names: Sequence[str]) -> dict[str, tuple[list[float], list[float]]]:
    """Name -> the figures of the other commit, and those of this tree, one of each round."""
    found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            write_alone(name, Path(folder))
        for number in range(ROUNDS):
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
            sides = ((0, there), (1, here)) if number % 2 == 0 else ((1, here), (0, there))
            for at, side in sides:
                for name, figure in side.figures(Path(folder), names):
                    found[name][at].append(figure)
    return found


def write_alone(name: str, folder: Path) -> None:
    """A copy of a workload that compares with nothing, refers to no other, and runs once."""
    workload = read(name) | {"expectations": []}
    workload["requests"] = {**workload["requests"], "compare": 0, "repeats": 1}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(workload))


def report(commit: str, found: Mapping[str, tuple[list[float], list[float]]]) -> int:
    table = Table("workload", *(f"{each}, us" for each in (commit, "here")), "ratio", "of each round")
    for column in table.columns[1:4]:
        column.justify = "right"
    ratios = {}
    for name, (there, here) in found.items():
        each = [mine / other for other, mine in zip(there, here, strict=True)]
        ratios[name] = statistics.median(here) / statistics.median(there)
        medians = (f"{statistics.median(times):,.1f}" for times in (there, here))
        table.add_row(name, *medians, f"{ratios[name]:.3f}", f"{min(each):.2f} to {max(each):.2f}")
    Console(width=max(100, Console().width)).print(table)
    mean = math.exp(statistics.fmean(math.log(each) for each in ratios.values()))
    slow = [name for name, ratio in ratios.items() if ratio > MOST_OF_ONE]
    print(f"geometric mean {mean:.3f} (bound {MOST_IN_ALL}); over {MOST_OF_ONE}: {', '.join(slow) or 'none'}")
    return 1 if slow or mean > MOST_IN_ALL else 0


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((WORKLOADS / f"{name}.yaml").read_text())
    return found


def kind_of(name: str) -> str:
    return str(read(name)["kind"])


def figure_of(kind: str, result: Mapping[str, Any]) -> float:
    """The time of a result, in microseconds."""
    return float(result[FIGURES[kind]]) if kind in FIGURES else 1e6 / result[RATES[kind]]


def cpu_seconds() -> float:
    """CPU time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
