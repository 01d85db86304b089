# SPDX-License-Identifier: Apache-2.0
"""Reader of untrusted YAML and JSON: size, depth and alias expansion are bounded, duplicate keys refused.

The events of a YAML text are checked before any object is built. Lines of options are recorded while parsing, because
options are validated much later; the line of any other field is found by a second pass over the text, for an error
message. Garbage collection is paused while a fleet is loaded: millions of objects are allocated, none is garbage.
"""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from roost.errors import FieldError, FleetError

MAX_BYTES = 1 << 30


def parse_document(text: str, path: Path) -> tuple[Any, OptionLines]:
    """The data in a text, and the lines of its options. JSON if the path ends in .json, else YAML.

    A text that begins like JSON is parsed as JSON first: the YAML parser accepts JSON too, but is 100 times slower.
    """
    if path.suffix == ".json":
        return parse_json(text, path)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(text, path)
        except NotJson:
            pass
    return parse_yaml(text, path)


def read_text(path: Path) -> str:
    """The text of the file, or of standard input if the path is `-`; FleetError if it is not readable UTF-8."""
    try:
        raw = _read_bytes(path)
        if len(raw) > MAX_BYTES:
            raise FleetError(f"{path}: the file is larger than {MAX_BYTES >> 20} MiB")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise FleetError(f"{path}: cannot be read: {error.strerror or error}", "check the path") from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise FleetError(f"{path}, line {line}: byte {error.start} is not UTF-8", "save the file as UTF-8") from None


def _read_bytes(path: Path) -> bytes:
    if str(path) == "-":
        if sys.__stdin__ is None:
            raise FleetError("-: standard input is closed", "name a file")
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


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


_LONG_NUMBER = re.compile(r"[0-9]{4000}")


class NotJson(FleetError):
    """The text is not JSON; it may still be YAML."""


class _DuplicateKey(Exception):
    """An object has a duplicate key, which is the argument."""


def parse_json(text: str, path: Path) -> tuple[Any, OptionLines]:
    """The data in the text, and the lines of its options; FleetError or NotJson if it is invalid."""
    try:
        return _parse_sections(text) or (json.loads(text, object_pairs_hook=_unique), {})
    except json.JSONDecodeError as error:
        raise NotJson(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise FleetError(f"{path}: nested too deeply") from None
    except ValueError:  # int() refuses texts of thousands of digits
        digits = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else 1
        raise FleetError(f"{path}, line {line}: a number of thousands of digits is not an amount") from None
    except _DuplicateKey as error:
        line = line_of_duplicate_key(text, _DECODER, _DuplicateKey)
        problem = f"the key {error.args[0]!r} is there twice in one object"
        raise FleetError(f"{path}, line {line}: {problem}", "remove one") from None


def _parse_sections(text: str) -> tuple[dict[str, Any], OptionLines] | None:
    """The outermost object, parsed section by section, so that the lines of options are found in one pass.

    None if it is not an object, or has a syntax error outside of its values: the json module then reports it.
    """
    at, separator = skip_space(text, 0), "{"
    found: dict[str, Any] = {}
    lines: OptionLines = {}
    while text[at : at + 1] == separator:
        start = skip_space(text, at + 1)
        if text[start : start + 1] != '"':
            return None
        name, at = _DECODER.raw_decode(text, start)
        at = skip_space(text, at)
        if text[at : at + 1] != ":" or name in found:
            return None
        value_start = skip_space(text, at + 1)
        found[name], at = _DECODER.raw_decode(text, value_start)
        if name == OPTIONS_SECTION:
            lines = _option_lines(text, start, value_start)
        at, separator = skip_space(text, at), ","
    is_whole = text[at : at + 1] == "}" and skip_space(text, at + 1) == len(text)
    return (found, lines) if is_whole else None


def _option_lines(text: str, start: int, value_start: int) -> OptionLines:
    lines: OptionLines = {("", ""): line_at(text, start)}
    for section, section_start, entries_start in json_children(text, value_start):
        lines[str(section), ""] = line_at(text, section_start)
        for name, name_start, _ in json_children(text, entries_start):
            lines[str(section), str(name)] = line_at(text, name_start)
    return lines


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) == len(pairs):
        return record
    keys = [key for key, _ in pairs]
    raise _DuplicateKey(next(key for at, key in enumerate(keys) if key in keys[:at]))


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


OPTIONS_SECTION = "options"
"""The section of a fleet file whose lines are recorded."""

OptionLines = dict[tuple[str, str], int]
"""(section, option) -> line; (section, "") is the line of the section, ("", "") the line of `options`."""


def place_of_option(path: Path, lines: OptionLines, section: str, name: str) -> str:
    """The file and the line of an option, or of its nearest parent with a known line: `fleet.yaml, line 3`.

    Only the path if it is not a file that can be opened: standard input, or a file that was deleted.
    """
    known = (lines.get(each) for each in ((section, name), (section, ""), ("", "")))
    return place_in(path, next(filter(None, known), None) if path.is_file() else None)


def place_in(path: Path, line: int | None) -> str:
    """The file and the line, if the line is known: `fleet.yaml, line 3`."""
    return f"{path}, line {line}" if line else f"{path}"


LARGEST_YAML = 8 << 20
"""Maximum size (characters) of a YAML text that is parsed again to find a line, which takes seconds."""

_UNKNOWN = re.compile(r"unknown field '([^']*)'")
_SPACE = re.compile(r"[ \t\n\r]*")
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def line_of_error(text: str, error: FieldError) -> int | None:
    """The line of the field that an error is about; of an unknown field itself, not of the record that has it."""
    unknown = _UNKNOWN.match(error.problem)
    return line_of(text, f"{error.field}.{unknown[1]}" if unknown else error.field)


def line_of(text: str, field: str) -> int | None:
    """The line of a field such as `hosts[3].vcpus_total`, or of its nearest existing parent; None if unknown."""
    steps = [int(position) if position else key for position, key in _STEP.findall(field)]
    try:
        return _line_in_json(text, steps) if text.lstrip()[:1] in ("{", "[") else _line_in_yaml(text, steps)
    except json.JSONDecodeError:  # YAML may begin with a bracket too
        return _line_in_yaml(text, steps)


def _line_in_json(text: str, steps: list[int | str]) -> int | None:
    found, value = None, skip_space(text, 0)
    for step in steps:
        for name, start, value_start in json_children(text, value):
            if name == step:
                found, value = start, value_start
                break
        else:
            break
    return None if found is None else line_at(text, found)


def line_of_duplicate_key(text: str, decoder: json.JSONDecoder, error: type[Exception]) -> int:
    """The line of the first duplicate key. `error`: raised by the decoder for a value with a duplicate key."""
    value = skip_space(text, 0)
    while True:
        seen: set[int | str] = set()
        for name, start, value_start in json_children(text, value):
            if name in seen:
                return line_at(text, start)
            seen.add(name)
            try:
                decoder.raw_decode(text, value_start)
            except error:  # the duplicate key is inside this value: descend
                value = value_start
                break
        else:
            return line_at(text, value)


def json_children(text: str, at: int) -> Iterator[tuple[int | str, int, int]]:
    """(name or index, start, start of the value) of each child of the object or array at that position."""
    kind = text[at]
    if kind not in "{[":
        return
    skip = json.JSONDecoder().raw_decode
    at, number = skip_space(text, at + 1), 0
    while text[at] not in "}]":
        start, name = at, number
        if kind == "{":
            name, at = skip(text, at)
            at = skip_space(text, skip_space(text, at) + 1)
        yield name, start, at
        at = skip_space(text, skip(text, at)[1])
        number += 1
        if text[at] == ",":
            at = skip_space(text, at + 1)


def skip_space(text: str, at: int) -> int:
    """Position of the next character that is not JSON whitespace; the length of the text if there is none."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def line_at(text: str, position: int) -> int:
    """The line of a position, counted from 1."""
    return text.count("\n", 0, position) + 1


def _line_in_yaml(text: str, steps: list[int | str]) -> int | None:
    if len(text) > LARGEST_YAML:
        return None
    try:
        node = yaml.compose(text, Loader=SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    line = None
    for step in steps:
        found = _descend(node, step)
        if found is None:
            break
        node, line = found
    return line


def _descend(node: Any, step: int | str) -> tuple[Any, int] | None:
    """The child of a YAML node with this name or index, and its line; None if there is none."""
    if isinstance(step, int) and isinstance(node, yaml.SequenceNode) and step < len(node.value):
        child = node.value[step]
        return child, child.start_mark.line + 1
    if isinstance(step, str) and isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.value == step:
                return child, key.start_mark.line + 1
    return None


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context manager that disables garbage collection, which takes a third of the time of loading a large fleet."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
