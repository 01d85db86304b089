# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 3: metadata of a host's aggregates, the modern column."""

import pytest

from roost.errors import FieldError
from roost.model.group import Aggregate, merged_metadata, raw_values, smallest_value, split_values


def with_values(*values, key="key"):
    return [Aggregate(f"a{number}", {key: value}) for number, value in enumerate(values)]


TWO = [Aggregate("a", {"az": "1, 2", "ssd": "true"}), Aggregate("b", {"ssd": "false", "other": ""})]


def test_raw_values_are_whole_texts_of_those_that_define_the_key():
    assert (raw_values(TWO, "az"), raw_values(TWO, "ssd"), raw_values(TWO, "no")) == (
        {"1, 2"},
        {"true", "false"},
        set(),
    )


def test_split_values_are_pieces_between_commas_without_blanks():
    assert split_values(TWO, "az") == {"1", "2"}


def test_an_empty_text_is_a_value():
    assert split_values(TWO, "other") == {""}


def test_merged_metadata_holds_every_key_split():
    assert merged_metadata(TWO) == {"az": {"1", "2"}, "ssd": {"true", "false"}, "other": {""}}


def test_merged_metadata_for_a_key_holds_all_keys_of_those_that_define_it():
    assert merged_metadata(TWO, "az") == {"az": {"1", "2"}, "ssd": {"true"}}


@pytest.mark.parametrize(
    ("values", "number"),
    [
        pytest.param([], None, id="none"),
        pytest.param(["10"], 10, id="one"),
        pytest.param(["10", "9"], 9, id="the smallest as a number"),
        pytest.param(["XX", "20"], None, id="one bad value spoils all"),
        pytest.param(["10.5"], None, id="a fraction is no int"),
        pytest.param(["9,10"], None, id="not split at commas"),
        pytest.param([" 10 "], 10, id="blanks around"),
        pytest.param(["-3", "+2"], -3, id="signs"),
    ],
)
def test_the_smallest_whole_number(values, number):
    assert smallest_value(with_values(*values), "key", int) == number


@pytest.mark.parametrize(("values", "number"), [(["10.5", "9"], 9.0), (["2", "-1.5"], -1.5), (["1", "bogus"], None)])
def test_the_smallest_float(values, number):
    assert smallest_value(with_values(*values), "key", float) == number


def test_the_zone_of_an_aggregate_is_its_metadata():
    assert Aggregate("a", {"availability_zone": "az1"}).availability_zone == "az1"
    assert Aggregate("a").availability_zone is None


def test_metadata_is_text():
    assert Aggregate("a", {"ssd": True, "max": 8}).metadata == {"ssd": "true", "max": "8"}


@pytest.mark.parametrize("fields", [{"name": ""}, {"name": 5}, {"metadata": []}, {"hosts": 5}])
def test_a_bad_field_is_an_error_that_names_it(fields):
    with pytest.raises(FieldError, match=f"^{next(iter(fields))}: "):
        Aggregate(**({"name": "a"} | fields))
