# SPDX-License-Identifier: Apache-2.0
"""Arguments: taken, or refused with an error like every other."""

import argparse

import pytest

from roost.cli.arguments import group_by_key, key_and_value, whole_number
from roost.cli.commands import Parser
from roost.errors import BadInput


@pytest.fixture
def parser():
    made = Parser(prog="roost try")
    made.add_argument("--count", type=whole_number(least=1, most=9))
    made.add_argument("--colour", choices=("red", "blue"))
    made.add_argument("--availability-zone")
    return made


def test_good_arguments_are_taken(parser):
    assert parser.parse_args(["--count", "3"]).count == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--count", "x"], "--count: 'x' is not a whole number (see roost try --help)"),
        (["--count", "0"], "--count: 0 is too small: at least 1 (see roost try --help)"),
        (["--count", "10"], "--count: 10 is too large: at most 9 (see roost try --help)"),
        (["--cuont", "3"], "unknown argument --cuont (did you mean --count?)"),
        (["--cuont=3"], "unknown argument --cuont=3 (did you mean --count?)"),
        (["--zone", "east"], "unknown argument --zone (did you mean --availability-zone?)"),
        (["--xyzzy"], "unknown argument --xyzzy (see roost try --help)"),
        (["stray"], "unknown argument stray (see roost try --help)"),
    ],
)
def test_bad_arguments_raise_instead_of_leaving(parser, arguments, message):
    with pytest.raises(BadInput) as caught:
        parser.parse_args(arguments)
    assert str(caught.value) == message


def test_options_are_not_abbreviated(parser):
    with pytest.raises(BadInput, match="unknown argument --col"):
        parser.parse_args(["--col", "red"])


@pytest.mark.parametrize("text", ["1_000", "+3", " 3 "])
def test_pythons_own_spellings_of_a_number_will_do(text):
    assert whole_number()(text) == int(text)


@pytest.mark.parametrize("text", ["", "3.0", "0x10", "9" * 5000, "nan"])
def test_what_is_no_whole_number(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number"):
        whole_number()(text)


@pytest.mark.parametrize(("text", "pair"), [("a=b", ("a", "b")), ("a=", ("a", "")), ("a=b=c", ("a", "b=c"))])
def test_a_pair_is_split_at_the_first_sign(text, pair):
    assert key_and_value(text) == pair


def test_values_of_one_key_gather_in_order():
    assert group_by_key([("a", "1"), ("b", "2"), ("a", "3")]) == {"a": ("1", "3"), "b": ("2",)}
