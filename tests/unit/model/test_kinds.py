# SPDX-License-Identifier: Apache-2.0
"""Single kinds in strict mode: the odd values."""

import datetime

import pytest

from roost.errors import FieldError
from roost.model.fields import DEEPEST, NAME, NAMES, NUMBER, PLAIN_DATA, TEXT_MAPPING
from roost.model.kinds import shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, "5"),
        ("text", "'text'"),
        (None, "None"),
        ([1, 2], "[1, 2]"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        pytest.param(10**5000, "a number of thousands of digits", id="huge"),
        pytest.param([10**5000], "a number of thousands of digits", id="huge inside"),
    ],
)
def test_a_value_is_shown_as_people_know_it(value, expected):
    assert shown(value) == expected


@pytest.mark.parametrize(
    "value",
    ["x" * 10**7, list(range(10**6)), {"a": "x" * 10**7}, 10**4000],
    ids=["text", "list", "mapping", "number"],
)
def test_a_large_value_is_cut_short(value):
    assert len(shown(value)) <= 60


def test_a_deep_value_is_shown_without_going_down_all_the_way():
    value = []
    for _ in range(100_000):
        value = [value]
    assert len(shown(value)) <= 60


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), True, "1", None, [1]])
def test_what_is_no_finite_number(value):
    with pytest.raises(FieldError, match=r"^f: "):
        NUMBER.strict(value, "f")


@pytest.mark.parametrize("value", ["a\nb", "a\x1b[1m", "a\x00", "a\ud800", "a\u200b", ""])
def test_a_name_can_be_printed_on_one_line(value):
    with pytest.raises(FieldError):
        NAME.strict(value, "f")


@pytest.mark.parametrize("value", ["node-1", "café", "a b", "主机"])
def test_names_in_all_scripts_are_fine(value):
    assert NAME.strict(value, "f") == value


@pytest.mark.parametrize("value", [None, 1, 1.5, "x", True, [], {}, [1, [2, {"a": None}]], ("x",)])
def test_plain_data_comes_back_as_it_is(value):
    assert PLAIN_DATA.strict(value, "f") == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, float("nan")]}, r"f\.a\[1\]: nan is not a finite number"),
        ({"a": {"b": b"x"}}, r"f\.a\.b: b'x' is no text and no number"),
        ({"a": {1: "x"}}, r"f\.a: the key 1 is not text"),
        ([10**400], r"f\[0\]: .* is too large"),
        ({"a": datetime.date(2024, 1, 2)}, r"f\.a: 2024-01-02 is no text and no number \(put it in quotes\)"),
    ],
)
def test_what_json_cannot_say_is_refused_with_its_place(value, message):
    with pytest.raises(FieldError, match=message):
        PLAIN_DATA.strict(value, "f")


@pytest.mark.parametrize(("levels", "is_fine"), [(DEEPEST, True), (DEEPEST + 1, False)])
def test_plain_data_is_not_too_deep(levels, is_fine):
    value = 1
    for _ in range(levels):
        value = [value]
    if is_fine:
        PLAIN_DATA.strict(value, "f")
    else:
        with pytest.raises(FieldError, match=r"^f: is nested too deeply \(at most 32 levels\)"):
            PLAIN_DATA.strict(value, "f")


def test_a_value_inside_of_itself_is_too_deep():
    value = {}
    value["a"] = value
    with pytest.raises(FieldError, match="nested too deeply"):
        PLAIN_DATA.strict(value, "f")


def test_a_set_of_anything_is_put_in_order_before_it_is_refused():
    with pytest.raises(FieldError, match=r"f\[0\]: 1 is not text"):
        NAMES.strict({1, "a"}, "f")


@pytest.mark.parametrize(("value", "text"), [(1, "1"), (1.5, "1.5"), (True, "true"), ("x", "x")])
def test_scalars_become_their_text(value, text):
    assert TEXT_MAPPING.strict({"a": value}, "f") == {"a": text}


@pytest.mark.parametrize("value", [float("nan"), 10**400, None, [1]])
def test_what_has_no_text_is_refused(value):
    with pytest.raises(FieldError, match=r"^f\.a: "):
        TEXT_MAPPING.strict({"a": value}, "f")
