# SPDX-License-Identifier: Apache-2.0
"""Which columns of a service hold what a source says of it."""

from datetime import UTC, datetime, timedelta

import pytest

from roost.model import Service
from roost.records.services import AGENT, LONGEST_HEARTBEAT_AGE, heartbeat_columns, service_row, states_liveness

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (Service(), (True, None, NOW)),
        (Service(up=True, seconds_since_seen=5.0), (True, None, NOW)),
        (Service(up=False, seconds_since_seen=5.0), (False, None, None)),
        (Service(seconds_since_seen=5.0), (False, NOW - timedelta(seconds=5), NOW)),
        (Service(seconds_since_seen=-5.0), (False, NOW + timedelta(seconds=5), NOW)),
        (Service(seconds_since_seen=-1e300), (False, NOW + LONGEST_HEARTBEAT_AGE, NOW)),
    ],
)
def test_signs_of_life(service, expected):
    assert tuple(heartbeat_columns(service, NOW).values()) == expected
    assert states_liveness(service) is (service != Service())


def test_a_service_is_that_of_nova_compute():
    row = service_row("a", Service(disabled=True, disabled_reason="fan", forced_down=True), NOW)
    assert (AGENT, row["topic"]) == ("nova-compute", "compute")
    assert (row["disabled"], row["disabled_reason"], row["forced_down"]) == (True, "fan", True)
    assert row["uuid"] == service_row("a", Service(), NOW)["uuid"] != service_row("b", Service(), NOW)["uuid"]
