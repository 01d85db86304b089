# SPDX-License-Identifier: Apache-2.0
"""Dicts that stay as they are: read like any other, copied into ordinary ones."""

import copy
import json
import pickle

import pytest

from roost.model.kinds import FrozenDict

FROZEN = FrozenDict({"a": 1, "b": [2]})
CHANGES = [
    lambda it: it.__setitem__("a", 2),
    lambda it: it.__delitem__("a"),
    lambda it: it.__ior__({"a": 2}),
    lambda it: it.update(a=2),
    lambda it: it.setdefault("c", 2),
    lambda it: it.pop("a"),
    lambda it: it.popitem(),
    lambda it: it.clear(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_it_cannot_be_changed(change):
    with pytest.raises(TypeError, match="cannot be changed"):
        change(FROZEN)
    assert FROZEN == {"a": 1, "b": [2]}


def test_it_is_a_dict_for_all_who_ask():
    assert isinstance(FROZEN, dict)
    assert json.loads(json.dumps(FROZEN)) == FROZEN
    assert FROZEN | {"c": 3} == {"a": 1, "b": [2], "c": 3}


def test_a_copy_can_be_changed():
    for twin in (copy.deepcopy(FROZEN), FROZEN.copy(), dict(FROZEN)):
        twin["a"] = 2
        assert type(twin) is dict
    copy.deepcopy(FROZEN)["b"].append(3)
    assert FROZEN["b"] == [2]


def test_it_survives_pickling():
    assert type(pickle.loads(pickle.dumps(FROZEN))) is FrozenDict
