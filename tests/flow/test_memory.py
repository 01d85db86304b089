# SPDX-License-Identifier: Apache-2.0
"""D44: a process does not grow with the servers that came and went."""

import gc
import tracemalloc

from tests.flow.whole_cloud import WholeCloud

SERVERS = 24
MOST_BYTES = 250
"""For each server; it was 380 and more where each change of a host kept the names of its columns."""


def test_servers_that_came_and_went_are_forgotten_in_memory(tmp_path):
    cloud = WholeCloud(tmp_path)
    tracemalloc.start()
    try:
        come_and_go(cloud)  # caches fill
        grown = [growth_of_a_round(cloud) for _ in range(3)]
    finally:
        tracemalloc.stop()
    cloud.close()
    assert min(grown) < MOST_BYTES * SERVERS  # what else the process does meanwhile, and caches that fill, only add


def growth_of_a_round(cloud):
    before = traced_bytes()
    come_and_go(cloud)
    return traced_bytes() - before


def come_and_go(cloud):
    for _ in range(SERVERS // 3):
        uuids = cloud.boot(count=3)
        cloud.pass_time(1)
        for uuid in uuids:
            cloud.client().delete_server(uuid)
    for task in cloud.schedulers[-1].background_tasks():
        if task.name == "record decisions":
            task.run()
    cloud.transport.sent.clear()


def traced_bytes():
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
