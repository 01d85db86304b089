# SPDX-License-Identifier: Apache-2.0
"""The search for regular expressions, beside Python's own, which goes back and forth where this one does not."""

import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import BadInput
from roost.records.text_search import MOST_WORK, TextSearch

PIECES = st.sampled_from(["a", "B", "1", "-", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\W", r"\.", "^", "$"])
REPEATED = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])
PATTERNS = st.recursive(
    PIECES,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"({two[0]}|{two[1]})"),
        st.tuples(inner, REPEATED).map(lambda two: f"({two[0]}){two[1]}"),
    ),
    max_leaves=8,
)
TEXTS = st.text("aAbBcC1-.", max_size=8)


def found(pattern, *texts):
    search = TextSearch("name", pattern)
    return [text for text in texts if search.is_in(text)]


@settings(max_examples=300, deadline=None)
@given(PATTERNS, st.lists(TEXTS, max_size=4))
def test_it_finds_what_python_finds(pattern, texts):
    assert found(pattern, *texts) == [text for text in texts if re.search(pattern, text, re.IGNORECASE)]


@settings(max_examples=300, deadline=None)
@given(PATTERNS, TEXTS)
def test_like_leaves_out_nothing_that_is_found(pattern, text):
    like = TextSearch("name", pattern).like
    plain = "".join(".*" if each == "%" else "." if each == "_" else re.escape(each) for each in like.text)
    has = re.fullmatch(plain, text, re.IGNORECASE) is not None
    is_found = re.search(pattern, text, re.IGNORECASE) is not None
    assert has == is_found if like.is_exact else has or not is_found


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("web-[0-9]", ["web-1", "web-2"]),
        ("^web-[123]$", ["web-1", "web-2"]),
        ("web-1|web-2", ["web-1", "web-2"]),
        ("(web)-1", ["web-1"]),
        ("web-1+", ["web-1"]),
        (r"^.*\-instance\-[0-9]+$", ["my-instance-07"]),
        ("[[:digit:]]{2}", ["my-instance-07"]),
        ("ÄP+FEL", ["äpfel"]),
        ("^[^w]", ["my-instance-07", "äpfel"]),
        ("^$", [""]),
    ],
)
def test_examples(pattern, texts):
    assert found(pattern, "web-1", "web-2", "my-instance-07", "äpfel", "") == texts


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a|a)*b", ".*.*.*.*.*.*=", "(.*a){20}!!", "(a*)*b"])
def test_no_pattern_takes_exponential_time(pattern):
    """D28: a search that goes back takes longer for each of these than the universe is old."""
    search = TextSearch("name", pattern)
    assert not search.is_in("a" * 254 + "!")
    assert search.work < MOST_WORK / 20


def test_a_search_that_costs_too_much_is_given_up():
    search = TextSearch("name", "[ab]*a[ab]{200}c")
    bits = (f"{number:0250b}".translate({48: "a", 49: "b"}) for number in range(1, 2**250, 2**243 + 12345678901))
    with pytest.raises(BadInput, match="takes too long"):
        any(map(search.is_in, bits))


def test_punctuation_stands_for_itself():
    for each in set(string.punctuation) - set("^$.*+?()[|\\{"):
        assert found(each, each, "x") == [each]
    for each in string.punctuation:
        assert found(f"\\{each}", each, "x") == [each]
