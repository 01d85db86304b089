# SPDX-License-Identifier: Apache-2.0
"""The report of the comparison with nova: a table, JSON data, and the page of the docs.

`python benchmarks/versus_report.py` writes the table and the figure of the page from the saved JSON data.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.versus_figure import draw
from rich import box
from rich.console import Console
from rich.table import Table

DOCS = Path(__file__).resolve().parents[1] / "docs" / "explanation"
NUMBERS, FIGURE, PAGE = "versus.json", "versus.svg", "versus-nova.md"
_PART_OF_PAGE = re.compile(r"(<!-- begin: written from versus.json -->\n).*(<!-- end -->\n)", re.DOTALL)

COLUMNS = ("hosts", "requests", "time", "nova ms", "p99", "Roost ms", "p99", "ratio", "same")
NOTES = (
    "nova's time: HostManager.get_filtered_hosts and get_weighed_hosts; in a stream also consume_from_request.",
    "Not in nova's time: finding the hosts with room (placement does that; nova is given only those), the database, "
    "messages, building HostState and RequestSpec objects, claims, alternates, logging (errors only).",
    "max_placement_results is not applied: with its default of 1,000, nova would look at 1,000 of the hosts at most.",
    "Roost's time: Pipeline.place: capacity, filter, weigh, choose, consume, and the Decision that explains it.",
    "Not in Roost's time: building the table, the pipeline and the request.",
    "cold: each request to a pipeline that has seen none, hosts as they were at first. nova never keeps anything.",
    "stream: one request after the other, each consumed. nova is put the first of them; Roost all of them, in five "
    "runs. Each of nova's requests sees the capacity that is left at that moment.",
    "Both: the same Python, one core, one thread, all weighers of nova 34 with their default multipliers, the same "
    "hosts in the same order. The garbage collector is on; what the harness leaves behind is collected beforehand.",
    "same: requests that went to the same host, of those put to both. p99 of fewer than 100 requests is the longest.",
)


class Expected(NamedTuple):
    """A bound on the speedup of Roost over nova, the ratio of the medians of CPU time."""

    hosts: int
    kind: str
    filters: str
    at_least: int


EXPECTED = (
    Expected(10_000, "cold", "default", 500),
    Expected(10_000, "stream", "default", 10_000),
    Expected(100_000, "cold", "default", 1_000),
)


def as_document(about: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The report as JSON data, whose keys are stable. `about`: releases, machine, rules."""
    rated = [{**each, "ratio": ratios(each)} for each in results]
    return {**about, "results": rated, "expectations": list(judge(rated)), "notes": list(NOTES)}


def ratios(result: Mapping[str, Any]) -> dict[str, float]:
    """Median of nova divided by the median of Roost, for CPU and wall-clock time."""
    return {
        clock: round(result["nova"][f"{clock}_ms"]["median"] / result["roost"][f"{clock}_ms"]["median"], 1)
        for clock in ("cpu", "wall")
    }


def judge(results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """The expectations on the measured results, and whether they are met."""
    for expected in EXPECTED:
        for result in results:
            if (result["hosts"], result["kind"], result["filters"]) == expected[:3]:
                measured = result["ratio"]["cpu"]
                yield {**expected._asdict(), "measured": measured, "ok": measured >= expected.at_least}


def is_same(document: Mapping[str, Any]) -> bool:
    """Whether nova and Roost chose the same host for every request."""
    return all(each["same"] == each["compared"] for each in document["results"])


def rows(document: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Table rows, two per result: CPU time, then wall-clock time."""
    for each in document["results"]:
        for clock in ("cpu", "wall"):
            by_side = (each[side][f"{clock}_ms"] for side in ("nova", "roost"))
            times = (shown_ms(figures[measure]) for figures in by_side for measure in ("median", "p99"))
            is_first = clock == "cpu"
            yield (
                f"{each['hosts']:,}" if is_first else "",
                f"{each['kind']}, {each['filters']}" if is_first else "",
                clock,
                *times,
                f"{each['ratio'][clock]:,.0f}x",
                f"{each['same']}/{each['compared']}" if is_first else "",
            )


def shown_ms(time_ms: float) -> str:
    """Milliseconds as text with three significant digits, or all digits before the point."""
    decimals = 0 if time_ms >= 100 else 1 if time_ms >= 10 else 2 if time_ms >= 1 else 3
    return f"{time_ms:,.{decimals}f}"


def verdicts(document: Mapping[str, Any]) -> Iterator[str]:
    """A line of text per expectation, then one on whether the choices are the same."""
    for each in document["expectations"]:
        measured = f"{each['measured']:,.0f}x by CPU time, at least {each['at_least']:,}x expected"
        yield f"{_word(each['ok'])}: {name_of(each)}: {measured}"
    same, compared = (sum(each[name] for each in document["results"]) for name in ("same", "compared"))
    yield f"{_word(same == compared)}: the same host for {same:,} of {compared:,} requests"


def name_of(result: Mapping[str, Any]) -> str:
    return f"{result['hosts']:,} hosts, {result['kind']}, {result['filters']} filters"


def _word(is_ok: bool) -> str:
    return "ok" if is_ok else "not ok"


def differences(document: Mapping[str, Any]) -> Iterator[str]:
    """A line of text per request for which nova and Roost chose different hosts."""
    for each in document["results"]:
        for one in each["differences"]:
            yield f"differs: {name_of(each)}, request {one['request']}: nova {one['nova']}, Roost {one['roost']}"


def title_of(document: Mapping[str, Any]) -> str:
    return f"nova {document['nova']} and Roost, Python {document['python']}, one core of {document['machine']}"


def print_report(document: Mapping[str, Any]) -> None:
    """Print the table, the expectations, and what the times include."""
    table = Table(title=title_of(document), title_justify="left", box=box.SIMPLE_HEAD, padding=0)
    for at, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if at in (1, 2) else "right", no_wrap=True)
    for number, row in enumerate(rows(document), start=1):
        table.add_row(*row, end_section=number % 2 == 0)
    console = Console(highlight=False, markup=False)
    console.print(table)
    for line in (*verdicts(document), "", *NOTES):
        console.print(line, soft_wrap=not console.is_terminal)


def as_markdown(document: Mapping[str, Any]) -> str:
    """The generated part of the page, as Markdown."""
    lines = [
        f"{title_of(document)}; medians in milliseconds.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        f"|{'|'.join(' --- ' if at in (1, 2) else ' ---: ' for at in range(len(COLUMNS)))}|",
        *(f"| {' | '.join(row)} |" for row in rows(document)),
        "",
        *(f"- {line}" for line in verdicts(document)),
    ]
    return "\n".join(lines) + "\n"


def save(document: Mapping[str, Any], folder: Path) -> None:
    """Write the JSON data and the figure to a folder, and the table into the page if the folder has it."""
    (folder / NUMBERS).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    draw_again(folder)


def draw_again(folder: Path) -> None:
    """Write the figure and the table from the JSON data in a folder."""
    document = json.loads((folder / NUMBERS).read_text(encoding="utf-8"))
    (folder / FIGURE).write_text(draw(document), encoding="utf-8")
    page = folder / PAGE
    if page.exists():
        page.write_text(with_table(page.read_text(encoding="utf-8"), document), encoding="utf-8")


def with_table(page: str, document: Mapping[str, Any]) -> str:
    """The text of the page with its generated part replaced."""
    return _PART_OF_PAGE.sub(lambda found: f"{found[1]}\n{as_markdown(document)}\n{found[2]}", page)


if __name__ == "__main__":
    draw_again(DOCS)
