# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each kind of process during builds and moves, on RabbitMQ and PostgreSQL; `make soak` has 50 rounds."""

import pytest
from tests.services.crashing_cluster import CrashingCluster


@pytest.fixture(scope="module")
def cluster(broker, databases, tmp_path_factory):
    addresses = {"database": databases.create("postgresql"), "broker": broker.address()}
    made = CrashingCluster(tmp_path_factory.mktemp("kills"), **addresses, agents=4, processes=2)
    yield made
    made.close()


def test_killed_during_builds(cluster):
    """A conductor between scheduling and cast, a scheduler whose claim is committed, an agent before it built."""
    cluster.arm(
        "conductor.before.ServerMessages.wake", "scheduler.after.Ledger.claim", "compute.before.FakeDriver.spawn"
    )
    for number in range(6):
        cluster.create(f"built-{number}")
    cluster.wait_for_crashes()
    cluster.settle()
    assert cluster.check() == {"active": 6, "errors": 0}


def test_killed_during_moves(cluster):
    """An agent after it built, one that has migrated a guest, a scheduler before its claim, a conductor after one."""
    cluster.arm(
        "compute.after.FakeDriver.live_migrate",
        "scheduler.before.Ledger.claim_and_move",
        "conductor.after.SchedulerClient.select_destinations",
    )
    live, cold = cluster.create("live"), cluster.create("cold")
    cluster.settle()
    cluster.client.live_migrate_server(live[0])
    cluster.client.migrate_server_cold(cold[0])
    cluster.wait_for_crashes()
    cluster.arm("compute.after.FakeDriver.spawn")
    cluster.create("late", 2)
    cluster.wait_for_crashes()
    cluster.settle()
    cluster.confirm_all()
    assert cluster.check()["active"] == 10
