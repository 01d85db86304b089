# SPDX-License-Identifier: Apache-2.0
"""Reader of untrusted YAML and JSON files: size, depth and alias expansion are bounded, duplicate keys refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from roost.errors import FleetError
from roost.fleet.json_parser import NotJson, parse_json
from roost.fleet.option_lines import OptionLines
from roost.fleet.yaml_parser import parse_yaml

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
