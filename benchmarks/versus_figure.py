# SPDX-License-Identifier: Apache-2.0
"""The figure of docs/explanation/versus-nova.md: time of a request over the number of hosts, log-log."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.figure import BEST, COLOUR, WIDTH

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 430, 80, 190, 56, 60
TITLE = "Time of one request, median of CPU time"
_LABEL_GAP = 18


class Line(NamedTuple):
    """A curve: one kind of request, with nova or Roost."""

    side: str
    kind: str
    filters: str
    colour: str
    label: str = ""

    @property
    def dashes(self) -> str:
        return "" if self.filters == "default" else ' stroke-dasharray="5 4"'


LINES = (
    Line("nova", "cold", "default", "#b5503c", "nova"),
    Line("nova", "cold", "14", "#b5503c"),
    Line("roost", "cold", "default", BEST, "Roost, cold"),
    Line("roost", "cold", "14", BEST),
    Line("roost", "stream", "default", COLOUR, "Roost, in a stream"),
)
Point = tuple[float, float]


class Scale:
    """A logarithmic axis: maps values to pixels from `start` to `end`."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.least = math.floor(math.log10(min(values)))
        self.most = max(math.ceil(math.log10(max(values))), self.least + 1)
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        share = (math.log10(value) - self.least) / (self.most - self.least)
        return self.start + share * (self.end - self.start)

    def powers(self) -> list[float]:
        return [10.0**power for power in range(self.least, self.most + 1)]


def draw(document: Mapping[str, Any]) -> str:
    """The figure as SVG."""
    drawn = [(line, found) for line in LINES if (found := points(document, line))]
    hosts = Scale([count for _, found in drawn for count, _ in found], LEFT, WIDTH - RIGHT)
    times = Scale([time_ms for _, found in drawn for _, time_ms in found], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="14" '
        'font-family="sans-serif">',
        f"<title>{TITLE}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="28" font-size="16" font-weight="bold">{TITLE}</text>',
        *axes(hosts, times),
    ]
    ends = []
    for line, found in drawn:
        spots = [(hosts.at(count), times.at(time_ms)) for count, time_ms in found]
        parts += curve(line, spots)
        if line.label:
            ends.append((spots[-1], line))
    return "\n".join([*parts, *labels(ends), "</svg>", ""])


def points(document: Mapping[str, Any], line: Line) -> list[Point]:
    """(hosts, median CPU time in ms) of one curve, sorted by hosts."""
    return sorted(
        (each["hosts"], each[line.side]["cpu_ms"]["median"])
        for each in document["results"]
        if (each["kind"], each["filters"]) == (line.kind, line.filters)
    )


def axes(hosts: Scale, times: Scale) -> Iterator[str]:
    """Grid lines and labels at the powers of ten."""
    for time_ms in times.powers():
        y = times.at(time_ms)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{shown_time(time_ms)}</text>'
    for count in hosts.powers():
        x = hosts.at(count)
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#eeeeee"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{count:,.0f}</text>'
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield f'<text x="{middle:.0f}" y="{HEIGHT - 14}" text-anchor="middle">hosts; dashed: 14 filters</text>'


def shown_time(time_ms: float) -> str:
    """A time as text in s, ms or µs, whichever gives a whole number."""
    if time_ms >= 1000:
        return f"{time_ms / 1000:.0f} s"
    return f"{time_ms:.0f} ms" if time_ms >= 1 else f"{time_ms * 1000:.0f} µs"


def curve(line: Line, spots: Sequence[Point]) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
    yield f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{line.dashes}/>'
    for x, y in spots:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>'


def labels(ends: Sequence[tuple[Point, Line]]) -> Iterator[str]:
    """The label at the end of each curve, moved down where it would overlap another."""
    lowest = -math.inf
    for (x, y), line in sorted(ends):
        lowest = max(y + 5, lowest + _LABEL_GAP)
        yield f'<text x="{x + 10:.1f}" y="{lowest:.1f}" fill="{line.colour}">{line.label}</text>'
