# SPDX-License-Identifier: Apache-2.0
"""Untrusted JSON: no key twice in one object, no number of thousands of digits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from roost.errors import FleetError
from roost.fleet.line_numbers import json_children, line_at, line_of_second_key, skip_space
from roost.fleet.option_lines import OPTIONS, OptionLines

_LONG_NUMBER = re.compile(r"[0-9]{4000}")


class NotJson(FleetError):
    """The text is no JSON; it may still be YAML."""


class _KeyTwice(Exception):
    """An object has a key twice. Which one is the argument."""


def parse_json(text: str, path: Path) -> tuple[Any, OptionLines]:
    """What the text says, and the lines of the options in it."""
    try:
        return _parse_sections(text) or (json.loads(text, object_pairs_hook=_unique), {})
    except json.JSONDecodeError as error:
        raise NotJson(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise FleetError(f"{path}: nested too deeply") from None
    except ValueError:  # what Python refuses to turn into an integer
        digits = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else 1
        raise FleetError(f"{path}, line {line}: a number of thousands of digits is not an amount") from None
    except _KeyTwice as error:
        line = line_of_second_key(text, _DECODER, _KeyTwice)
        problem = f"the key {error.args[0]!r} is there twice in one object"
        raise FleetError(f"{path}, line {line}: {problem}", "remove one") from None


def _parse_sections(text: str) -> tuple[dict[str, Any], OptionLines] | None:
    """The outermost object, section by section, so that the place of the options is known without a second pass.

    None where it is no object, or has a mistake outside of its values: the json module has the words for that.
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
        if name == OPTIONS:
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
    raise _KeyTwice(next(key for at, key in enumerate(keys) if key in keys[:at]))


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
