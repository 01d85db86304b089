# SPDX-License-Identifier: Apache-2.0
"""Building blocks of the generated reference pages, as Markdown text."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any


def page(title: str, *parts: str) -> str:
    return join(f"# {title}", *parts) + "\n"


def join(*parts: str) -> str:
    return "\n\n".join(part.strip() for part in parts if part.strip())


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell(each) for each in line)} |" for line in lines)


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def code(text: str) -> str:
    return f"`{text}`" if text else "-"


def yes(answer: bool) -> str:
    return "yes" if answer else "no"


def summary(documented: Any) -> str:
    """The first sentence or line of a docstring."""
    return (inspect.getdoc(documented) or "").partition("\n\n")[0].replace("\n", " ")
