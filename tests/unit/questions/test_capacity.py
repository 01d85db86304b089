# SPDX-License-Identifier: Apache-2.0
"""Counting several flavors: one whose request is not possible does not hide the others."""

import pytest

from roost.errors import BadInput
from roost.model import Flavor, RequestSpec
from roost.questions.plan import count_each, headroom_record
from roost.questions.records import Headroom

SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512, root_gb=0))
SPECS = {"good": SPEC, "bad": SPEC}
FOUND = Headroom(3, True, 2, 1, (), "rack", (), ())


def count(name, spec):
    if name == "bad":
        raise BadInput("not possible")
    return FOUND


def test_a_flavor_that_cannot_be_counted_has_its_error():
    records = [headroom_record(name, each) for name, each in count_each(SPECS, count).items()]
    assert [(each["flavor"], each.get("fits"), each.get("error")) for each in records] == [
        ("good", 3, None),
        ("bad", None, "not possible"),
    ]


def test_where_no_flavor_can_be_counted_the_first_error_is_raised():
    with pytest.raises(BadInput, match="not possible"):
        count_each({"bad": SPEC}, count)


def test_of_flavors_that_are_alike_one_is_counted():
    """D45: large clouds have hundreds of flavors, and many of one size."""
    asked = []

    def count(name, spec):
        asked.append(name)
        return FOUND

    specs = {"one": SPEC, "other": RequestSpec(flavor=Flavor(vcpus=2, memory_mb=512)), "same": SPEC}
    assert count_each(specs, count, lambda spec: spec.flavor.vcpus) == dict.fromkeys(specs, FOUND)
    assert asked == ["one", "other"]


def test_of_no_flavors_there_is_nothing_to_count():
    assert count_each({}, count) == {}
