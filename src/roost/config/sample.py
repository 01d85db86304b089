# SPDX-License-Identifier: Apache-2.0
"""Generates a sample config file from the declarations: every option, explained and commented out."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from roost.options import Declared

WIDTH = 80
"""Characters per line of the sample."""
HEAD = """\
# Every option of Roost, with its default. Take away the # before an option to set it.
# Sections and names are nova's: an existing nova.conf works as it is.
"""

_KIND_NAMES = {int: "whole number", float: "number", bool: "true or false"}


def sample(options: Iterable[Declared]) -> str:
    """The text of the sample file: [DEFAULT] first, then sections and options by name."""
    ordered = sorted(options, key=lambda each: (each.group != "DEFAULT", each.group, each.name))
    lines = [HEAD]
    section = ""
    for option in ordered:
        if option.group != section:
            section = option.group
            lines.append(f"\n[{section}]\n")
        lines += _lines_of(option)
        lines.append("")
    return "\n".join(lines)


def _lines_of(option: Declared) -> Iterator[str]:
    meaning = f"{option.help[:1].upper()}{option.help[1:]}".rstrip(".")
    unset = "; not set by default" if option.default in (None, "", ()) else ""
    about = [f"{meaning}.", f"{describe_kind(option)}{unset}."]
    if option.old:
        about.append(f"Old names: {', '.join(f'[{group}] {name}' for group, name in option.old)}.")
    if not option.reloads:
        about.append("A new value needs a restart.")
    for sentence in about:
        yield from textwrap.wrap(sentence, WIDTH, initial_indent="# ", subsequent_indent="#   ")
    for value in _file_values(option):
        yield f"#{option.name} = {value}".rstrip()


def describe_kind(option: Declared) -> str:
    """A phrase on what an option accepts: its type, bounds and choices."""
    if option.choices:
        return f"One of {', '.join(option.choices)}"
    kind = _KIND_NAMES.get(option.kind, "text")
    if option.kind == tuple[str, ...]:
        kind = "list, a line each" if option.repeats else "list, separated by commas"
    bounds = [f"at least {option.min:g}"] if option.min is not None else []
    bounds += [f"at most {option.max:g}"] if option.max is not None else []
    return ", ".join([f"{kind[:1].upper()}{kind[1:]}", *bounds])


def _file_values(option: Declared) -> list[str]:
    """The default as written in a file, one text per line."""
    if isinstance(option.default, tuple):
        texts = [_file_value(each) for each in option.default]
        return (texts or [""]) if option.repeats else [",".join(texts)]
    return [_file_value(option.default)]


def _file_value(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text.replace("$", "$$")
