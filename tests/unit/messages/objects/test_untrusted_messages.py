# SPDX-License-Identifier: Apache-2.0
"""Whatever comes in: a request, or one clear error; never anything else."""

import copy
import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from roost.errors import BadInput
from roost.messages.objects.aggregates_instances import aggregates_from_object, instances_from_object
from roost.messages.objects.notifications import legacy_payload, versioned_payload
from roost.messages.objects.request import request_from_object, request_to_object
from roost.messages.objects.selections import SelectedHost, selection_from_object
from roost.messages.objects.to_objects import NovaObjects, request_from_dicts
from roost.model import RequestSpec

RECORDED = Path(__file__).parents[3] / "wire" / "recorded"
FULL = json.loads((RECORDED / "request_spec.full.json").read_text())
LEGACY = json.loads((RECORDED / "legacy.full.json").read_text())
SELECTION = json.loads((RECORDED / "selection.limits.json").read_text())
INSTANCES = json.loads((RECORDED / "instance_list.json").read_text())

WORDS = st.sampled_from(
    ["id", "uuid", "objects", "hosts", "cells", "1.15", "2.0", "affinity", "-1", "0", "1" * 30, ""]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | WORDS
    | st.sampled_from([10**400, -1, 2**63, 1e308])
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4),
)


def places_in(value, path=()):
    """Every place in a message at which something else could stand."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places_in(inner, (*path, key))


def spoilt(message, path, value):
    """The message with something else at one place."""
    if not path:
        return value
    message = copy.deepcopy(message)
    inside = message
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    return message


def mistakes(message):
    return st.builds(spoilt, st.just(message), st.sampled_from(list(places_in(message))), JSON)


def refused(read, *arguments):
    """What came of reading it: the value, or the error as somebody would see it."""
    try:
        return read(*arguments), ""
    except BadInput as error:
        return None, str(error)


def check_request(read):
    spec, error = refused(read)
    if error:
        return
    assert isinstance(spec, RequestSpec)
    assert request_from_object(json.loads(json.dumps(request_to_object(spec)))) is not None
    json.dumps([legacy_payload(spec), versioned_payload(spec)])
    assert spec.amounts is not None
    assert spec.traits is not None


@settings(max_examples=400, deadline=None)
@given(JSON | mistakes(FULL))
def test_a_request_or_a_clear_error(primitive):
    check_request(lambda: request_from_object(primitive))


@settings(max_examples=400, deadline=None)
@given(mistakes(LEGACY))
def test_a_request_from_dicts_or_a_clear_error(message):
    dicts = message if isinstance(message, dict) else {}
    check_request(lambda: request_from_dicts(dicts.get("request_spec"), dicts.get("filter_properties")))


@settings(max_examples=200, deadline=None)
@given(JSON, JSON)
def test_any_two_values_as_dicts(request_spec, filter_properties):
    check_request(lambda: request_from_dicts(request_spec, filter_properties))


@settings(max_examples=200, deadline=None)
@given(JSON | mistakes(SELECTION))
def test_a_selection_or_a_clear_error(primitive):
    chosen, error = refused(selection_from_object, primitive)
    assert error or isinstance(chosen, SelectedHost)


@settings(max_examples=200, deadline=None)
@given(JSON | mistakes(INSTANCES))
def test_instances_aggregates_and_replies_or_a_clear_error(primitive):
    for read in (instances_from_object, aggregates_from_object, NovaObjects().from_wire):
        value, error = refused(read, primitive)
        assert error or value is not None or primitive is None


def test_what_is_far_too_deep_is_an_error_too():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for path in (("nova_object.data", "scheduler_hints"), ("nova_object.data", "flavor"), ("nova_object.data", "id")):
        check_request(lambda path=path: request_from_object(spoilt_shallow(FULL, path, deep)))


def spoilt_shallow(message, path, value):
    inner = {**message[path[0]], path[1]: value}
    return {**message, path[0]: inner}
