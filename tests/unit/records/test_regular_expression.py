# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of clients: what is understood, what LIKE says of it, and what is refused with its place."""

import pytest

from roost.errors import BadInput
from roost.records.text_search import like_pattern, parse_regular_expression


@pytest.mark.parametrize(
    ("regex", "pattern"),
    [
        ("web", "%web%"),
        ("^web", "web%"),
        ("web$", "%web"),
        ("^web$", "web"),
        ("^web-.*", "web-%"),
        ("^w.b$", "w_b"),
        ("^w.+b$", "w_%b"),
        ("^w.{2}b$", "w__b"),
        (r"^a\.b$", "a.b"),
        ("^a[.]b$", "a.b"),
        (r"cost\$", "%cost$%"),
        ("100%_!", "%100!%!_!!%"),
        ("a{b", "%a{b%"),
        ("^(?:web)-(db)$", "web-db"),
        ("", "%"),
        ("^", "%"),
        ("^$", ""),
    ],
)
def test_like_says_just_the_same_of_a_simple_one(regex, pattern):
    found = like_pattern(parse_regular_expression("name", regex))
    assert (found.text, found.is_exact) == (pattern, True)


@pytest.mark.parametrize(
    ("regex", "pattern"),
    [
        ("^web-[0-9]+$", "web-_%"),
        ("web-1|web-2", "%"),
        ("^(web|db)-1$", "%-1"),
        ("^a?b$", "%b"),
        ("(a+)+$", "%a%"),
        ("^ä$", "_"),
        ("a(^b|c$)d", "%a%d%"),
        ("%*!+", "%!!%"),
    ],
)
def test_like_says_what_a_text_has_to_have_at_least(regex, pattern):
    found = like_pattern(parse_regular_expression("name", regex))
    assert (found.text, found.is_exact) == (pattern, False)


@pytest.mark.parametrize(
    ("regex", "problem", "place"),
    [
        ("a(b", "a bracket ( without its )", 2),
        ("a)b", "a bracket ) without its (", 2),
        ("a[b", "a bracket [ without its ]", 2),
        ("*web*", "* with nothing to repeat", 1),
        ("a|+", "+ with nothing to repeat", 3),
        ("{2}", "{ with nothing to repeat", 1),
        ("a**", "a repetition of a repetition", 3),
        ("a+{2}", "a repetition of a repetition", 3),
        ("^*", "a repeated ^ or $", 1),
        (r"(a)\1", r"\1, which is no character", 4),
        (r"\bweb", r"\b, which is no character", 1),
        ("web\\", "which is no character", 4),
        ("(?=a)", "a look around", 1),
        ("(?P<n>a)", "a group of a special kind", 1),
        ("(?i)a", "a group of a special kind", 1),
        ("a{3,2}", "not rising", 2),
        ("a{256}", "not 0 to 255", 2),
        ("[b-a]", "a range that runs backwards", 2),
        ("[[:word:]]", "a class that is none of alnum", 2),
        ("[[.a.]]", "a class that is none of alnum", 2),
        ("(" * 21 + ")" * 21, "more than 20 groups within one another", 21),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(regex, problem, place):
    with pytest.raises(BadInput) as caught:
        parse_regular_expression("name", regex)
    assert "name: " in str(caught.value)
    assert problem in str(caught.value)
    assert f" at character {place} " in str(caught.value)


@pytest.mark.parametrize("regex", ["x" * 256, "(a{100}){100}", "((((a{9}){9}){9}){9}){9}"])
def test_a_long_one_is_refused(regex):
    with pytest.raises(BadInput, match="at most"):
        parse_regular_expression("name", regex)
