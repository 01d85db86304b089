# SPDX-License-Identifier: Apache-2.0
"""Attempts and hosts that were tried: spec/drivers-and-rpc.md 5."""

import copy

import pytest

from roost.errors import FieldError
from roost.nova.icehouse.outcomes import (
    Failure,
    MaxRetriesExceeded,
    last_failure,
    populate_filter_properties,
    populate_retry,
    tried_hosts,
    with_no_host_tried,
)

FAILED = {"num_attempts": 1, "hosts": [["a", "n"]], "exc": ["Traceback"], "exc_reason": "no disk"}


def test_the_first_attempt_has_been_nowhere():
    assert populate_retry({"x": 1}, 3, "u") == {"x": 1, "retry": {"num_attempts": 1, "hosts": []}}


def test_each_attempt_counts_one_more():
    retry = populate_retry({"retry": {"num_attempts": 1, "hosts": [["a", "n"]]}}, 3, "u")["retry"]
    assert retry == {"num_attempts": 2, "hosts": [["a", "n"]]}


def test_what_went_wrong_does_not_travel_to_the_next_host():
    assert populate_retry({"retry": FAILED}, 3, "u")["retry"] == {"num_attempts": 2, "hosts": [["a", "n"]]}


def test_what_was_handed_in_is_not_changed():
    given = {"retry": copy.deepcopy(FAILED), "limits": {}}
    before = copy.deepcopy(given)
    changed = populate_retry(given, 3, "u")
    populate_filter_properties(changed, "b", "m", {"vcpu": 4})
    with_no_host_tried(changed)
    assert given == before
    assert changed["retry"]["hosts"] == [["a", "n"]]


@pytest.mark.parametrize("properties", [{}, {"retry": FAILED}])
def test_with_one_attempt_there_is_nothing_to_count(properties):
    assert populate_retry(properties, 1, "u") == properties


@pytest.mark.parametrize("name", ["force_hosts", "force_nodes"])
def test_what_is_forced_to_one_place_is_tried_there_alone(name):
    assert populate_retry({name: ["a"]}, 3, "u") == {name: ["a"]}


def test_several_forced_hosts_leave_a_choice_since_liberty():
    forced = {"force_hosts": ["a", "b"], "force_nodes": []}
    assert populate_retry(forced, 3, "u")["retry"]["num_attempts"] == 1
    assert populate_retry(forced, 3, "u", stays_with_any_force=True) == forced


@pytest.mark.parametrize(("attempts", "most"), [(3, 3), (2, 2), (7, 3)])
def test_one_attempt_too_many_is_told_with_the_last_trouble(attempts, most):
    with pytest.raises(MaxRetriesExceeded) as raised:
        populate_retry({"retry": FAILED | {"num_attempts": attempts}}, most, "u1")
    assert str(raised.value) == f"Exceeded max scheduling attempts {most} for instance u1. Last exception: no disk"


def test_the_last_attempt_is_not_one_too_many():
    assert populate_retry({"retry": {"num_attempts": 2, "hosts": []}}, 3, "u")["retry"]["num_attempts"] == 3


@pytest.mark.parametrize("retry", ["text", ["a"], {"num_attempts": "2"}, {"num_attempts": True}])
def test_a_record_that_is_none_is_a_clear_error(retry):
    with pytest.raises(FieldError, match=r"filter_properties\.retry"):
        populate_retry({"retry": retry}, 3, "u")


def test_the_chosen_host_counts_as_tried_and_its_limits_travel():
    properties = {"retry": {"num_attempts": 2, "hosts": [["a", "n"]]}, "limits": {"vcpu": 1}}
    changed = populate_filter_properties(properties, "b", "m", {"memory_mb": 2048})
    assert changed["retry"]["hosts"] == [["a", "n"], ["b", "m"]]
    assert changed["limits"] == {"memory_mb": 2048}


@pytest.mark.parametrize("properties", [{}, {"retry": {}}, {"retry": None}])
def test_where_nobody_retries_no_host_is_noted(properties):
    assert populate_filter_properties(properties, "b", "m", None) == properties | {"limits": {}}


def test_a_forced_host_takes_no_limits():
    assert populate_filter_properties({"force_hosts": ["b"]}, "b", "m", {"vcpu": 1}) == {"force_hosts": ["b"]}


def test_a_forced_node_takes_limits():
    assert populate_filter_properties({"force_nodes": ["m"]}, "b", "m", {"vcpu": 1})["limits"] == {"vcpu": 1}


def test_a_forced_host_was_not_noted_before_liberty():
    properties = {"force_hosts": ["b"], "retry": {"num_attempts": 1, "hosts": []}}
    noted = populate_filter_properties(properties, "b", "m", {})
    assert noted["retry"]["hosts"] == [["b", "m"]]
    assert populate_filter_properties(properties, "b", "m", {}, stays_with_any_force=True) == properties


def test_another_instance_has_been_nowhere():
    properties = {"x": 1, "retry": {"num_attempts": 2, "hosts": [["a", "n"]]}}
    assert with_no_host_tried(properties) == {"x": 1, "retry": {"num_attempts": 2, "hosts": []}}
    assert with_no_host_tried({"x": 1}) == {"x": 1}


def test_hosts_that_were_tried_are_pairs():
    assert tried_hosts({"retry": {"hosts": [["a", "n"], ["b", None], "odd", ["c"]]}}) == [("a", "n"), ("b", "")]
    assert tried_hosts({}) == []


def test_the_last_failure_names_the_last_host():
    assert last_failure({"retry": FAILED | {"hosts": [["z", "z"], ["a", "n"]]}}) == Failure("a", "n", "no disk")
    assert last_failure({"retry": {"exc": ["Traceback"]}}) == Failure("", "", "")
    assert last_failure({"retry": {"num_attempts": 1, "hosts": [["a", "n"]]}}) is None
    assert last_failure({}) is None
