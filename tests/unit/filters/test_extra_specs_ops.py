# SPDX-License-Identifier: Apache-2.0
"""Requirement expressions: every row of spec/filters.md 4."""

import pytest

from roost.errors import RuleError
from roost.filters.extra_specs_ops import match, numeric_comparison


@pytest.mark.parametrize(
    ("value", "requirement", "holds"),
    [
        ("5", "= 4", True),
        ("3", "= 4", False),
        ("4", "=4", False),
        ("4", "== 4.0", True),
        ("4", "!= 4.0", False),
        ("10", ">= 9", True),
        ("10", "s>= 9", False),
        ("3", "> 2", False),
        ("abc", "<in> b", True),
        ("abc", "<in>", False),
        ("aabbcc", "<all-in> aa cc", True),
        ("aabbcc", "<all-in> aa dd", False),
        ("['sse', 'avx2']", "<in> avx", True),
        ("v2", "<or> v1 <or> v2", True),
        ("v2", "<or> v1 v2", False),
        ("v2", "<or> v1 junk v2", True),
        ("a", "s== a b", True),
        ("a b", "s== a b", False),
        ("a b", "a b", True),
        ("123", " 123 ", False),
        ("", "", True),
        ("True", "true", False),
        (None, "= 4", False),
        (None, "a", False),
        ("nan", "== nan", False),
    ],
)
def test_worked_examples(value, requirement, holds):
    assert match(value, requirement) is holds


@pytest.mark.parametrize(
    ("value", "requirement", "nova_type"),
    [
        pytest.param("abc", "<or>", "IndexError", id="no alternative"),
        pytest.param("x", "= 4", "ValueError", id="the value is no number"),
        pytest.param("4", ">= x", "ValueError", id="the requirement is no number"),
    ],
)
def test_a_requirement_that_cannot_be_judged_raises(value, requirement, nova_type):
    with pytest.raises(RuleError) as caught:
        match(value, requirement)
    assert caught.value.nova_type == nova_type


@pytest.mark.parametrize(
    ("operator", "below", "equal", "above"),
    [
        ("=", False, True, True),
        ("==", False, True, False),
        ("!=", True, False, True),
        (">=", False, True, True),
        ("<=", True, True, False),
        ("s==", False, True, False),
        ("s!=", True, False, True),
        ("s<", True, False, False),
        ("s<=", True, True, False),
        ("s>", False, False, True),
        ("s>=", False, True, True),
    ],
)
def test_each_comparison_below_at_and_above_its_operand(operator, below, equal, above):
    assert [match(value, f"{operator} 5") for value in ("4", "5", "6")] == [below, equal, above]


@pytest.mark.parametrize("requirement", ["<", "< 9", ">", "> 1", "<range-in> [ 1 9 ]", "in 5"])
def test_what_is_no_operator_is_compared_as_it_stands(requirement):
    assert match(requirement, requirement)
    assert not match("5", requirement)


@pytest.mark.parametrize("operator", ["=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s>", "<in>", "<all-in>"])
def test_an_operator_without_operand_never_holds(operator):
    assert not match("5", operator)
    assert not match("5", f" {operator} ")


def test_all_but_the_list_operators_look_at_one_operand_only():
    assert match("5", ">= 4 99")
    assert match("abc", "<in> b zz")


def test_members_of_a_list_are_whole_words():
    assert match(["sse", "avx2"], "<in> avx2")
    assert not match(["sse", "avx2"], "<in> avx")
    assert match(["sse", "avx2"], "<all-in> avx2 sse")


@pytest.mark.parametrize(
    ("value", "requirement", "holds"),
    [("1000", "== 1e3", True), ("inf", ">= 1e308", True), ("nan", "!= nan", True), (" 5 ", "== 5", True)],
)
def test_numbers_are_whatever_python_takes_for_a_float(value, requirement, holds):
    assert match(value, requirement) is holds


def test_no_alternative_or_a_wrong_number_is_named_in_the_error():
    with pytest.raises(RuleError, match="'<or>' names no alternative"):
        match("abc", "<or>")
    with pytest.raises(RuleError, match="'= 4' compares numbers, and 'x' is none"):
        match("x", "= 4")


@pytest.mark.parametrize("requirement", ["4", "s== 4", ">=", "", "<or> 4", "=4"])
def test_only_a_number_comparison_is_one(requirement):
    assert numeric_comparison(requirement) is None


def test_a_number_comparison_gives_operator_and_number():
    compare, number = numeric_comparison("= 4 and more")
    assert (compare(5, number), compare(3, number)) == (True, False)
