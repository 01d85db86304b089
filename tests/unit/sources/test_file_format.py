# SPDX-License-Identifier: Apache-2.0
"""Files from other people: too large, too deep, cut off, or something else altogether."""

import gzip
import json
import tracemalloc

import pytest
from tests.unit.sources.snapshots import packed, snapshot

from roost.errors import SnapshotError
from roost.sources import snapshot as file_format
from roost.sources.snapshot import Snapshot, pack, read_snapshot_file, unpack

MIB = 1 << 20


def assert_refused(content, *words):
    with pytest.raises(SnapshotError) as caught:
        unpack(content, "x.snap")
    text = str(caught.value)
    assert text.startswith(("x.snap: ", "x.snap, line 1: "))
    assert "\n" not in text
    for word in words:
        assert word in text


def test_what_was_packed_comes_back():
    assert unpack(pack({"a": [1, 2.5, None, "ü"]}), "x.snap") == {"a": [1, 2.5, None, "ü"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("no snapshot",)),
        (b"hosts: []\n", ("not compressed with gzip", "--fleet")),
        (b"\x1f\x8b", ("truncated",)),
    ],
    ids=["empty", "a fleet file", "a beginning"],
)
def test_what_is_not_compressed_is_refused(content, words):
    assert_refused(content, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", ("no JSON",)),
        (b"hosts: []\n", ("no snapshot", "no JSON")),
        (b"[1]", ("no JSON object",)),
        ('{"a": "\xff"}'.encode("latin-1"), ("byte 7 is not UTF-8",)),
        ('{"a": "x"}'.encode("utf-16"), ("is not UTF-8",)),
        (b'{"a": 1, "a": 2}', ("twice",)),
        (b'{"a": ' + b"9" * 5000 + b"}", ("digits",)),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ("nested too deeply",)),
        (b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}", ("more than 64 levels",)),
    ],
    ids=["empty", "YAML", "list", "latin-1", "utf-16", "same key", "long number", "very deep", "deep"],
)
def test_what_holds_something_else_is_refused(text, words):
    assert_refused(gzip.compress(text), *words)


@pytest.mark.parametrize("length", [20, 400, -9, -1])
def test_a_truncated_file_is_refused(length):
    assert_refused(packed()[:length], "truncated", "copy it again")


def test_a_damaged_file_is_refused():
    content = bytearray(packed())
    content[len(content) // 2] ^= 0xFF
    assert_refused(bytes(content), "damaged")
    assert_refused(packed() + b"something after it", "damaged")


def test_a_bomb_is_refused_without_the_memory(monkeypatch):
    monkeypatch.setattr(file_format, "MAX_DOCUMENT_BYTES", 64 * MIB)
    bomb = gzip.compress(b" " * (65 * MIB), compresslevel=1)
    tracemalloc.start()
    assert_refused(bomb, "more than 64 MiB")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MIB


def test_a_bomb_of_many_members_is_refused(monkeypatch):
    monkeypatch.setattr(file_format, "MAX_DOCUMENT_BYTES", MIB)
    assert_refused(gzip.compress(b" " * 1000) * 1100, "more than 1 MiB")


def test_a_large_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(file_format, "MAX_FILE_BYTES", 100)
    (tmp_path / "x").write_bytes(b"x" * 1000)
    with pytest.raises(SnapshotError, match="larger than"):
        read_snapshot_file(str(tmp_path / "x"))


@pytest.mark.parametrize("name", ["", "missing", "missing/x"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(SnapshotError, match="cannot be read"):
        Snapshot.load(str(tmp_path / name))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}])
def test_what_is_no_json_is_not_written(value):
    with pytest.raises(SnapshotError, match="cannot hold"):
        pack({"a": value})


def test_the_file_is_one_json_object():
    document = json.loads(gzip.decompress(snapshot().to_bytes()))
    assert list(document) == ["roost_snapshot", "taken_at", "version", "options", "fleet", "servers"]
    assert document["roost_snapshot"] == 1
