# SPDX-License-Identifier: Apache-2.0
"""The file of a snapshot: gzip of one JSON object. Files come from other people: size and depth are bounded.

A file is decompressed twice: the first time it is only counted, so a decompression bomb never gets memory.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from roost.errors import FleetError, SnapshotError
from roost.fleet.json_parser import NotJson, parse_json
from roost.messages.context import is_deeper_than

MAX_FILE_BYTES = 1 << 28
MAX_DOCUMENT_BYTES = 1 << 30
"""Decompressed: as large as a fleet file may be."""
MAX_DEPTH = 64
STDIN = "-"

_MAKE_ONE = "roost snapshot save FILE makes one"
_PART_BYTES = 1 << 20


def pack(document: dict[str, Any]) -> bytes:
    """The content of a file with this document; the same document gives the same bytes."""
    try:
        text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError(f"a snapshot cannot hold this: {error}", "a snapshot is JSON") from None
    return gzip.compress(text.encode(), compresslevel=6, mtime=0)


def unpack(content: bytes, source: str) -> dict[str, Any]:
    """The document in the content of a file, which errors call `source`. SnapshotError for anything else."""
    size = sum(map(len, _parts(content, source)))
    if size > MAX_DOCUMENT_BYTES:
        problem = f"it decompresses to more than {MAX_DOCUMENT_BYTES >> 20} MiB"
        raise SnapshotError(f"{source}: {problem}, which no snapshot needs", _MAKE_ONE)
    try:
        text = b"".join(_parts(content, source)).decode()
        document, _ = parse_json(text, Path(source))
    except UnicodeDecodeError as error:
        raise SnapshotError(f"{source}: no snapshot: byte {error.start} is not UTF-8", _MAKE_ONE) from None
    except NotJson:
        raise SnapshotError(f"{source}: no snapshot: what it holds is no JSON", _MAKE_ONE) from None
    except FleetError as error:
        raise SnapshotError(error.message, error.hint) from None
    if not isinstance(document, dict):
        raise SnapshotError(f"{source}: no snapshot: it holds no JSON object", _MAKE_ONE)
    if is_deeper_than(MAX_DEPTH, document):
        raise SnapshotError(f"{source}: nested more than {MAX_DEPTH} levels deep", _MAKE_ONE)
    return document


def _parts(content: bytes, source: str) -> Iterator[bytes]:
    """The decompressed content, part by part, and no more than one part beyond what is allowed."""
    count = 0
    try:
        with gzip.open(BytesIO(content)) as file:
            while count <= MAX_DOCUMENT_BYTES and (part := file.read(_PART_BYTES)):
                count += len(part)
                yield part
    except EOFError:
        raise SnapshotError(f"{source}: the file ends too early: it is truncated", "copy it again") from None
    except gzip.BadGzipFile as error:
        if content[:2] == b"\x1f\x8b":
            raise SnapshotError(f"{source}: the file is damaged: {error}", "copy it again") from None
        hint = f"{_MAKE_ONE}; a fleet file is given with --fleet"
        raise SnapshotError(f"{source}: no snapshot: it is not compressed with gzip", hint) from None
    except (zlib.error, OSError) as error:
        raise SnapshotError(f"{source}: the file is damaged: {error}", "copy it again") from None


def read_snapshot_file(path: str) -> bytes:
    """The content of a file, or of standard input for `-`; SnapshotError if it is unreadable or too large."""
    try:
        content = _read(path)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read: {error.strerror or error}", "check the path") from None
    if len(content) > MAX_FILE_BYTES:
        raise SnapshotError(f"{path}: the file is larger than {MAX_FILE_BYTES >> 20} MiB", _MAKE_ONE)
    return content


def _read(path: str) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    with Path(path).open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)
