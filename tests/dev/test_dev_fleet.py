# SPDX-License-Identifier: Apache-2.0
"""The fleet of `roost dev`, of any size."""

import pytest

from roost.sources.fleet_file import Fleet
from roost.trial.fleet import LEAST_COUNT, MOST_COUNT, DevFleet


@pytest.mark.parametrize("count", [LEAST_COUNT, 11, 17, 50, 200, MOST_COUNT])
def test_a_fleet_has_that_many_hosts_of_every_kind(count):
    fleet = DevFleet.of(count)
    assert len(fleet.kinds) == count
    assert {kind.prefix for kind in fleet.kinds.values()} == {"a", "b", "ssd", "c", "gpu"}
    assert fleet.down != fleet.disabled


def test_it_is_a_fleet_file_with_three_zones():
    fleet = Fleet.load(DevFleet.of(20).document, keeps_records=True)
    assert len(fleet.table) == 20
    assert fleet.zones() == {"zone-a", "zone-b", "zone-c"}
    assert fleet.flavor("train").extra_specs["pci_passthrough:alias"] == "a100:4"
    assert fleet.server_group("apart").policy == "anti-affinity"
