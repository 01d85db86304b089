# SPDX-License-Identifier: Apache-2.0
"""Files that somebody else wrote."""

import io
import json

import pytest

from roost.errors import FleetError
from roost.sources import documents
from roost.sources.documents import parse_document, read_text


@pytest.fixture
def read(tmp_path):
    def reading(text, name="f.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return parse_document(read_text(path), path)[0]

    return reading


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.yaml", "a: [1, x]\n"),
        ("f.json", '{"a": [1, "x"]}'),
        ("f.yaml", '{"a": [1, "x"]}'),
        ("f.yaml", "{a: [1, x]}"),
        ("f", '\n\t {"a":\t[1, "x"]}'),  # YAML would not take the tabs
        ("f.yaml", "\ufeffa: [1, x]\n"),
        ("f.json", '\ufeff{"a": [1, "x"]}'),
    ],
)
def test_yaml_json_and_json_under_another_name(read, name, text):
    assert read(text, name) == {"a": [1, "x"]}


def test_json_is_not_read_as_yaml_where_its_name_says_json(read):
    with pytest.raises(FleetError, match=r"f\.json, line 1: not JSON"):
        read("{a: 1}", "f.json")


def test_a_key_twice_is_an_error_in_json_under_any_name(read):
    for name in ("f.json", "f.yaml"):
        with pytest.raises(FleetError, match=r"line 2: the key 'a' is there twice in one object"):
            read('{"a": 1,\n"a": 2}', name)


def test_the_line_of_a_second_key_deep_inside(read):
    text = json.dumps({"x": [{"y": {"k": 1}}] * 3, "z": "{"}, indent=1)
    text = text.replace('"k": 1', '"k": 1,\n"k": 2', 1).replace("{\n", "{\n\n\n", 1)
    line = text[: text.index('"k": 2')].count("\n") + 1
    with pytest.raises(FleetError, match=f"line {line}: the key 'k' is there twice"):
        read(text, "f.json")


def test_a_file_that_is_too_large_is_refused(read, monkeypatch):
    monkeypatch.setattr(documents, "MAX_BYTES", 10)
    assert read("a: 3456789") == {"a": 3456789}
    with pytest.raises(FleetError, match="is larger than 0 MiB"):
        read("a: 34567890")


def test_bytes_that_are_no_text_are_told_with_their_line(read):
    with pytest.raises(FleetError, match="line 3: byte 8 is not UTF-8"):
        read(b"a: 1\n\nb:\xff\n")


def test_a_hyphen_stands_for_standard_input(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: 1")))
    path = tmp_path.relative_to(tmp_path) / "-"
    assert parse_document(read_text(path), path)[0] == {"a": 1}
