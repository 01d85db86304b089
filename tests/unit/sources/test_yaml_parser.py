# SPDX-License-Identifier: Apache-2.0
"""YAML from strangers: what is built, and what is refused before anything is."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import FleetError
from roost.sources import documents as yaml_reading
from roost.sources.documents import MAX_DEPTH, parse_yaml

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


def parse(text):
    return parse_yaml(text, Path("f.yaml"))[0]


@given(PLAIN)
def test_ordinary_documents_are_what_they_were(data):
    assert parse(yaml.safe_dump(data)) == data


@pytest.mark.parametrize("levels", [MAX_DEPTH - 1, MAX_DEPTH])
def test_depth_is_counted_in_levels(levels):
    text = "[" * levels + "]" * levels
    if levels < MAX_DEPTH:
        parse(text)
    else:
        with pytest.raises(FleetError, match=r"f\.yaml, line 1: nested deeper than 64 levels"):
            parse(text)


@pytest.mark.parametrize(("aliases", "is_fine"), [(20, True), (21, False)])
def test_aliases_may_expand_to_what_is_free_and_ten_times_what_is_written(monkeypatch, aliases, is_fine):
    monkeypatch.setattr(yaml_reading, "FREE_EXPANSION", 0)
    text = f"a: &a [1, 2, 3]\nb: [{', '.join(['*a'] * aliases)}]\n"  # 8 values are written, an alias brings 4
    if is_fine:
        parse(text)
    else:
        with pytest.raises(FleetError, match="line 2: aliases expand to more than 80 values"):
            parse(text)


def test_an_alias_in_an_alias_counts_in_full(monkeypatch):
    monkeypatch.setattr(yaml_reading, "FREE_EXPANSION", 40)
    tens = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
    with pytest.raises(FleetError, match="line 3: aliases expand"):
        parse(tens + "c: [*b, *b, *b, *b]\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", 3),
        ("x:\n- {a: 1, b: 2}\n- {a: 1, a: 2}\n", 3),
        ("a: {b: 1}\nc: {b: 1}\nd: {b: {b: 1}}\n'a': 2\n", 4),
        ("<<: {a: 1}\n<<: {b: 1}\n", 2),
    ],
)
def test_a_key_twice_is_refused_with_the_line_of_the_second(text, line):
    with pytest.raises(FleetError, match=f"line {line}: the key .* is there twice in one mapping"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["[a, a, a]", "{a: a}", "x: {a: 1}\ny: {a: 1}\n", "- a: 1\n- a: 1\n", "? [a]\n: a\n? b\n: a\n"]
)
def test_the_same_word_elsewhere_is_no_second_key(text):
    if "?" in text:
        with pytest.raises(FleetError, match="unhashable key"):
            parse(text)
    else:
        parse(text)


def test_merged_keys_may_be_overridden():
    text = "- &base {a: 1, b: 2}\n- {<<: *base, a: 3}\n"
    assert parse(text)[1] == {"a": 3, "b": 2}


@pytest.mark.parametrize(
    ("text", "is_fine"),
    [
        ("a: " + "9" * 400, True),
        ("a: " + "9" * 401, False),
        ("a: '" + "9" * 401 + "'", True),
        ("a: " + "9:" * 300 + "9", False),
        ("a: " + "9 x" * 200, True),
        ("a: !!int '" + "1:" * 300 + "1'", False),
        ("a: !!str " + "9" * 401, False),
    ],
)
def test_numbers_have_an_end(text, is_fine):
    if is_fine:
        parse(text)
    else:
        with pytest.raises(FleetError, match="line 1: a number of"):
            parse(text)


def test_a_value_that_yaml_cannot_build_is_an_error_on_one_line():
    with pytest.raises(FleetError, match=r"f\.yaml: not YAML: ") as caught:
        parse("a: 2024-13-45\n")
    assert "\n" not in str(caught.value)
