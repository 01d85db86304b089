# SPDX-License-Identifier: Apache-2.0
"""One request of hundreds of instances, all default weighers: host by host what a plain loop picks."""

import pytest
from tests.parity.many_instances import alike, crowded, group, place_both, varied


@pytest.mark.parametrize(
    ("make", "seed", "instance_group", "fewest"),
    [
        pytest.param(varied, 1, None, 2, id="varied hosts"),
        pytest.param(alike, 2, None, 100, id="many equal hosts"),
        pytest.param(varied, 3, group("soft-anti-affinity"), 50, id="soft anti-affinity"),
        pytest.param(crowded, 4, group("soft-affinity"), 60, id="soft affinity on hosts that fill up"),
    ],
)
def test_200_instances_go_where_the_plain_loop_puts_them(make, seed, instance_group, fewest):
    picked, expected = place_both(make, seed, hosts=500, instances=200, instance_group=instance_group)
    assert picked == expected
    assert len(set(expected)) >= fewest, "too few hosts to say much"


@pytest.mark.parametrize(
    "instance_group", [None, group("soft-anti-affinity")], ids=["no group", "soft anti-affinity"]
)
def test_more_instances_than_equal_hosts_go_where_the_plain_loop_puts_them(instance_group):
    picked, expected = place_both(alike, 5, hosts=80, instances=400, instance_group=instance_group)
    assert picked == expected
    assert len(set(expected)) == 80, "some host had no second instance to settle a tie for"
