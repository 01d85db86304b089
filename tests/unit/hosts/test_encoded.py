# SPDX-License-Identifier: Apache-2.0
from types import MappingProxyType

import numpy as np
import pytest

from roost.hosts.encoded import Encoded, freeze


def test_equal_values_share_a_code():
    column = Encoded(["x86_64", "aarch64", "x86_64"])
    assert column.codes.tolist() == [0, 1, 0]
    assert column.values == ["x86_64", "aarch64"]


def test_values_come_back_as_they_were():
    value = {"arch": "x86_64", "cores": [1, 2]}
    assert Encoded(["a", value]).at(1) is value


def test_a_value_may_stand_for_a_run_of_hosts():
    column = Encoded(["a", "b"], repeats=np.array([3, 2]))
    assert column.codes.tolist() == [0, 0, 0, 1, 1]


def test_a_run_may_be_empty():
    assert Encoded(["a", "b"], repeats=np.array([0, 1])).at(0) == "b"


def test_a_column_may_be_empty():
    assert Encoded([]).codes.tolist() == []


def test_setting_a_known_value_uses_its_code():
    column = Encoded(["a", "b", "a"])
    assert column.set(0, "b")
    assert (column.codes.tolist(), column.values) == ([1, 1, 0], ["a", "b"])


def test_setting_a_new_value_adds_a_code():
    column = Encoded(["a", "b"])
    column.set(1, "c")
    assert (column.at(0), column.at(1)) == ("a", "c")


def test_setting_an_equal_value_is_no_change():
    assert not Encoded([{"a": [1]}, "b"]).set(0, {"a": [1]})


def test_a_copy_is_independent():
    column = Encoded(["a", "b"])
    twin = column.copy()
    twin.set(0, "c")
    column.set(1, "d")
    assert ([column.at(0), column.at(1)], [twin.at(0), twin.at(1)]) == (["a", "d"], ["c", "b"])


def test_values_that_nobody_has_any_more_are_forgotten():
    column = Encoded(["still"] * 2)
    for number in range(5000):
        column.set(0, number)
    assert len(column.values) <= 1024 + 2 * 2 + 1
    assert (column.at(0), column.at(1)) == (4999, "still")


def test_values_are_still_found_after_others_were_forgotten():
    column = Encoded(["still"] * 2)
    for number in range(2000):
        column.set(0, number)
    column.set(0, "still")
    assert column.codes[0] == column.codes[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, MappingProxyType({"a": 1})),
        ([1, 2], (1, 2)),
        ([{"a": [1]}], ({"a": (1,)},)),
        (frozenset({"a", "b"}), frozenset({"b", "a"})),
        (None, None),
    ],
)
def test_equal_things_freeze_alike(one, other):
    assert freeze(one) == freeze(other)
    assert hash(freeze(one)) == hash(freeze(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, "1"),
        (1, True),
        (0, False),
        (1, 1.0),
        ([1], ["1"]),
        ({"a": 1}, {"a": True}),
        ({"a": 1}, [("a", 1)]),
        ([1, 2], [2, 1]),
        (None, ""),
        ((), {}),
    ],
)
def test_different_things_freeze_differently(one, other):
    assert freeze(one) != freeze(other)
