# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.11. Whoever fills the table knows the clock, so the heartbeat rows go through the fleet."""

import pytest

from roost import Fleet
from roost.filters.base import applies_to_rebuild
from roost.filters.compute import ComputeFilter
from roost.testing import make_hosts, make_spec


def table_with(service, service_down_time=60):
    return Fleet.load({"hosts": [{"host": "h1", "service": service}]}).table_at(service_down_time)


@pytest.mark.parametrize(
    ("service", "passes"),
    [
        pytest.param({"seconds_since_seen": 10}, True, id="heartbeat 10 s ago"),
        pytest.param({"seconds_since_seen": 60}, True, id="exactly 60 s ago"),
        pytest.param({"seconds_since_seen": 61}, False, id="61 s ago"),
        pytest.param({"disabled": True, "seconds_since_seen": 0}, False, id="disabled, heartbeat fresh"),
        pytest.param({"forced_down": True, "seconds_since_seen": 0}, False, id="forced down, fresh"),
        pytest.param({"seconds_since_seen": 5}, True, id="never seen, created 5 s ago"),
        pytest.param({"seconds_since_seen": -60}, True, id="a clock 60 s ahead"),
        pytest.param({"seconds_since_seen": -61}, False, id="a heartbeat from the future expires too"),
        pytest.param({"seconds_since_seen": 60.001}, False, id="a fraction of a second too old"),
        pytest.param({}, True, id="nothing known against it"),
        pytest.param({"up": False}, False, id="known to be down"),
        pytest.param({"up": True}, True, id="known to be up"),
        pytest.param({"up": True, "disabled": True}, False, id="up but disabled"),
        pytest.param({"up": True, "forced_down": True}, False, id="up but forced down"),
    ],
)
def test_worked_examples(service, passes):
    assert ComputeFilter().mask(table_with(service), make_spec()).tolist() == [passes]


@pytest.mark.parametrize(("age", "passes"), [(300, True), (301, False)])
def test_service_down_time_decides_when_a_silent_service_is_down(age, passes):
    table = table_with({"seconds_since_seen": age}, service_down_time=300)
    assert ComputeFilter().mask(table, make_spec()).tolist() == [passes]


def test_it_is_asked_once_per_request():
    assert not ComputeFilter().run_filter_for_index(1)


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(ComputeFilter())


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ({"disabled": True}, "the compute service is disabled"),
        (
            {"disabled": True, "disabled_reason": "rack 4 is moving"},
            "the compute service is disabled: rack 4 is moving",
        ),
        ({"forced_down": True}, "the compute service is forced down"),
        ({"up": False}, "the compute service is down"),
        ({"seconds_since_seen": 61}, "the compute service is down"),
    ],
)
def test_the_reason_tells_disabled_from_forced_down_from_silent(service, reason):
    (host,) = make_hosts(1, service=service)
    assert ComputeFilter().reason(host, make_spec()) == reason
