# SPDX-License-Identifier: Apache-2.0
"""What a client hands to its transport, and what it gets back."""

import json

import pytest

from roost.errors import FieldError
from roost.hosts import Instance
from roost.messages.objects.selections import SelectedHost
from roost.messages.objects.to_objects import NovaObjects
from roost.model import Aggregate
from roost.testing import make_spec

OBJECTS = NovaObjects()
CHOSEN = SelectedHost("h", "n", "u", "00000000-0000-4000-8000-000000000008", {}, {"u": {"VCPU": 1}}, "az")


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "text",
        [1, ["a", None]],
        {"a": {"b": [1]}},
        [],
        [[CHOSEN, CHOSEN], [CHOSEN]],
        {"spec_obj": make_spec(instance_uuid="i1"), "instance_uuids": ["i1"]},
        {"aggregates": [Aggregate("a", id=1)]},
        {"instance_info": [Instance("i1", "p")]},
    ],
)
def test_a_value_goes_over_the_wire_and_back(value):
    assert OBJECTS.from_wire(json.loads(json.dumps(OBJECTS.to_wire(value)))) == value


def test_sets_and_tuples_are_lists_on_the_wire():
    assert OBJECTS.to_wire({"a": {"y", "x"}, "b": (1, 2)}) == {"a": ["x", "y"], "b": [1, 2]}


def test_an_object_that_nobody_knows_stays_as_it_came(envelope):
    assert OBJECTS.from_wire([envelope("Novelty", a=1)]) == [envelope("Novelty", a=1)]
    assert OBJECTS.from_wire(envelope(5)) == envelope(5)


def test_a_reply_is_not_followed_into_any_depth():
    deep = []
    for _ in range(50):
        deep = [deep]
    with pytest.raises(FieldError, match="is nested too deeply"):
        OBJECTS.from_wire(deep)


def test_a_mistake_in_a_reply_is_named_with_its_path(envelope):
    with pytest.raises(FieldError, match=r"^result\[0\]\[1\].service_host: None is not text"):
        OBJECTS.from_wire([["x", envelope("Selection")]])
