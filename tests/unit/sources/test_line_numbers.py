# SPDX-License-Identifier: Apache-2.0
"""On which line a field is."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roost.sources import documents as lines
from roost.sources.documents import line_of

KEYS = st.text("abcdefg_", min_size=1, max_size=4)
TREES = st.recursive(
    st.just("leaf"),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=12,
).filter(lambda tree: tree != "leaf")


def paths(tree, path=""):
    """Every leaf by its path."""
    if isinstance(tree, dict):
        return [each for key, inner in tree.items() for each in paths(inner, f"{path}.{key}" if path else key)]
    if isinstance(tree, list):
        return [each for at, inner in enumerate(tree) for each in paths(inner, f"{path}[{at}]")]
    return [path]


def numbered(tree, count):
    """The same with each leaf told apart."""
    if isinstance(tree, dict):
        return {key: numbered(inner, count) for key, inner in tree.items()}
    if isinstance(tree, list):
        return [numbered(inner, count) for inner in tree]
    return f"leaf{next(count):03d}"


@pytest.mark.parametrize("write", [lambda tree: json.dumps(tree, indent=1), yaml.safe_dump], ids=["json", "yaml"])
@given(tree=TREES)
def test_every_leaf_is_found_on_the_line_it_is_written_on(write, tree):
    text = write(numbered(tree, iter(range(1000))))
    found = [line_of(text, path) for path in paths(tree)]
    written = [at + 1 for at, line in enumerate(text.splitlines()) if "leaf" in line]
    assert sorted(found) == written


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("hosts[1].vcpus_total", 5),
        ("hosts[1]", 4),
        ("hosts[1].nothing", 4),
        ("hosts[9].host", 2),
        ("hosts[0].host", 3),
        ("flavors", 6),
        ("nothing", None),
        ("", None),
        ("hosts[0].host.deeper[3]", 3),
    ],
)
@pytest.mark.parametrize("shape", ["yaml", "json", "flow"])
def test_what_is_not_there_is_where_it_should_be(field, line, shape):
    text = {
        "yaml": "# fleet\nhosts:\n  - host: a\n  - host: b\n    vcpus_total: x\nflavors: []\n",
        "json": '{\n"hosts": [\n{"host": "a"},\n{"host": "b",\n"vcpus_total": "x"}],\n"flavors": []}',
        "flow": "{\nhosts: [\n{host: a},\n{host: b,\nvcpus_total: x}],\nflavors: []}",
    }[shape]
    assert line_of(text, field) == line


def test_strings_with_brackets_and_escapes_do_not_confuse(monkeypatch):
    text = '{"a": "]}\\"[{",\n"b": [1, "\\n", {"c": null}],\n"d": {"e":\n3}}'
    assert line_of(text, "d.e") == 3
    assert line_of(text, "b[2].c") == 2


def test_large_yaml_is_not_searched(monkeypatch):
    monkeypatch.setattr(lines, "LARGEST_YAML", 5)
    assert line_of("a:\n  b: 1\n", "a.b") is None


def test_a_text_that_is_broken_has_no_lines():
    assert line_of("a: [", "a") is None
