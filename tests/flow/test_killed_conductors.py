# SPDX-License-Identifier: Apache-2.0
"""A conductor is killed after each call in turn, during builds and deletions: the next one finishes what it left."""

import pytest
from tests.flow.whole_cloud import WholeCloud
from tests.unit.compute.agents import Killed, KillSwitch

MOST_CALLS = 30
"""More than a conductor makes in any of these scenarios."""


class AlwaysKills(KillSwitch):
    """Kills after a call that fails, too."""

    def count(self, call):
        number, self.calls = self.calls, self.calls + 1
        try:
            return call()
        finally:
            if number == self.number:
                raise Killed


def build_with_a_retry(cloud):
    cloud.fail_builds_on("a")
    cloud.boot(count=2, group="apart")


def build_nowhere(cloud):
    cloud.boot(flavor="huge")


def delete(cloud):
    for server in cloud.client().list_servers({}):
        cloud.client().delete_server(server["id"])


def delete_without_host(cloud):
    cloud.boot(flavor="huge")
    delete(cloud)


@pytest.mark.parametrize("scenario", [build_with_a_retry, build_nowhere, delete, delete_without_host])
def test_no_server_is_stuck_and_nothing_leaks_wherever_the_conductor_is_killed(tmp_path, scenario):
    for number in range(MOST_CALLS):
        folder = tmp_path / str(number)
        folder.mkdir()
        if not was_killed(WholeCloud(folder), scenario, number):
            break
    assert 1 < number < MOST_CALLS - 1


def was_killed(cloud, scenario, number):
    """Whether the conductor made that many calls. It is replaced, and after a while everything is as it should be."""
    is_deletion = scenario in (delete, delete_without_host)
    if scenario is delete:
        cloud.boot()
    switch = AlwaysKills(number)
    cloud.replace_conductor(switch)
    try:
        scenario(cloud)
        is_killed = False
    except Killed:
        is_killed = True
    cloud.replace_conductor()
    for _ in range(3):
        cloud.pass_time(61)
        cloud.janitor.run()
    if is_killed and scenario is delete:
        delete(cloud)  # the client asks again for those that it had not come to
    check(cloud, is_deletion and not (is_killed and scenario is delete_without_host))
    cloud.close()
    return is_killed


def check(cloud, are_deleted):
    servers = cloud.client().list_servers({})
    assert not (are_deleted and servers)
    for server in servers:
        assert (server["status"], server["task_state"]) in (("ACTIVE", None), ("ERROR", None))
        is_running = server["status"] == "ACTIVE"
        assert cloud.places(cloud.store.get(server["id"])) == ([server["host"]] if is_running else [])
        assert is_running or server["fault"]["message"]
    cloud.clock.seconds += 601
    cloud.cleaning.run()
    assert cloud.findings() == []
