# SPDX-License-Identifier: Apache-2.0
"""Which of placement's requests belong to an answer, and how long placement worked on them."""

import pytest
from tests.nova_stack.request_log import calls_for, of_schedulers, seconds_inside

ANSWER = {"request_id": "req-1", "uuids": ["server-1"], "nodes": ["node-1"], "started": 100.0, "seconds": 1.0}


def entry(time=100.5, ms=10, url="/", body="", request_id=None, sender="roost"):
    return {"time": time, "ms": ms, "url": url, "body": body, "request_id": request_id, "from": sender}


def test_calls_are_found_by_request_id():
    mine, other = entry(request_id="req-1"), entry(request_id="req-2", url="/allocations/server-1")
    assert calls_for(ANSWER, [mine, other]) == [mine]


def test_calls_without_request_ids_are_found_by_consumer_and_node():
    claim, check = entry(body='{"server-1": {}}'), entry(url="/resource_providers/node-1/usages")
    assert calls_for(ANSWER, [claim, check, entry(url="/resource_providers/node-2/usages")]) == [claim, check]


def test_calls_for_the_same_node_at_another_time_are_not_meant():
    assert calls_for(ANSWER, [entry(time=99.0, url="/resource_providers/node-1/usages")]) == []


def test_a_request_that_has_no_host_has_no_nodes():
    answer = {name: value for name, value in ANSWER.items() if name != "nodes"}
    assert calls_for(answer, [entry(url="/resource_providers/node-1/usages")]) == []


def test_time_in_which_placement_worked_on_two_calls_counts_once():
    assert seconds_inside([entry(100.0, 20), entry(100.01, 20), entry(101.0, 5)]) == pytest.approx(0.035)


def test_what_computes_and_the_client_sent_is_left_out():
    mine = entry(sender="nova-scheduler keystoneauth1")
    others = [entry(sender="nova-compute keystoneauth1"), entry(sender="python-requests/2")]
    assert of_schedulers([mine, *others]) == [mine]
