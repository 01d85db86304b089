# SPDX-License-Identifier: Apache-2.0
"""Untrusted YAML. Its events are checked first - no recursion, nothing is built - and expansion bombs are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from roost.errors import FleetError
from roost.fleet.option_lines import OPTIONS, OptionLines

MAX_DEPTH = 64
FREE_EXPANSION = 1_000_000
"""So many values may come from aliases in any case, and ten for each value that is written out."""
LONGEST_NUMBER = 400
"""Characters. Numbers to base 60 (`1:30`) of a million digits would keep a processor busy for hours."""

_NUMBER = re.compile(r"[-+.0-9][-+.:_0-9a-fA-Fx]*")

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(text: str, path: Path) -> tuple[Any, OptionLines]:
    """The one document in this text, and the lines of the options in it, except for those behind an alias."""
    try:
        guard = _Guard(path)
        guard.check(text)
        return yaml.load(text, Loader=SafeLoader), guard.option_lines  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        hint = "indent with spaces, not with tabs" if mark and "\t" in _indent(text, mark.line) else ""
        problem = " ".join(each for each in (error.context, error.problem) if each)
        raise FleetError(f"{path}{line}: not YAML: {problem}", hint) from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise FleetError(f"{path}: not YAML: {' '.join(str(error).split())}") from None


def _indent(text: str, line: int) -> str:
    written = text.split("\n", line + 1)[line : line + 1]
    return written[0][: len(written[0]) - len(written[0].lstrip())] if written else ""


@dataclass(slots=True)
class _Open:
    """A list or a mapping that has begun and not ended."""

    anchor: str | None
    keys: set[str] | None = None
    """Of a mapping, those that were met; None for a list."""
    is_key_next: bool = False
    size: int = 1
    """Values in it, aliases expanded, and itself."""


class _Guard:
    """Adds up what aliases would expand to, remembers the keys of every mapping that is open, and notes the lines of
    options on the way.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        """Anchor -> values in what it names, aliases in it expanded."""
        self.open = [_Open(None)]
        self.written = 0
        self.expanded = 0
        self.option_lines: OptionLines = {}
        self.top_key = self.section = ""
        """The keys of the outermost mapping, and of the options, that were met last."""

    def check(self, text: str) -> None:
        """FleetError for a key that is there twice, and for what would be too large or too deep to build."""
        handlers = {
            yaml.AliasEvent: self.alias,
            yaml.ScalarEvent: self.scalar,
            yaml.MappingStartEvent: self.begin,
            yaml.SequenceStartEvent: self.begin,
            yaml.MappingEndEvent: self.end,
            yaml.SequenceEndEvent: self.end,
        }
        for event in yaml.parse(text, Loader=SafeLoader):
            if handle := handlers.get(type(event)):
                handle(event)

    def alias(self, event: Any) -> None:
        if any(each.anchor == event.anchor for each in self.open):
            self.refuse(event, f"*{event.anchor} is inside of what it stands for", "write it out")
        size = self.sizes.get(event.anchor, 1)
        self.expanded += size
        if self.expanded > FREE_EXPANSION + 10 * self.written:
            self.refuse(event, f"aliases expand to more than {self.expanded - size} values", "use fewer aliases")
        self.add(size)

    def scalar(self, event: Any) -> None:
        parent = self.open[-1]
        if parent.is_key_next and parent.keys is not None:
            if event.value in parent.keys:
                self.refuse(event, f"the key {event.value!r} is there twice in one mapping", "remove one")
            parent.keys.add(event.value)
            if len(self.open) == 2 or self.top_key == OPTIONS:
                self.note_line(event)
        is_quoted = not event.implicit[0] and not event.tag
        if len(event.value) > LONGEST_NUMBER and not is_quoted and _NUMBER.fullmatch(event.value):
            self.refuse(event, f"a number of {len(event.value)} digits", "put it in quotes if it is text")
        if event.anchor:
            self.sizes[event.anchor] = 1
        self.written += 1
        self.add(1)

    def note_line(self, event: Any) -> None:
        """Note the line of a key that is outermost, or below the options."""
        depth, line = len(self.open), event.start_mark.line + 1
        if depth == 2:
            self.top_key = event.value
        if depth == 2 and event.value == OPTIONS:
            self.option_lines["", ""] = line
        elif depth == 3:
            self.section = event.value
            self.option_lines[self.section, ""] = line
        elif depth == 4:
            self.option_lines[self.section, event.value] = line

    def begin(self, event: Any) -> None:
        self.written += 1
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self.open.append(_Open(event.anchor, set() if is_mapping else None, is_mapping))
        if len(self.open) > MAX_DEPTH:
            self.refuse(event, f"nested deeper than {MAX_DEPTH} levels")

    def end(self, event: Any) -> None:
        ended = self.open.pop()
        if ended.anchor:
            self.sizes[ended.anchor] = ended.size
        self.add(ended.size)

    def add(self, size: int) -> None:
        """One more child, of that size, in what is open."""
        parent = self.open[-1]
        parent.size += size
        parent.is_key_next = parent.keys is not None and not parent.is_key_next

    def refuse(self, event: Any, problem: str, hint: str = "") -> NoReturn:
        raise FleetError(f"{self.path}, line {event.start_mark.line + 1}: {problem}", hint)
