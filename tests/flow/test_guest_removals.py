# SPDX-License-Identifier: Apache-2.0
"""D43: a guest that a server left behind is removed soon, whatever becomes of the message about it."""

import pytest
from sqlalchemy import func, select
from tests.flow.moving_cloud import LARGE, MovingCloud
from tests.unit.compute.agents import Killed, KillSwitch

from roost.compute.drivers.base import GuestSpec
from roost.errors import BrokerUnreachable
from roost.records.service_catalogue import delete_service
from roost.store.schema.fleet import services
from roost.store.schema.servers import guest_removals

NOTICE = "refresh_instance"
SECONDS = 61
"""After so long an agent has been told again, however often that was in vain."""


@pytest.fixture
def cloud(tmp_path):
    cloud = MovingCloud(tmp_path)
    cloud.send_heartbeats(cloud.hosts)
    yield cloud
    cloud.clock.seconds += 601
    cloud.cleaning.run()
    assert cloud.findings() == []
    cloud.close()


@pytest.fixture
def server(cloud):
    return cloud.build("a")


def pass_time(cloud, seconds=SECONDS, silent=()):
    """Time passes, and all conductors do what they do periodically."""
    cloud.pass_time(seconds, silent)
    for conductor in cloud.conductors:
        for task in conductor.tasks():
            task.run()


def count_removals(cloud):
    with cloud.engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(guest_removals))


def count_notices(cloud, host="a"):
    return cloud.transport.sent.count((f"compute.{host}", NOTICE))


def lose_notices(cloud):
    cloud.transport.lost.add(NOTICE)


# --- every step that leaves a guest behind -----------------------------------------------------------


def delete_resized(cloud, server, monkeypatch):
    cloud.ask("resize_server", server, flavor=LARGE)
    cloud.ask("delete_server", server)
    return []


def delete_on_a_host_that_counts_as_down(cloud, server, monkeypatch):
    cloud.pass_time(SECONDS, silent=["a"])
    cloud.ask("delete_server", server)
    return []


def evacuate_from_a_host_that_lives(cloud, server, monkeypatch):
    cloud.pass_time(SECONDS, silent=["a"])
    return [cloud.ask("evacuate_server", server).host]


def confirm_without_the_source(cloud, server, monkeypatch):
    cloud.ask("migrate_server_cold", server)
    cloud.transport.lost.add("confirm_resize")
    cloud.ask("confirm_resize", server)
    cloud.pass_time(SECONDS, silent=["a"])
    return [cloud.clean_up(server).host]


def confirm_while_the_hypervisor_refuses(cloud, server, monkeypatch):
    cloud.ask("migrate_server_cold", server)
    refuse_once(cloud, "a", monkeypatch)
    return [cloud.ask("confirm_resize", server).host]


def revert_without_the_target(cloud, server, monkeypatch):
    host = cloud.ask("migrate_server_cold", server).host
    cloud.transport.lost.add("revert_resize")
    cloud.ask("revert_resize", server)
    cloud.pass_time(SECONDS, silent=[host])
    return [cloud.clean_up(server).host]


def shelve_while_the_hypervisor_refuses(cloud, server, monkeypatch):
    refuse_once(cloud, "a", monkeypatch)
    cloud.ask("shelve_server", server)
    return []


def migrate_live_and_leave_a_copy(cloud, server, monkeypatch):
    """The hypervisor of the target keeps what it received before the migration failed."""
    source, target = (cloud.agents[host].real_driver for host in "ab")

    def fail(guest, address):
        target.spawn(guest, powered_on=False)
        raise RuntimeError("the connection broke")

    monkeypatch.setattr(source, "live_migrate", fail)
    return [cloud.ask("live_migrate_server", server).host]


def finish_a_live_migration_without_the_source(cloud, server, monkeypatch):
    """The guest has arrived; the source, which missed heartbeats, has a paused copy."""
    cloud.transport.lost.add("live_migration")
    cloud.ask("live_migrate_server", server)
    cloud.agents["b"].real_driver.spawn(GuestSpec(server.uuid, server.name, 1, 1024))
    cloud.agents["a"].real_driver.power_off(server.uuid)
    cloud.pass_time(SECONDS, silent=["a"])
    return [cloud.clean_up(server).host]


def reset_during_a_move(cloud, server, monkeypatch):
    cloud.transport.lost.add("confirm_resize")
    cloud.ask("migrate_server_cold", server)
    cloud.ask("confirm_resize", server)
    return [cloud.ask("reset_server_state", server, state="active").host]


def build_elsewhere(cloud, server, monkeypatch):
    """The host missed heartbeats while it built the server, and its agent was killed before the last step."""
    cloud.ask("delete_server", server)
    cloud.transport.lost.add("build_and_run_instance")
    (uuid,) = cloud.boot()
    server = cloud.store.get(uuid)
    first = server.task.target_host
    server = cloud.store.advance(server, "start build", host=first, node=first)
    cloud.agents[first].real_driver.spawn(GuestSpec(uuid, server.name, 1, 1024))
    cloud.transport.lost.remove("build_and_run_instance")
    cloud.pass_time(SECONDS, silent=[first])
    built = cloud.clean_up(server)
    assert (built.vm_state, first != built.host) == ("active", True)
    return [built.host]


LEAVING = (
    *(delete_resized, delete_on_a_host_that_counts_as_down, evacuate_from_a_host_that_lives),
    *(confirm_without_the_source, confirm_while_the_hypervisor_refuses, revert_without_the_target),
    *(shelve_while_the_hypervisor_refuses, migrate_live_and_leave_a_copy),
    *(finish_a_live_migration_without_the_source, reset_during_a_move, build_elsewhere),
)


def refuse_once(cloud, host, monkeypatch):
    """The next guest is not removed from a host."""
    driver = cloud.agents[host].real_driver
    usual, refused = driver.destroy, []

    def destroy(uuid):
        if not refused:
            refused.append(uuid)
            raise RuntimeError("the disk is in use")
        usual(uuid)

    monkeypatch.setattr(driver, "destroy", destroy)


@pytest.mark.parametrize("leave", LEAVING, ids=lambda each: each.__name__)
def test_a_guest_that_was_left_behind_is_removed_though_its_notice_was_lost(cloud, server, monkeypatch, leave):
    lose_notices(cloud)
    places = leave(cloud, server, monkeypatch)
    cloud.transport.lost.clear()
    pass_time(cloud)
    guests = [(host, uuid) for host in cloud.hosts for uuid in cloud.guests(host)]
    assert [host for host, _ in guests] == places
    assert count_removals(cloud) == 0


@pytest.mark.parametrize("leave", [delete_resized, evacuate_from_a_host_that_lives], ids=lambda each: each.__name__)
def test_a_notice_that_arrives_is_not_sent_again(cloud, server, monkeypatch, leave):
    leave(cloud, server, monkeypatch)
    assert (cloud.places(server)[:1] != ["a"], count_removals(cloud), count_notices(cloud)) == (True, 0, 1)
    pass_time(cloud)
    assert count_notices(cloud) == 1


# --- between any two steps ---------------------------------------------------------------------------


def test_no_guest_stays_wherever_the_agents_are_killed(tmp_path):
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        cloud = MovingCloud(folder)
        cloud.send_heartbeats(cloud.hosts)
        server = cloud.build("a")
        cloud.ask("resize_server", server, flavor=LARGE)
        switch = KillSwitch(number)
        cloud.start(switch)
        try:
            cloud.ask("delete_server", server)
            is_killed = False
        except Killed:
            is_killed = True
        cloud.start()
        pass_time(cloud)
        assert (cloud.places(server), count_removals(cloud), cloud.findings()) == ([], 0, []), number
        cloud.close()
        if not is_killed:
            break
    assert 4 < number < 39


def test_an_agent_removes_at_its_start_what_was_left_to_it(cloud, server):
    lose_notices(cloud)
    delete_resized(cloud, server, None)
    assert cloud.places(server) == ["a"]
    cloud.start()
    cloud.recover()
    assert (cloud.places(server), count_removals(cloud)) == ([], 0)


def test_an_agent_that_finds_no_guest_at_its_start_acknowledges_that(cloud, server):
    lose_notices(cloud)
    delete_resized(cloud, server, None)
    cloud.agents["a"].real_driver.destroy(server.uuid)
    cloud.recover()
    assert count_removals(cloud) == 0


# --- how often ---------------------------------------------------------------------------------------


def test_notices_are_sent_with_backoff_by_one_of_all_conductors(cloud, server):
    lose_notices(cloud)
    cloud.add_conductor()
    delete_resized(cloud, server, None)
    sent = []
    for _ in range(300):
        pass_time(cloud, 1)
        sent.append(count_notices(cloud))
    waits = [
        second + 1 for second, (before, after) in enumerate(zip([1, *sent], sent, strict=False)) if after > before
    ]
    assert waits == [10, 30, 70, 130, 190, 250]


def test_a_host_that_is_down_gets_no_notices_until_it_is_back(cloud, server):
    lose_notices(cloud)
    delete_on_a_host_that_counts_as_down(cloud, server, None)
    before = count_notices(cloud)
    cloud.transport.lost.clear()
    for _ in range(5):
        pass_time(cloud, silent=["a"])
    assert (count_notices(cloud), cloud.places(server)) == (before, ["a"])
    for _ in range(2):
        pass_time(cloud)
    assert (cloud.places(server), count_removals(cloud)) == ([], 0)


def test_a_round_ends_where_the_broker_is_away(cloud, monkeypatch):
    servers = [cloud.build("a") for _ in range(3)]
    lose_notices(cloud)
    for server in servers:
        cloud.ask("migrate_server_cold", server, host="b")
        cloud.ask("delete_server", server)
    tried = []

    def unreachable(topic, *_, **__):
        tried.append(topic)
        raise BrokerUnreachable("the broker is away")

    with monkeypatch.context() as patch:
        patch.setattr(cloud.transport, "cast", unreachable)
        pass_time(cloud)
    assert tried == ["compute.a"]
    cloud.transport.lost.clear()
    pass_time(cloud)
    assert (cloud.guests("a"), count_removals(cloud)) == ({}, 0)


# --- what must not happen ----------------------------------------------------------------------------


def test_a_server_that_came_back_keeps_its_guest(cloud, server):
    lose_notices(cloud)
    evacuate_from_a_host_that_lives(cloud, server, None)
    cloud.agents["a"].real_driver.destroy(server.uuid)
    cloud.pass_time(2)
    cloud.ask("migrate_server_cold", server, host="a")
    cloud.ask("confirm_resize", server)
    assert count_removals(cloud) == 1
    cloud.transport.lost.clear()
    pass_time(cloud)
    assert (cloud.places(server), count_removals(cloud)) == (["a"], 0)


def test_a_guest_that_a_running_move_keeps_is_removed_when_the_move_has_ended(cloud, server):
    """A revert without its target, which is back before the source has gone on."""
    cloud.ask("migrate_server_cold", server, host="b")
    cloud.transport.lost |= {NOTICE, "revert_resize", "finish_revert_resize"}
    cloud.ask("revert_resize", server)
    cloud.pass_time(SECONDS, silent=["b"])
    cloud.clean_up(server)
    cloud.transport.lost.clear()
    pass_time(cloud, 11)
    assert (cloud.places(server), count_removals(cloud)) == (["a", "b"], 1)
    pass_time(cloud)
    pass_time(cloud)
    assert (cloud.places(server), count_removals(cloud)) == (["a"], 0)


def test_what_was_left_on_a_host_that_is_deleted_is_forgotten(cloud, server):
    lose_notices(cloud)
    delete_resized(cloud, server, None)
    is_agent = (services.c.host == "a") & (services.c.binary == "nova-compute")
    with cloud.engine.connect() as connection:
        agent = connection.scalar(select(services.c.uuid).where(is_agent))
    delete_service(cloud.engine, agent)
    pass_time(cloud, silent=["a"])
    assert count_removals(cloud) == 0


def test_the_record_of_a_deleted_server_is_kept_while_a_guest_of_it_may_be_left(cloud, server):
    lose_notices(cloud)
    delete_resized(cloud, server, None)
    for _ in range(2):
        cloud.pass_time(86401)
        cloud.cleaning.run()
    assert cloud.store.find([server.uuid])
    cloud.transport.lost.clear()
    pass_time(cloud)
    cloud.cleaning.run()
    assert not cloud.store.find([server.uuid])
