# SPDX-License-Identifier: Apache-2.0
"""D38: the database was away for longer than `service_down_time`; no living host is given up when it is back."""

import pytest
from tests.flow.moving_cloud import SECONDS_UNTIL_DOWN, MovingCloud

from roost.errors import BrokerUnreachable, RemoteFailure
from roost.records.outages import save_probe

OUTAGE_SECONDS = 80


class InterruptedCloud(MovingCloud):
    """A cloud whose conductor probes the database, which is away for some time."""

    def probe(self):
        save_probe(self.engine, self.store.times, SECONDS_UNTIL_DOWN)

    def pass_time(self, seconds, silent=()):
        """Time goes on; conductors probe the database, and agents on all but the silent hosts send heartbeats."""
        for _ in range(seconds // 3):
            self.clock.seconds += 3
            self.probe()
            self.send_heartbeats(set(self.hosts) - set(silent))

    def interrupt(self):
        """The database is away: nothing is written, and nothing was written when it is back."""
        self.clock.seconds += OUTAGE_SECONDS


@pytest.fixture
def cloud(tmp_path):
    cloud = InterruptedCloud(tmp_path)
    cloud.probe()
    cloud.send_heartbeats(cloud.hosts)
    yield cloud
    assert cloud.findings() == []
    cloud.close()


def test_a_build_under_way_stays_on_its_host(cloud):
    cloud.silence("a", "b", "c")  # they are at it, and have not answered
    (uuid,) = cloud.boot()
    server = cloud.store.get(uuid)
    chosen = server.task.target_host
    cloud.interrupt()
    server = cloud.clean_up(server)
    assert (server.task_state, server.task.target_host, server.task.attempts) == ("scheduling", chosen, ())


def test_an_unshelve_under_way_stays_on_its_host(cloud):
    server = cloud.ask("shelve_server", cloud.build("a"))
    cloud.silence("a", "b", "c")
    server = cloud.ask("unshelve_server", server)
    chosen = server.task.target_host
    cloud.interrupt()
    assert cloud.clean_up(server).task.target_host == chosen


def test_a_server_cannot_be_evacuated_off_a_host_that_had_no_time_for_a_heartbeat(cloud):
    server = cloud.build("a")
    cloud.interrupt()
    with pytest.raises(RemoteFailure, match="Compute service of a is still in use"):
        cloud.ask("evacuate_server", server)
    cloud.pass_time(SECONDS_UNTIL_DOWN + 6, silent=["a"])
    cloud.silence("a")
    assert cloud.ask("evacuate_server", server).host != "a"


def test_new_servers_find_a_host_at_once(cloud):
    cloud.interrupt()
    (uuid,) = cloud.boot()
    assert cloud.show(uuid)["status"] == "ACTIVE"


def test_a_host_that_died_in_the_outage_is_given_up_after_the_down_time(cloud):
    cloud.silence("a", "b", "c")
    (uuid,) = cloud.boot()
    chosen = cloud.store.get(uuid).task.target_host
    cloud.interrupt()
    cloud.start()
    cloud.silence(chosen)
    cloud.pass_time(SECONDS_UNTIL_DOWN + 6, silent=[chosen])
    server = cloud.clean_up(cloud.store.get(uuid))
    assert (server.vm_state, server.task_state) == ("active", None)
    assert server.host != chosen


def test_a_build_waits_while_no_scheduler_can_be_reached(cloud):
    def unreachable():
        raise BrokerUnreachable("the broker is away")

    cloud.transport.before["select_destinations"] = [unreachable]
    cloud.clock.sleep = lambda seconds: cloud.transport.before.setdefault("select_destinations", [unreachable])
    (uuid,) = cloud.boot()
    server = cloud.store.get(uuid)
    assert (server.vm_state, server.task_state) == ("building", "scheduling")
    cloud.transport.before.clear()
    cloud.pass_time(SECONDS_UNTIL_DOWN + 6)
    assert cloud.clean_up(server).vm_state == "active"
