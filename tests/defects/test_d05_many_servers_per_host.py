# SPDX-License-Identifier: Apache-2.0
"""D5: what a claim costs does not depend on max_server_per_host."""

import tracemalloc

from tests.defects.clouds import INSTANCE, new_group
from tests.flow.cloud import UUID, hosts_of, request


def test_d5_a_huge_max_server_per_host_costs_nothing(make_cloud):
    cloud = make_cloud({"a": {}})
    loop, group = cloud.manager().claims, new_group(rules={"max_server_per_host": 4 * 10**6})
    loop.select(request(), [UUID % 9])
    tracemalloc.start()
    loop.select(request(instance_group=group), [INSTANCE])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * 2**20, f"{peak >> 20} MiB for one claim"
    assert hosts_of(loop.select(request(instance_group=group), [UUID % 2])) == ["a"]
