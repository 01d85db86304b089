# SPDX-License-Identifier: Apache-2.0
"""D3 on real databases: four schedulers, each a process, race for devices, CPUs and pages; a part of `make soak`."""

import pytest
from tests.soak.device_race import race_for_devices


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "sqlite"])
def test_d3_schedulers_give_out_exactly_as_many_devices_and_cpus_as_there_are(databases, kind, tmp_path):
    address = f"sqlite:///{tmp_path}/race.db" if kind == "sqlite" else databases.create(kind)
    figures = race_for_devices(address, hosts=3, rounds=2, seed=1)
    assert (figures["gpu"], figures["pinned"]) == (12, 12)
