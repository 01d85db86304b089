# SPDX-License-Identifier: Apache-2.0
"""Reads an untrusted YAML or JSON file: bounded in size, depth and expansion, no key twice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roost.errors import FleetError
from roost.fleet.json_parser import NotJson, parse_json
from roost.fleet.option_lines import OptionLines
from roost.fleet.yaml_parser import parse_yaml

MAX_BYTES = 1 << 30


def read_document(path: Path) -> Any:
    """The contents of the file; of standard input for `-`."""
    return parse_document(read_text(path), path)[0]


def parse_document(text: str, path: Path) -> tuple[Any, OptionLines]:
    """What a text says, and the lines of the options in it: JSON if its file ends in .json, anything else is YAML.

    What looks like JSON is tried as such first: YAML would read it too, a hundred times slower.
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
