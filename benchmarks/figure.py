# SPDX-License-Identifier: Apache-2.0
"""`python benchmarks/figure.py`: draw the figure of docs/explanation/packing.md from the results of a replay.

The results come from `python benchmarks/replay.py -f json > docs/explanation/packing.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NUMBERS = Path(__file__).parents[1] / "docs" / "explanation" / "packing.json"
FIGURE = NUMBERS.with_suffix(".svg")
WIDTH, LABELS, ROW, TOP = 760, 200, 26, 52
COLOUR, BEST = "#8da2b5", "#2f7d4f"


def draw(document: Mapping[str, Any]) -> str:
    """An SVG bar chart with a bar per policy, worst on top: hosts needed in excess of the lower bound."""
    bound = document["bound"]
    policies = sorted(document["policies"], key=lambda each: -each["hosts"])
    longest, fewest = policies[0]["hosts"] - bound, policies[-1]["hosts"]
    scale = (WIDTH - LABELS - 60) / max(1, longest)
    title = f"Hosts needed beyond the bound of {bound}"
    height = TOP + ROW * len(policies) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-family="sans-serif" '
        f'font-size="14">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LABELS}" y="28" font-size="16" font-weight="bold">{title}</text>',
    ]
    for at, each in enumerate(policies):
        extra, y = each["hosts"] - bound, TOP + ROW * at
        colour = BEST if each["hosts"] == fewest else COLOUR
        lines += [
            f'<text x="{LABELS - 10}" y="{y + 15}" text-anchor="end">{each["policy"]}</text>',
            f'<rect x="{LABELS}" y="{y}" width="{max(1.0, extra * scale):.1f}" height="{ROW - 6}" fill="{colour}"/>',
            f'<text x="{LABELS + max(1.0, extra * scale) + 6:.1f}" y="{y + 15}">{extra}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    FIGURE.write_text(draw(json.loads(NUMBERS.read_text(encoding="utf-8"))), encoding="utf-8")
