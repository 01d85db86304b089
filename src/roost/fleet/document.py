# SPDX-License-Identifier: Apache-2.0
"""Reads an untrusted YAML or JSON file: bounded in size, depth and expansion, no key twice."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from roost.errors import FleetError
from roost.fleet.line_numbers import line_of_second_key
from roost.fleet.yaml_parser import parse_yaml

MAX_BYTES = 1 << 30
_LONG_NUMBER = re.compile(r"[0-9]{4000}")


def read_document(path: Path) -> Any:
    """The contents of the file; of standard input for `-`."""
    return parse_document(read_text(path), path)


def parse_document(text: str, path: Path) -> Any:
    """What a text says. The name of its file decides: JSON if it ends in .json, anything else is YAML.

    What looks like JSON is tried as such first: YAML would read it too, a hundred times slower.
    """
    if path.suffix == ".json":
        return _parse_json(text, path)
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _parse_json(text, path)
        except _NotJson:
            pass
    return parse_yaml(text, path)


def read_text(path: Path) -> str:
    """The text of the file."""
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


class _NotJson(FleetError):
    """The text is no JSON; it may still be YAML."""


class _KeyTwice(Exception):
    """An object has a key twice. Which one is the argument."""


def _parse_json(text: str, path: Path) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise _NotJson(f"{path}, line {error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise FleetError(f"{path}: nested too deeply") from None
    except ValueError:  # what Python refuses to turn into an integer
        digits = _LONG_NUMBER.search(text)
        line = text.count("\n", 0, digits.start()) + 1 if digits else 1
        raise FleetError(f"{path}, line {line}: a number of thousands of digits is not an amount") from None
    except _KeyTwice as error:
        line = line_of_second_key(text, json.JSONDecoder(object_pairs_hook=_unique), _KeyTwice)
        problem = f"the key {error.args[0]!r} is there twice in one object"
        raise FleetError(f"{path}, line {line}: {problem}", "remove one") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) == len(pairs):
        return record
    keys = [key for key, _ in pairs]
    raise _KeyTwice(next(key for at, key in enumerate(keys) if key in keys[:at]))
