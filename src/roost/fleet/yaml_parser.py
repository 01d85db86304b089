# SPDX-License-Identifier: Apache-2.0
"""Parser of untrusted YAML: checks the event stream before building any object, and refuses expansion bombs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from roost.errors import FleetError
from roost.fleet.option_lines import OPTIONS_SECTION, OptionLines

MAX_DEPTH = 64
FREE_EXPANSION = 1_000_000
"""Values that aliases may always expand to; ten more are allowed for each value written in the file."""
LONGEST_NUMBER = 400
"""Maximum length of a number, characters. Parsing a base 60 number (`1:30`) of a million digits takes hours."""

_NUMBER = re.compile(r"[-+.0-9][-+.:_0-9a-fA-Fx]*")

SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(text: str, path: Path) -> tuple[Any, OptionLines]:
    """The document in the text, and the lines of its options, except options inside an alias."""
    try:
        checker = _EventChecker(path)
        checker.check(text)
        return yaml.load(text, Loader=SafeLoader), checker.option_lines  # noqa: S506 - a safe loader
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
class _OpenContainer:
    """A list or mapping whose end event was not seen yet."""

    anchor: str | None
    keys: set[str] | None = None
    """Keys of a mapping so far; None for a list."""
    is_key_next: bool = False
    size: int = 1
    """Number of values in it with aliases expanded, plus 1 for itself."""


class _EventChecker:
    (
        """Checks the events of a text: alias expansion, duplicate keys, depth. Records the lines of options."""
        ""
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sizes: dict[str, int] = {}
        """Anchor -> number of values in its node, aliases expanded."""
        self.open = [_OpenContainer(None)]
        self.written = 0
        self.expanded = 0
        self.option_lines: OptionLines = {}
        self.top_key = self.section = ""
        """The last key seen in the outermost mapping, and the last key seen in `options`."""

    def check(self, text: str) -> None:
        """Raise FleetError for a duplicate key, too much expansion, too deep nesting and too long numbers."""
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
            if len(self.open) == 2 or self.top_key == OPTIONS_SECTION:
                self.record_line(event)
        is_quoted = not event.implicit[0] and not event.tag
        if len(event.value) > LONGEST_NUMBER and not is_quoted and _NUMBER.fullmatch(event.value):
            self.refuse(event, f"a number of {len(event.value)} digits", "put it in quotes if it is text")
        if event.anchor:
            self.sizes[event.anchor] = 1
        self.written += 1
        self.add(1)

    def record_line(self, event: Any) -> None:
        """Record the line of a key that is outermost or below `options`."""
        depth, line = len(self.open), event.start_mark.line + 1
        if depth == 2:
            self.top_key = event.value
        if depth == 2 and event.value == OPTIONS_SECTION:
            self.option_lines["", ""] = line
        elif depth == 3:
            self.section = event.value
            self.option_lines[self.section, ""] = line
        elif depth == 4:
            self.option_lines[self.section, event.value] = line

    def begin(self, event: Any) -> None:
        self.written += 1
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        self.open.append(_OpenContainer(event.anchor, set() if is_mapping else None, is_mapping))
        if len(self.open) > MAX_DEPTH:
            self.refuse(event, f"nested deeper than {MAX_DEPTH} levels")

    def end(self, event: Any) -> None:
        ended = self.open.pop()
        if ended.anchor:
            self.sizes[ended.anchor] = ended.size
        self.add(ended.size)

    def add(self, size: int) -> None:
        """Count a child of this size in the innermost open container."""
        parent = self.open[-1]
        parent.size += size
        parent.is_key_next = parent.keys is not None and not parent.is_key_next

    def refuse(self, event: Any, problem: str, hint: str = "") -> NoReturn:
        raise FleetError(f"{self.path}, line {event.start_mark.line + 1}: {problem}", hint)
