# SPDX-License-Identifier: Apache-2.0
"""Uuids in a file or on standard input: one per line, or a JSON list."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from roost.errors import BadInput, FieldError
from roost.model.kinds import shown
from roost.model.uuids import UUID

STDIN = "-"
_REMEDY = "write one uuid per line, or a JSON list of them"


def read_known_uuids(file: str) -> frozenset[str]:
    """The uuids in the file, `-` for stdin, in their one spelling. BadInput if it has none, or something else."""
    name = "standard input" if file == STDIN else file
    found = frozenset(_parse_uuids(_read(file, name), name))
    if not found:
        raise BadInput(f"{name}: there is no uuid in it", "leave out --known where nothing is known elsewhere")
    return found


def _read(file: str, name: str) -> str:
    try:
        content = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return content.decode("utf-8-sig")
    except OSError as error:
        raise BadInput(f"{name}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{name}: is no text in UTF-8", _REMEDY) from None


def _parse_uuids(text: str, name: str) -> Iterable[str]:
    if not text.lstrip().startswith(("[", '{"')):
        lines = enumerate(text.splitlines(), start=1)
        return [_parse(line.strip(), f"{name}, line {number}") for number, line in lines if line.strip()]
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: is no JSON: {error}", _REMEDY) from None
    if not isinstance(listed, list):
        raise BadInput(f"{name}: {shown(listed)} is no list", _REMEDY)
    return [_parse(each, f"{name}, entry {number}") for number, each in enumerate(listed, start=1)]


def _parse(value: Any, place: str) -> str:
    try:
        return UUID.strict(value, place)
    except FieldError as error:
        raise BadInput(f"{place}: {error.problem}", _REMEDY) from None
