# SPDX-License-Identifier: Apache-2.0
"""Entries that fill in a table of fields, as the hosts of a fleet file do."""

import pytest

from roost.errors import FieldError
from roost.model.fields import AMOUNT, MAPPING, NAME, NAMES, ListOf
from roost.sources.fields import Field, FieldTable

TABLE = FieldTable(
    {
        "name": Field(NAME, "what it is called"),
        "size": Field(AMOUNT, "how large it is, MiB"),
        "tags": Field(NAMES, "what is said of it"),
        "own": Field(ListOf(AMOUNT), "what only it has"),
        "facts": Field(MAPPING, "all sorts"),
    },
    required={"name": "call it something"},
    mismatch="is not a thing",
    remedy="write name: NAME",
    unshared=("own",),
)


def test_an_entry_is_its_fields_in_their_proper_form():
    assert TABLE.strict({"size": 4.0, "name": "x", "tags": "a"}, "f") == {"size": 4, "name": "x", "tags": ("a",)}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (5, "things[1]: 5 is not a thing (write name: NAME)"),
        ({}, "things[1].name: is missing (call it something)"),
        ({"name": "x", "sise": 1}, "things[1]: unknown field 'sise' (did you mean size?)"),
        ({"name": "x", 5: 1}, "things[1]: unknown field 5 (known: facts, name, own, size, tags)"),
        ({"name": "x", "size": -1, "tags": 5}, "things[1].size: -1 is too small (at least 0)"),
        ({"name": "x", "tags": ["a", 5]}, "things[1].tags[1]: 5 is not text (put it in quotes)"),
    ],
)
def test_the_first_wrong_field_of_an_entry_is_named(entry, message):
    with pytest.raises(FieldError) as caught:
        TABLE.parse_all([{"name": "good"}, entry], "things")
    assert str(caught.value) == message


def test_equal_lists_are_parsed_once_and_shared():
    one, other = TABLE.parse_all([{"name": name, "tags": ["a"], "facts": {"b": 1}, "own": [1]} for name in "xy"], "f")
    assert one["tags"] is other["tags"]
    assert one["facts"] is other["facts"]
    assert one["own"] is not other["own"]


@pytest.mark.parametrize("different", [[1, 2], [True, 2], [1.0, 2], ["1", 2]])
def test_lists_that_are_only_equal_for_python_are_not_shared(different):
    table = FieldTable({"facts": Field(ListOf(MAPPING), "")}, required={}, mismatch="", remedy="")
    one, other = table.parse_all([{"facts": [{"a": [1, 3]}]}, {"facts": [{"a": different}]}], "f")
    assert other["facts"][0]["a"] is different
    assert one["facts"][0]["a"] == [1, 3]


def test_a_list_too_deep_to_be_compared_is_parsed_all_the_same():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FieldError, match=r"^f\[0\]\.tags\[0\]: .* is not text"):
        TABLE.parse_all([{"name": "x", "tags": deep}], "f")


@pytest.mark.parametrize("uses_up", [False, True])
def test_entries_are_kept_or_used_up_in_their_order(uses_up):
    entries = [{"name": name} for name in "abc"]
    assert [each["name"] for each in TABLE.parse_all(entries, "f", uses_up)] == ["a", "b", "c"]
    assert len(entries) == (0 if uses_up else 3)


def test_the_schema_describes_every_field():
    schema = TABLE.schema
    assert (schema["required"], schema["additionalProperties"]) == (["name"], False)
    assert schema["properties"]["size"] == {**AMOUNT.schema, "description": "how large it is, MiB"}
