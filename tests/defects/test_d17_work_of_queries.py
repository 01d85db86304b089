# SPDX-License-Identifier: Apache-2.0
"""D17: a query of a tenant costs a bounded amount of work, however long it is and however many hosts there are."""

import json
import time

import pytest
from tests.flow.cloud import UUID, request

from roost.errors import RemoteFailure, RuleError
from roost.filters.json_query import MAX_QUERY_VALUES, MOST_STEPS, JsonFilter
from roost.messages.objects.request import request_to_object
from roost.model.image_property_values import parse_version_predicate
from roost.testing import make_hosts, make_spec


def hosts(count):
    """Hosts none of which equals another in free memory."""
    return make_hosts(count, free_ram_mb=[1000 + each for each in range(count)], vcpus_used=1)


def answer(query, count):
    """The mask or the error, and the seconds of CPU."""
    asked, spec = hosts(count), make_spec(scheduler_hints={"query": json.dumps(query)})
    started = time.process_time()
    try:
        return JsonFilter().mask(asked, spec), time.process_time() - started
    except RuleError as error:
        return error, time.process_time() - started


def comparisons(count):
    return ["and", *([">=", "$free_ram_mb", each % 9] for each in range(count))]


def test_d17_a_query_of_62_kilobytes_is_refused_before_any_host_is_looked_at():
    query = comparisons(2300)
    assert 60_000 < len(json.dumps(query)) < 64_000
    error, seconds = answer(query, 500)
    assert str(error) == f"JsonFilter: the query has 9202 values (at most {MAX_QUERY_VALUES}: ask for less)"
    assert seconds < 0.2  # it was 3.7 s


def test_d17_the_caller_is_told_in_one_line_that_the_request_is_wrong(make_cloud):
    cloud = make_cloud({"a": {}}, {"filter_scheduler": {"enabled_filters": ["JsonFilter"]}})
    cloud.service()
    asked = request(scheduler_hints={"query": json.dumps(comparisons(2300))})
    with pytest.raises(RemoteFailure, match="Invalid: JsonFilter: the query has 9202 values") as caught:
        cloud.send("select_destinations", spec_obj=request_to_object(asked), instance_uuids=[UUID % 1])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        comparisons(MAX_QUERY_VALUES // 4 - 1),
        ["=", comparisons(MAX_QUERY_VALUES // 4 - 2), True],
        ["not", comparisons(MAX_QUERY_VALUES // 4 - 2)],
        ["in", "$host", *(f"host{each}" for each in range(MAX_QUERY_VALUES - 3))],
        ["or", *(["=", "$hypervisor_type", "x"] for _ in range(MAX_QUERY_VALUES // 4 - 1))],
    ],
    ids=["comparisons", "compared", "negated", "a list of hosts", "texts"],
)
def test_d17_the_largest_query_takes_less_than_a_tenth_of_what_it_took(query):
    mask, seconds = answer(query, 500)
    assert len(mask) == 500
    assert seconds < 0.37


@pytest.mark.parametrize(
    "query",
    [
        ["or", *(["=", "$free_ram_mb", "x"] for _ in range(480))],
        ["or", *(["=", "$host", f"${name}"] for name in ["nodename"] * 480)],
        ["or", *(["in", "$instances", *range(400)] for _ in range(4))],
    ],
    ids=["numbers and texts", "names", "mappings"],
)
def test_d17_what_is_no_array_operation_is_bounded_too(query):
    error, seconds = answer(query, 5000)
    assert f"the query takes more than {MOST_STEPS} steps on 5000 hosts" in str(error)
    assert seconds < 3


def test_d17_an_ordinary_query_is_answered_on_many_hosts():
    query = ["and", [">=", "$free_ram_mb", 1024], ["=", "$hypervisor_type", "QEMU"], ["not", "$service.disabled"]]
    mask, _ = answer(query, 20_000)
    assert mask.tolist() == (hosts(20_000).free_ram_mb >= 1024).tolist()


def test_d17_a_long_version_predicate_of_an_image_is_parsed_once():
    text = ",".join([">=1.0"] * 10_000)
    assert parse_version_predicate(text) is parse_version_predicate(text)
