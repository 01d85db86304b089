# SPDX-License-Identifier: Apache-2.0
"""Which columns of a service hold what a source says of it."""

from datetime import UTC, datetime, timedelta

import pytest

from roost.inventory.services import AGENT, LONGEST_SILENCE, service_row, signs_of_life, speaks_of_life
from roost.model import Service

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        (Service(), (True, None, NOW)),
        (Service(up=True, seconds_since_seen=5.0), (True, None, NOW)),
        (Service(up=False, seconds_since_seen=5.0), (False, None, None)),
        (Service(seconds_since_seen=5.0), (False, NOW - timedelta(seconds=5), NOW)),
        (Service(seconds_since_seen=-5.0), (False, NOW + timedelta(seconds=5), NOW)),
        (Service(seconds_since_seen=-1e300), (False, NOW + LONGEST_SILENCE, NOW)),
    ],
)
def test_signs_of_life(service, expected):
    assert tuple(signs_of_life(service, NOW).values()) == expected
    assert speaks_of_life(service) is (service != Service())


def test_a_service_is_that_of_nova_compute():
    row = service_row("a", Service(disabled=True, disabled_reason="fan", forced_down=True), NOW)
    assert (AGENT, row["topic"]) == ("nova-compute", "compute")
    assert (row["disabled"], row["disabled_reason"], row["forced_down"]) == (True, "fan", True)
    assert row["uuid"] == service_row("a", Service(), NOW)["uuid"] != service_row("b", Service(), NOW)["uuid"]
