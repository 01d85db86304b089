# SPDX-License-Identifier: Apache-2.0
"""D37: as many connections to placement are kept as threads call it, so that none is closed at ordinary load."""

import logging
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.nova_cloud.placement.fault_proxy import FaultProxy

from roost.clock import SystemClock
from roost.nova.backend import NovaCloud
from roost.nova.keystone import CONNECTIONS
from roost.scheduler.all_options import read_options
from roost.services.metrics import Metrics

CLIENTS = 8
OPTIONS = f"""
[DEFAULT]
executor_thread_pool_size = {CLIENTS}
[database]
connection = mysql+pymysql://nova@127.0.0.1:1/nova_cell1
[api_database]
connection = mysql+pymysql://nova@127.0.0.1:1/nova_api
[placement]
auth_type = none
endpoint = http://127.0.0.1:PORT
"""


@pytest.fixture
def proxy():
    made = FaultProxy(0)
    yield made
    made.close()


@pytest.fixture
def client(proxy, tmp_path):
    """Calls placement as a scheduler for so many clients does."""
    file = tmp_path / "nova.conf"
    file.write_text(OPTIONS.replace("PORT", str(proxy.port)))
    shared = {"clock": SystemClock(), "randomness": random.Random(1), "metrics": Metrics()}
    cloud = NovaCloud(read_options([file]), [file], **shared)
    yield cloud._client
    cloud.close()


def test_requests_and_the_parallel_calls_of_one_of_them_keep_their_connections(proxy, client, caplog):
    """D37: 8 clients with a call each, while a read of all providers calls from all its threads."""
    caplog.set_level(logging.WARNING, "urllib3")
    all_together = threading.Barrier(CLIENTS + CONNECTIONS, timeout=20)
    proxy.add("GET", "/", times=99, status=200, body=b"{}", executes=False, before=all_together.wait)
    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        reading = threads.submit(client.map, client.get, [f"/{number}" for number in range(CONNECTIONS)])
        for each in [reading, *(threads.submit(client.get, "/usages") for _ in range(CLIENTS))]:
            each.result()
    assert [each.getMessage() for each in caplog.records] == []
