# SPDX-License-Identifier: Apache-2.0
"""Line numbers of fields in a text, found by a second pass over it; only used for error messages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from roost.errors import FieldError
from roost.fleet.yaml_parser import SafeLoader

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
