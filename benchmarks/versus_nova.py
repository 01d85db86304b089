# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks/versus_nova.py`: compares nova 34.0.0 and Roost on equal hosts and requests, on one core.

Exit status: 0 when both chose the same host for every request, 1 when not, 2 when nothing could be run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":
    # Read when numpy is imported: the figures are those of one core.
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.suite import progress_bar
from benchmarks.versus_fleet import FILTERS, WEIGHERS
from benchmarks.versus_measuring import Advance, Case, Contest, Nova, NovaProcess, load_steps
from benchmarks.versus_report import as_document, differences, is_same, print_report, save
from conformance.asking import OracleError
from conformance.nova_env import ensure_nova
from conformance.run import BUILD

from roost.errors import BadInput, nearest

SIZES = (100, 1_000, 10_000, 100_000)
FEWEST_REQUESTS = 5
_REQUESTS = ((100, 200), (1_000, 60), (10_000, 20))
"""Hosts -> requests that are put to nova; at 100,000 hosts each takes many seconds."""


def main(arguments: Sequence[str], start_nova: Callable[[], AbstractContextManager[Nova]] | None = None) -> int:
    """Run the comparison and print or save the report; returns the exit status."""
    try:
        parsed = make_parser().parse_args(arguments)
        cases = choose_cases(parsed)
        if parsed.save and not parsed.save.is_dir():
            raise BadInput(f"--save: there is no folder {parsed.save}")
        document = run(cases, start_nova or nova_starter())
        if parsed.save:
            save(document, parsed.save)
    except (BadInput, OracleError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if parsed.format == "json":
        print(json.dumps(document, indent=2))
    else:
        print_report(document)
    for line in differences(document):
        print(line, file=sys.stderr)
    return 0 if is_same(document) else 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(message)


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = _Parser(prog="benchmarks/versus_nova.py", description="The same requests to nova and to Roost.")
    sizes, sets = ",".join(map(str, SIZES)), ",".join(FILTERS)
    parser.add_argument("--sizes", default=sizes, metavar="N,N", help="numbers of hosts (default: %(default)s)")
    parser.add_argument("--filters", default=sets, metavar="SET,SET", help="which filters (default: %(default)s)")
    parser.add_argument("--requests", metavar="N", help="put to nova at each size (default: 200 to 5)")
    parser.add_argument("-f", "--format", choices=("table", "json"), default="table")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="write numbers, figure and table there")
    return parser


def choose_cases(parsed: argparse.Namespace) -> list[Case]:
    """The comparisons to run, sorted by number of hosts. Streams use only the default filters."""
    sizes = sorted({whole_number("--sizes", text, 1) for text in parsed.sizes.split(",")})
    wanted = parsed.filters.split(",")
    for name in wanted:
        if name not in FILTERS:
            raise BadInput(f"--filters: there is no set {name!r}", nearest(name, FILTERS) or ", ".join(FILTERS))
    asked = None if parsed.requests is None else whole_number("--requests", parsed.requests, FEWEST_REQUESTS)
    return [
        Case(hosts, kind, filters, asked or requests_for(hosts))
        for hosts in sizes
        for kind, filters in [*(("cold", name) for name in FILTERS), ("stream", "default")]
        if filters in wanted
    ]


def whole_number(option: str, text: str, least: int) -> int:
    """Parse the value of an option as an integer of at least `least`."""
    if not text.strip().isdecimal() or int(text) < least:
        raise BadInput(f"{option}: {text!r} is no whole number of at least {least}")
    return int(text)


def requests_for(hosts: int) -> int:
    """The number of requests that are put to nova for this number of hosts."""
    return next((count for most, count in _REQUESTS if hosts <= most), FEWEST_REQUESTS)


def nova_starter() -> Callable[[], NovaProcess]:
    """A function that starts nova in its own environment, which is created where it is missing."""
    python = ensure_nova(BUILD / "nova-env")
    return lambda: NovaProcess(python)


def run(cases: Sequence[Case], start_nova: Callable[[], AbstractContextManager[Nova]]) -> dict[str, Any]:
    """The results of all cases. Each size gets a new nova process, so that garbage of one cannot slow the next."""
    by_size = [(hosts, list(group)) for hosts, group in groupby(cases, key=lambda case: case.hosts)]
    total = sum(load_steps(hosts) for hosts, _ in by_size) + sum(case.steps for case in cases)
    results: list[dict[str, Any]] = []
    about: dict[str, Any] = {}
    with progress_bar("starting", 0, total) as bar:
        show = partial(bar.update, bar.task_ids[0], refresh=True)
        for hosts, group in by_size:
            show(description=f"{hosts:,} hosts")
            with start_nova() as nova:
                about, measured = measure_size(hosts, group, nova, partial(show, advance=1))
                results += measured
    return as_document(about, results)


def measure_size(
    hosts: int, cases: Sequence[Case], nova: Nova, advance: Advance
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The versions that nova reports, and the results at one number of hosts."""
    contest = Contest(hosts, nova, advance)
    about = {
        "nova": contest.about_nova["release"],
        "python": contest.about_nova["python"],
        "machine": machine(),
        "filters": {name: list(rules) for name, rules in FILTERS.items()},
        "weighers": list(WEIGHERS),
    }
    return about, [contest.measure(case) for case in cases]


def machine() -> str:
    """The processor, as the kernel names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


if __name__ == "__main__":
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sys.exit(main(sys.argv[1:]))
