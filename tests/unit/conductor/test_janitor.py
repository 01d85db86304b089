# SPDX-License-Identifier: Apache-2.0
"""The janitor: what dead processes and lost messages left behind is finished, once, and leaks are released."""

from sqlalchemy import update
from structlog.testing import capture_logs
from tests.unit.compute.agents import SMALL

from roost.errors import DatabaseError, RpcUnreachable
from roost.ledger.claim import claim_for
from roost.model import RequestSpec
from roost.store.schema.servers import servers

UUID = "6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01"


def stalled(cloud, **request):
    """A server whose message to the agent was lost."""
    cloud.transport.lost.add("build_and_run_instance")
    (uuid,) = cloud.boot(**request)
    return uuid


def sent(cloud):
    return cloud.transport.sent.count(("compute.a", "build_and_run_instance"))


def test_a_message_is_sent_again_at_most_once_per_timeout(cloud):
    stalled(cloud)
    before = sent(cloud)
    for _ in range(3):  # the lost message stays lost
        cloud.pass_time(61)
        cloud.janitor.run()
        cloud.janitor.run()
    assert sent(cloud) == before + 3


def test_one_message_is_sent_for_all_servers_of_a_batch(cloud):
    cloud.conductors[0].manager.scheduler.select = lambda *args: no_database()
    cloud.boot(count=3)
    cloud.transport.lost, cloud.transport.sent = {"build_instances"}, []
    cloud.pass_time(61)
    cloud.janitor.run()
    cloud.pass_time(30)
    cloud.janitor.run()
    assert cloud.transport.sent.count(("conductor", "build_instances")) == 1


def no_database():
    raise DatabaseError("away")


def test_a_message_about_work_in_progress_is_ignored(cloud):
    """The scheduler is slow, and a janitor takes the task for stalled meanwhile."""
    questions = cloud.conductors[0].manager.scheduler
    usual, asked = questions.select, []

    def slow(*args):
        asked.append(args)
        if len(asked) == 1:
            cloud.pass_time(61)
            cloud.janitor.run()
        return usual(*args)

    questions.select = slow
    (uuid,) = cloud.boot()
    assert len(asked) == 1
    assert cloud.states(uuid) == [("ACTIVE", "a")]


def test_servers_without_a_task_are_left_alone(cloud):
    cloud.boot()
    cloud.pass_time(3600)
    sent_before = len(cloud.transport.sent)
    cloud.janitor.run()
    assert len(cloud.transport.sent) == sent_before


def test_a_server_with_an_unknown_task_is_reported_once_and_left_alone(cloud):
    (uuid,) = cloud.boot()
    with cloud.engine.begin() as connection:
        connection.execute(update(servers).where(servers.c.uuid == uuid).values(task_state="image_snapshot"))
    cloud.pass_time(61)
    with capture_logs() as lines:
        cloud.janitor.run()
        cloud.janitor.run()
    assert [(each["event"], each["task"]) for each in lines] == [
        ("stalled task: not one that is known, left alone", "image_snapshot")
    ]
    assert cloud.store.get(uuid).task_state == "image_snapshot"


def test_a_server_that_cannot_be_helped_now_keeps_no_other_from_its_turn(cloud):
    uuids = [stalled(cloud, host="a"), stalled(cloud, host="b")]
    cloud.pass_time(61)
    wake, failed = cloud.transport.cast, []

    def fail_once(topic, *args, **kwargs):
        if not failed:
            failed.append(topic)
            raise RpcUnreachable("the broker is away")
        wake(topic, *args, **kwargs)

    cloud.transport.lost, cloud.transport.cast = set(), fail_once
    cloud.janitor.run()
    assert sorted(status for status, _ in cloud.states(*uuids)) == ["ACTIVE", "BUILD"]


def test_two_janitors_that_find_the_same_server_build_it_once(cloud):
    uuid = stalled(cloud)
    cloud.add_conductor()
    cloud.pass_time(61, silent=["a"])
    cloud.transport.lost = set()
    for conductor in cloud.conductors:
        conductor.manager.janitor.run()
    assert cloud.states(uuid) == [("ACTIVE", "b")]
    assert cloud.places(cloud.store.get(uuid)) == ["b"]
    assert cloud.findings() == []


def test_a_dead_host_is_told_from_one_that_an_operator_forces_down(cloud):
    uuid = stalled(cloud)
    cloud.client().set_host("a", forced_down=True)
    cloud.transport.lost = set()
    cloud.pass_time(61)
    cloud.janitor.run()
    assert cloud.states(uuid) == [("ACTIVE", "b")]


def test_a_claim_without_a_server_is_released_after_its_grace_period(cloud):
    spec = RequestSpec(flavor=SMALL, project_id="blue").for_instance(UUID)
    cloud.ledger.claim([claim_for(spec, cloud.node_uuid("a"))])
    cloud.clock.seconds += 599
    cloud.cleaning.run()
    assert cloud.ledger.read_allocations([UUID])
    cloud.clock.seconds += 2
    cloud.cleaning.run()
    assert not cloud.ledger.read_allocations([UUID])


def test_the_record_of_a_deleted_server_is_removed_after_a_day(cloud):
    (uuid,) = cloud.boot()
    cloud.client().delete_server(uuid)
    cloud.pass_time(86399)
    cloud.cleaning.run()
    assert cloud.store.find([uuid])
    cloud.pass_time(2)
    cloud.cleaning.run()
    assert not cloud.store.find([uuid])


def test_the_record_is_kept_until_the_host_that_was_down_has_removed_the_guest(cloud):
    (uuid,) = cloud.boot(host="a")
    cloud.pass_time(61, silent=["a"])
    cloud.client().delete_server(uuid)
    cloud.pass_time(2 * 86400, silent=["a"])
    cloud.cleaning.run()
    cloud.agents["a"].recover()
    assert cloud.agents["a"].real_driver.list_guests() == []
    assert cloud.store.find([uuid])
    cloud.pass_time(1)
    cloud.cleaning.run()
    assert not cloud.store.find([uuid])


def test_the_record_of_an_evacuated_server_is_kept_until_its_old_host_is_back(cloud):
    (uuid,) = cloud.boot(host="a")
    cloud.pass_time(61, silent=["a"])
    cloud.client().evacuate_server(uuid)
    cloud.client().delete_server(uuid)
    cloud.pass_time(2 * 86400, silent=["a"])
    cloud.cleaning.run()
    assert cloud.store.find([uuid])
    cloud.pass_time(1)
    cloud.cleaning.run()
    assert not cloud.store.find([uuid])
