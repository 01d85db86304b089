# SPDX-License-Identifier: Apache-2.0
"""`make conformance SEED=1 N=1000`: compare the answers of the real nova and of Roost to random cases.

Exit status: 0 when all answers are equal or differ for a known reason, 1 when not, 2 when nova cannot be run.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from conformance.asking import OracleError, ask_nova, ask_roost
from conformance.gen_cases import FOCI, gen_case
from conformance.nova_env import NOVA, ensure_nova
from conformance.tally import Tally, Verdict, describe, judge

BUILD = Path(__file__).resolve().parents[1] / "build"
Asked = tuple[dict[str, Any], dict[str, Any]]
"""A case, and nova's answer to it."""


def main(arguments: list[str] | None = None) -> int:
    """Compare the answers to generated or saved cases and print a report; returns the exit status."""
    chosen = make_parser().parse_args(arguments)
    try:
        asked, total = read_asked(chosen.replay) if chosen.replay else make_asked(chosen)
        verdicts = [judge(case, nova, ask_roost(case)) for case, nova in show_progress(asked, total, chosen.quiet)]
    except OracleError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return 2
    report(verdicts, f"Roost and {NOVA}: {chosen.replay or f'seed {chosen.seed}'}, {total} cases")
    if not chosen.replay:
        save(verdicts, BUILD / f"conformance-{chosen.seed}.jsonl")
    return int(any(verdict.is_unexplained for verdict in verdicts))


def make_parser() -> argparse.ArgumentParser:
    """The parser of the command's arguments."""
    parser = argparse.ArgumentParser(prog="python -m conformance.run", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="1", help="the same seed makes the same cases (default: 1)")
    parser.add_argument("-n", type=int, default=1000, metavar="CASES", help="how many (default: 1000)")
    parser.add_argument("--focus", choices=FOCI, metavar="NAME", help="aim every case at this filter or weigher")
    parser.add_argument("--processes", type=int, default=2, help="of nova, side by side (default: 2)")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="compare with answers saved earlier; nova is not asked"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def make_asked(chosen: argparse.Namespace) -> tuple[Iterator[Asked], int]:
    """An iterator of new cases with the answers of nova, and their number."""
    python = ensure_nova(BUILD / "nova-env")
    cases = [gen_case(number, chosen.seed, 12, chosen.focus) for number in range(chosen.n)]
    return zip(cases, ask_nova(cases, python, chosen.processes), strict=True), len(cases)


def read_asked(path: Path) -> tuple[Iterator[Asked], int]:
    """An iterator of the cases and answers in a file that `save` wrote, and their number."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return ((record["case"], record["answer"]) for record in records), len(records)


def show_progress(asked: Iterable[Asked], total: int, is_quiet: bool) -> Iterable[Asked]:
    """The cases, with a progress bar if stderr is a terminal."""
    console = Console(stderr=True)
    return track(asked, "asking", total, console=console, transient=True, disable=is_quiet or not console.is_terminal)


def report(verdicts: list[Verdict], title: str) -> None:
    """Print the table, a line per difference, and a summary."""
    console, tally = Console(highlight=False, markup=False), Tally()
    for verdict in verdicts:
        tally.add(verdict)
    console.print(tally.table(title))
    for verdict in verdicts:
        for difference, reason in verdict.differences:
            console.print(describe(difference, reason), soft_wrap=True)
    unexplained = sum(verdict.is_unexplained for verdict in verdicts)
    explained = sum(bool(verdict.differences) for verdict in verdicts) - unexplained
    console.print(f"{len(verdicts)} cases: {unexplained} differ, {explained} more differ by known defects of nova")


def save(verdicts: list[Verdict], path: Path) -> None:
    """Write the differing cases with nova's answers to a file for --replay, in the format of recorded cases."""
    records = [{"case": verdict.case, "answer": verdict.nova} for verdict in verdicts if verdict.differences]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    if records:
        print(f"to replay: .venv/bin/python -m conformance.run --replay {os.path.relpath(path)}")


if __name__ == "__main__":
    sys.exit(main())
