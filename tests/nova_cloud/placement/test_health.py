# SPDX-License-Identifier: Apache-2.0
"""What is an outage of placement: two lines in the log, however many calls fail."""

import logging

import pytest
from tests.nova_cloud.own_log import own_messages
from tests.nova_cloud.placement.fault_proxy import Fault

from roost.errors import PlacementError, PlacementNotFound, PlacementRefused, PlacementUnavailable
from roost.nova.placement.client import PlacementHealth

LIST = "/resource_providers"
NO_TOKEN = "GET /resource_providers: placement answered 401 (look at the credentials in [placement])"


class Watched:
    """A client behind the proxy, whose health has a clock that the test turns."""

    def __init__(self, cloud):
        self.now = 1000.0
        self.health = PlacementHealth(lambda: self.now, read_interval=5)
        self.client, self.proxy = cloud.open_client(cloud.proxy.port, health=self.health), cloud.proxy

    def fail(self, error, **fault):
        self.proxy.faults.append(Fault("GET", LIST, **fault))
        with pytest.raises(error):
            self.client.get(LIST)


@pytest.fixture
def watched(cloud, caplog):
    caplog.set_level(logging.INFO, "roost.nova.placement.client")
    return Watched(cloud)


@pytest.mark.parametrize("status", [500, 503])
def test_many_failures_are_one_line_and_the_end_is_another(watched, caplog, status):
    watched.client.get(LIST)
    for _ in range(5):
        watched.now += 5
        watched.fail(PlacementUnavailable, status=status, executes=False)
    said = f"GET /resource_providers: placement answered {status}"
    assert own_messages(caplog) == [f"placement cannot be used, and is tried again: {said}"]
    assert watched.health.trouble == said
    for _ in range(5):
        watched.now += 5
        watched.client.get(LIST)
    assert own_messages(caplog)[1:] == ["placement answers again, after 30 s"]
    assert (watched.health.trouble, watched.health.answered_at) == ("", watched.now)


def test_a_connection_that_is_lost_is_a_failure(watched, caplog):
    watched.fail(PlacementUnavailable, times=2)
    assert len(own_messages(caplog)) == 1
    assert "GET /resource_providers: no connection at 127.0.0.1" in watched.health.trouble


def test_a_token_that_is_refused_once_is_replaced_and_no_outage(watched, caplog):
    watched.proxy.faults.append(Fault("GET", LIST, status=401, executes=False))
    watched.client.get(LIST)
    assert (own_messages(caplog), watched.health.trouble) == ([], "")


def test_a_token_that_is_refused_twice_is_an_outage(watched, caplog):
    watched.fail(PlacementRefused, status=401, times=2, executes=False)
    assert own_messages(caplog) == [f"placement cannot be used, and is tried again: {NO_TOKEN}"]


def test_a_placement_of_which_every_second_call_fails_is_one_outage(watched, caplog):
    for _ in range(10):
        watched.fail(PlacementUnavailable, status=503, executes=False)
        watched.client.get("/allocation_candidates", [("resources", "VCPU:1")])
        watched.now += 5
    assert len(own_messages(caplog)) == 1


def test_a_refusal_is_an_answer(watched, caplog):
    missing = "00000000-0000-4000-8000-000000000000"
    with pytest.raises(PlacementNotFound):
        watched.client.get(f"{LIST}/{missing}/usages")
    with pytest.raises(PlacementError):
        watched.client.get("/allocation_candidates", [("resources", "wrong")])
    assert (watched.health.answered_at, own_messages(caplog)) == (watched.now, [])
