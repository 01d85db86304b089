# SPDX-License-Identifier: Apache-2.0
"""The cache of parsed values: equal values share a record, distinct values never do, and its size is bounded."""

import copy

import pytest

from roost.errors import FieldError
from roost.messages.objects import request as cache_module
from roost.messages.objects.request import memoised, request_from_object


@pytest.fixture
def seen():
    return []


@pytest.fixture
def take(seen):
    def look(value, where):
        seen.append(value)
        if value == {"is": "wrong"}:
            raise FieldError(where, "is wrong")
        return dict(value)

    return memoised(look)


def test_what_comes_again_is_not_looked_at_again(take, seen):
    first = take({"name": "m1"}, "flavor")
    assert take({"name": "m1"}, "flavor") is first
    assert take({"name": "m2"}, "flavor") == {"name": "m2"}
    assert seen == [{"name": "m1"}, {"name": "m2"}]


@pytest.mark.parametrize("other", [{"n": True}, {"n": "1"}, {"n": 1.0}, {"n": [1]}, {"n": None}])
def test_what_looks_alike_is_not_taken_for_the_same(take, other):
    take({"n": 1}, "flavor")
    taken = take(other, "flavor")
    assert taken["n"] is other["n"]


def test_what_is_refused_is_refused_again_with_its_place(take):
    for where in ("spec_obj.flavor", "request_spec.instance_type"):
        with pytest.raises(FieldError, match=f"^{where}: is wrong"):
            take({"is": "wrong"}, where)


@pytest.mark.parametrize("odd", [{"set": {1}}, {"thing": object()}])
def test_what_is_no_json_is_left_to_the_parser(take, seen, odd):
    assert take(odd, "flavor") == take(odd, "flavor") == odd
    assert seen == [odd, odd]


def test_what_is_long_is_not_kept_and_of_the_rest_not_too_many(take, seen, monkeypatch):
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 3)
    monkeypatch.setattr(cache_module, "MAX_VALUE_BYTES", 20)
    for each in ({"n": "x" * 20}, *({"n": number} for number in range(4)), {"n": "x" * 20}, {"n": 3}, {"n": 0}):
        take(each, "flavor")
    assert [each["n"] for each in seen] == ["x" * 20, 0, 1, 2, 3, "x" * 20, 0]


def test_requests_share_their_flavors_and_images_and_nothing_of_their_own(recorded):
    one = recorded("request_spec.full")
    other = copy.deepcopy(one)
    other["nova_object.data"]["instance_uuid"] = "00000000-0000-4000-8000-00000000ffff"
    first, second = request_from_object(one), request_from_object(other)
    assert first.flavor is second.flavor
    assert first.image is second.image
    assert first.instance_uuid != second.instance_uuid
