# SPDX-License-Identifier: Apache-2.0
"""Parts of the reports that explain: names, items of lists, remedies, scores."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from roost.cli.what_if_arguments import arguments_for
from roost.model.remedy import Remedy
from roost.questions.records import HostScore

WIDTH = 79
"""Of sentences, in characters."""


def remedy_lines(remedy: Remedy) -> Iterator[str]:
    """The remedy in words, and the arguments that try it out, unless it is a change of the request."""
    yield from item(f"Remedy: {remedy.text}", "  ")
    if arguments := arguments_for(remedy.changes):
        yield f"  Try it: {' '.join(arguments)}"


def item(text: str, indent: str = "- ") -> list[str]:
    """The text in lines that fit the screen, the first one after `indent`; names are not broken."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
        break_on_hyphens=False,
    )


def score_cells(score: HostScore) -> tuple[str, float, float, float, float]:
    """Weigher, raw number, normalised number, multiplier and contribution, as cells of a row."""
    raw, multiplier = whole_if_possible(score.raw), whole_if_possible(score.multiplier)
    return score.weigher, raw, score.normalised, multiplier, score.contribution


def whole_if_possible(number: float) -> float:
    """The number, as an int if it is whole: it is printed without decimals then."""
    return int(number) if number.is_integer() else number


def name_of(host: str, node: str) -> str:
    """A host in a sentence; with its node, if that has another name."""
    return host if host == node else f"{host} (node {node})"
