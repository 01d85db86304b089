# SPDX-License-Identifier: Apache-2.0
"""Parser of untrusted JSON: refuses duplicate keys and numbers of thousands of digits; records lines of options."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from roost.errors import FleetError
from roost.fleet.line_numbers import json_children, line_at, line_of_duplicate_key, skip_space
from roost.fleet.option_lines import OPTIONS_SECTION, OptionLines

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
