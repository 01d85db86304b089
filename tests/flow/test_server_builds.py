# SPDX-License-Identifier: Apache-2.0
"""Servers are built: from a client's request through conductor, scheduler, ledger and agent, whatever goes wrong."""

import pytest
from sqlalchemy import select, update
from tests.flow.whole_cloud import USER, WholeCloud

from roost.errors import BadInput, RemoteNoValidHost, RpcTimeout, UnknownName
from roost.records.server import Fault
from roost.records.server_steps import next_work
from roost.store.schema.servers import server_groups

INLINE = {"name": "own", "vcpus": 1, "memory_mb": 128, "root_gb": 1}


@pytest.fixture
def make_cloud(tmp_path):
    made = []

    def make(hosts=("a", "b", "c"), **more):
        folder = tmp_path / f"cloud{len(made)}"
        folder.mkdir()
        made.append(WholeCloud(folder, hosts, **more))
        return made[-1]

    yield make
    for cloud in made:
        assert cloud.findings() == []
        cloud.close()


@pytest.fixture
def cloud(make_cloud):
    return make_cloud()


def test_a_server_is_built_on_the_chosen_host(cloud):
    (uuid,) = cloud.boot(image="cirros")
    server = cloud.show(uuid)
    assert (server["status"], server["task_state"], server["power_state"]) == ("ACTIVE", None, "running")
    assert (server["host"], server["availability_zone"]) == ("a", "nova")
    assert (server["flavor"]["name"], server["image"]["name"]) == ("small", "cirros")
    assert cloud.guests("a") == {uuid: "running"}
    assert cloud.held(cloud.store.get(uuid)) == ({"a": 2048}, {})


def test_servers_of_one_request_are_named_by_number(cloud):
    uuids = cloud.boot(count=3)
    assert [cloud.show(uuid)["name"] for uuid in uuids] == ["web-1", "web-2", "web-3"]
    assert {status for status, _ in cloud.states(*uuids)} == {"ACTIVE"}


def test_the_example_of_the_specification(make_cloud):
    """Three hosts; the first fails to build: an alternate is used. When all have failed, the server has a fault."""
    cloud = make_cloud()
    cloud.fail_builds_on("a", "c")
    one, two = cloud.boot(count=2, hints={}, group="apart")
    assert cloud.states(two) == [("ACTIVE", "b")]
    server = cloud.show(one)
    assert (server["status"], server["host"]) == ("ERROR", None)
    words = f"Exhausted all hosts available for retrying build failures for instance {one}."
    assert server["fault"]["message"].endswith(words)
    first, second, third = server["fault"]["details"].splitlines()
    assert (first, second) == ("a: RuntimeError: no space left", "c: RuntimeError: no space left")
    assert third.startswith("0 of 3 hosts fit")
    assert cloud.held(cloud.store.get(one)) == ({}, {})


def test_a_retry_uses_an_alternate_before_it_asks_for_a_fresh_choice(cloud):
    cloud.fail_builds_on("a")
    (uuid,) = cloud.boot()
    assert cloud.states(uuid) == [("ACTIVE", "b")]
    task = cloud.store.get(uuid).task
    assert task.attempts == ()
    asked = [method for topic, method in cloud.transport.sent if topic == "scheduler"]
    assert asked == ["select_destinations"] * 2


def test_alternates_are_followed_by_a_fresh_choice_up_to_max_attempts(make_cloud):
    cloud = make_cloud(hosts=tuple("abcde"), options={"scheduler": {"max_attempts": 4}})
    cloud.fail_builds_on(*"abc")
    (uuid,) = cloud.boot()
    assert cloud.states(uuid) == [("ACTIVE", "d")]
    cloud.fail_builds_on(*"de")
    (uuid,) = cloud.boot()
    fault = cloud.show(uuid)["fault"]
    assert len(fault["details"].splitlines()) == 4


def test_an_alternate_that_is_full_by_now_is_passed_over(make_cloud):
    cloud = make_cloud()
    cloud.fail_builds_on("a")
    cloud.transport.lost = {"build_and_run_instance"}
    (uuid,) = cloud.boot()
    cloud.transport.lost = set()
    cloud.boot(count=4, availability_zone="nova:b")
    cloud.resume(cloud.store.get(uuid))
    assert cloud.states(uuid) == [("ACTIVE", "c")]


def test_no_valid_host_fails_the_whole_batch_with_the_summary_for_admins(cloud):
    uuids = cloud.boot(count=2, flavor="huge")
    for uuid in uuids:
        fault = cloud.show(uuid)["fault"]
        assert fault["message"].startswith("No valid host was found.")
        assert fault["details"].startswith("0 of 3 hosts fit")
        assert cloud.show(uuid)["status"] == "ERROR"


def test_a_batch_gets_all_its_hosts_or_none(make_cloud):
    cloud = make_cloud(hosts=("a",))
    uuids = cloud.boot(count=5)  # four fit
    assert {status for status, _ in cloud.states(*uuids)} == {"ERROR"}
    assert cloud.guests("a") == {}


def test_members_of_a_group_join_it_with_their_claim(cloud):
    uuids = cloud.boot(count=2, group="apart")
    assert sorted(host for _, host in cloud.states(*uuids)) == ["a", "b"]
    (third, fourth) = (cloud.boot(group="apart")[0] for _ in range(2))
    assert cloud.states(third, fourth) == [("ACTIVE", "c"), ("ERROR", None)]


# --- what a request may name -------------------------------------------------------------------------


@pytest.mark.parametrize("request_of", [lambda group: {"group": group}, lambda group: {"hints": {"group": group}}])
def test_a_group_of_another_project_cannot_be_used(cloud, request_of):
    with cloud.engine.begin() as connection:
        connection.execute(update(server_groups).values(project_id="blue"))
        uuid = connection.scalar(select(server_groups.c.uuid))
    for group in ("apart", uuid):
        with pytest.raises(UnknownName, match="group: there is no") as caught:
            cloud.boot(context=USER, **request_of(group))
        assert "did you mean" not in str(caught.value)
        assert cloud.states(*cloud.boot(**request_of(group)))[0][0] == "ACTIVE"


def test_a_group_of_no_project_is_for_all(cloud):
    assert cloud.states(*cloud.boot(context=USER, group="apart")) == [("ACTIVE", "a")]


def test_an_admin_may_force_a_host_by_the_zone(cloud):
    (uuid,) = cloud.boot(availability_zone="anywhere:c")
    assert cloud.states(uuid) == [("ACTIVE", "c")]


def test_a_named_host_has_to_pass_the_filters(cloud):
    assert cloud.states(*cloud.boot(host="b")) == [("ACTIVE", "b")]
    assert cloud.states(*cloud.boot(host="b", flavor="huge")) == [("ERROR", None)]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"flavor": "smal"}, UnknownName, "did you mean small"),
        ({"image": "nowhere"}, UnknownName, "image: there is no 'nowhere'"),
        ({"image": "windows"}, BadInput, "memory is too small"),
        ({"group": "together"}, UnknownName, "group: there is no"),
        ({"availability_zone": "mars"}, UnknownName, "availability_zone: 'mars'"),
        ({"availability_zone": "a:b:c:d"}, BadInput, "too many colons"),
        ({"availability_zone": "nova:zz"}, UnknownName, "Compute host zz"),
        ({"availability_zone": "nova:a", "host": "b"}, BadInput, "name it once"),
        ({"count": 0}, BadInput, "count"),
        ({"count": True}, BadInput, "count"),
        ({"name": ""}, BadInput, "name"),
        ({"hints": {"different_host": 5}}, BadInput, "hints.different_host"),
        ({"hints": {f"hint{at}": "x" for at in range(129)}}, BadInput, "hints: has 129 entries"),
        ({"hints": {"query": "x" * 65536}}, BadInput, "hints: has 65549 bytes"),
        ({"flavor": INLINE | {"extra_specs": {f"a:{at}": "x" for at in range(129)}}}, BadInput, "extra_specs"),
        ({"name": "n" * 254, "count": 2}, BadInput, "name: is too long"),
        ({"host": 5}, BadInput, "host: '5' is no name"),
        ({"availability_zone": ["nova"]}, BadInput, "availability_zone"),
        ({"colour": "red"}, BadInput, "colour: is not known"),
    ],
)
def test_a_wrong_request_is_refused_and_nothing_is_created(cloud, wrong, error, words):
    with pytest.raises(error, match=words):
        cloud.boot(**wrong)
    assert cloud.client().list_servers({}) == []


def test_only_an_admin_may_give_a_flavor_or_an_image_as_its_fields(cloud):
    for fields in ({"flavor": INLINE}, {"image": {"id": "6f1a7b0e-3c5b-4c5f-9a53-0c8c1f9d2a09"}}):
        with pytest.raises(BadInput, match="only an admin may give"):
            cloud.boot(context=USER, **fields)
        assert cloud.states(*cloud.boot(**fields)) == [("ACTIVE", "a")]


def test_only_an_admin_may_name_a_host(cloud):
    for named in ({"availability_zone": "nova:a"}, {"host": "a"}, {"availability_zone": "nova::a"}):
        with pytest.raises(BadInput, match="only an admin"):
            cloud.boot(context=USER, **named)


def test_a_dry_run_names_the_hosts_and_creates_nothing(cloud):
    wanted = {"name": "web", "flavor": "small", "count": 2}
    plan = cloud.client().create_servers(wanted, dry_run=True)["plan"]
    assert [(each["name"], each["action"], each["host"]) for each in plan] == [
        ("web-1", "create", "a"),
        ("web-2", "create", "a"),
    ]
    assert cloud.client().list_servers({}) == []
    with pytest.raises(RemoteNoValidHost) as caught:
        cloud.client().create_servers(wanted | {"flavor": "huge"}, dry_run=True)
    assert caught.value.summary.startswith("0 of 3 hosts fit")


# --- what goes wrong ---------------------------------------------------------------------------------


def test_a_server_that_is_deleted_while_hosts_are_chosen_is_skipped(cloud):
    before = []
    cloud.transport.before["select_destinations"] = [
        lambda: before.append(cloud.client().delete_server(cloud.client().list_servers({"name": "web-1"})[0]["id"]))
    ]
    one, two = cloud.boot(count=2)
    assert before
    assert cloud.show(one)["status"] == "DELETED"
    assert cloud.states(two) == [("ACTIVE", "a")]
    assert cloud.held(cloud.store.get(one)) == ({}, {})


def test_a_claim_that_comes_after_another_conductor_failed_the_build_is_released(cloud):
    def fail():
        (server,) = cloud.store.list_servers()
        cloud.store.advance(server, "fail build", fault=Fault("no scheduler answered"), host=None, node=None)

    cloud.transport.before["select_destinations"] = [fail]
    (uuid,) = cloud.boot()
    assert cloud.states(uuid) == [("ERROR", None)]
    assert cloud.held(cloud.store.get(uuid)) == ({}, {})


def test_a_conductor_that_dies_after_the_assignment_leaves_a_message_to_the_janitor(cloud):
    cloud.transport.lost = {"build_and_run_instance"}
    (uuid,) = cloud.boot()
    assert cloud.states(uuid) == [("BUILD", None)]
    cloud.transport.lost = set()
    cloud.janitor.run()
    assert cloud.states(uuid) == [("BUILD", None)]  # not stalled yet
    cloud.pass_time(61)
    cloud.janitor.run()
    assert cloud.states(uuid) == [("ACTIVE", "a")]


def test_a_conductor_that_dies_before_it_asks_leaves_the_batch_to_the_janitor(cloud):
    cloud.transport.before["select_destinations"] = [kill]
    with pytest.raises(Killed):
        cloud.boot(count=2)
    cloud.pass_time(61)
    cloud.janitor.run()
    found = cloud.client().list_servers({})
    assert [(each["status"], each["host"]) for each in found] == [("ACTIVE", "a")] * 2


def test_a_lost_answer_of_the_scheduler_is_asked_for_again_and_gets_the_same_host(cloud):
    call, lost = cloud.transport.call, []

    def lose_first_answer(topic, method, *args):
        answer = call(topic, method, *args)
        if method == "select_destinations" and not lost:
            lost.append(answer)
            raise RpcTimeout("no answer")
        return answer

    cloud.transport.call = lose_first_answer
    (uuid,) = cloud.boot()
    assert lost
    assert cloud.states(uuid) == [("ACTIVE", "a")]


def test_without_any_scheduler_the_build_fails_with_a_reason(cloud):
    cloud.schedulers[0]._server.stop()
    (uuid,) = cloud.boot()
    server = cloud.show(uuid)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == "No scheduler could be asked for a host."
    assert "RpcTimeout" in server["fault"]["details"] or "scheduler" in server["fault"]["details"]


def test_a_build_that_can_never_succeed_fails_instead_of_stalling(cloud):
    cloud.conductors[0].manager.scheduler.select = lambda *args: [[]]  # an answer that no scheduler gives
    (uuid,) = cloud.boot()
    server = cloud.show(uuid)
    assert (server["status"], server["task_state"]) == ("ERROR", None)
    assert server["fault"]["message"] == "An unexpected error prevented the server from getting a host"
    assert server["fault"]["details"].startswith("ValueError")


def test_a_host_that_dies_during_a_build_is_followed_by_another(cloud):
    cloud.transport.lost = {"build_and_run_instance"}
    (uuid,) = cloud.boot()
    assert next_work(cloud.store.get(uuid)).host == "a"
    cloud.transport.lost = set()
    cloud.pass_time(61, silent=["a"])
    cloud.janitor.run()
    assert cloud.states(uuid) == [("ACTIVE", "b")]
    assert cloud.held(cloud.store.get(uuid)) == ({"b": 2048}, {})


# --- delete ------------------------------------------------------------------------------------------


def test_a_deleted_server_leaves_nothing(cloud):
    (uuid,) = cloud.boot()
    cloud.client().delete_server(uuid)
    assert cloud.show(uuid)["status"] == "DELETED"
    assert (cloud.guests("a"), cloud.held(cloud.store.get(uuid))) == ({}, ({}, {}))
    with pytest.raises(UnknownName, match="is deleted"):
        cloud.client().delete_server(uuid)


def test_a_server_without_a_host_is_deleted_by_the_conductor(cloud):
    (uuid,) = cloud.boot(flavor="huge")
    cloud.client().delete_server(uuid)
    assert cloud.show(uuid)["status"] == "DELETED"


def test_a_server_whose_host_is_down_is_deleted_at_once(cloud):
    (uuid,) = cloud.boot()
    cloud.pass_time(61, silent=["a"])
    cloud.client().delete_server(uuid)
    assert cloud.show(uuid)["status"] == "DELETED"
    assert cloud.held(cloud.store.get(uuid)) == ({}, {})
    cloud.recover()  # the host comes back
    assert cloud.guests("a") == {}


def test_a_host_that_only_missed_heartbeats_removes_the_guest_at_once(cloud):
    (uuid,) = cloud.boot()
    cloud.pass_time(61, silent=["a"])
    cloud.client().delete_server(uuid)
    assert cloud.guests("a") == {}


def test_a_deletion_whose_message_was_lost_is_finished_by_the_janitor(cloud):
    (uuid,) = cloud.boot()
    cloud.transport.lost = {"terminate_instance"}
    cloud.client().delete_server(uuid)
    cloud.transport.lost = set()
    cloud.pass_time(61)
    cloud.janitor.run()
    assert cloud.show(uuid)["status"] == "DELETED"


def test_a_dry_run_of_a_deletion_deletes_nothing(cloud):
    (uuid,) = cloud.boot()
    (step,) = cloud.client().delete_server(uuid, dry_run=True)["plan"]
    assert (step["action"], step["host"]) == ("delete", "a")
    assert cloud.states(uuid) == [("ACTIVE", "a")]


# --- power -------------------------------------------------------------------------------------------


def test_a_server_is_stopped_and_started(cloud):
    (uuid,) = cloud.boot()
    cloud.client().stop_server(uuid)
    assert (cloud.show(uuid)["status"], cloud.guests("a")[uuid]) == ("SHUTOFF", "shutdown")
    cloud.client().start_server(uuid)
    assert (cloud.show(uuid)["status"], cloud.guests("a")[uuid]) == ("ACTIVE", "running")


def test_a_stop_whose_host_dies_is_undone(cloud):
    (uuid,) = cloud.boot()
    cloud.transport.lost = {"stop_instance"}
    cloud.client().stop_server(uuid)
    cloud.pass_time(61, silent=["a"])
    cloud.janitor.run()
    assert (cloud.show(uuid)["vm_state"], cloud.show(uuid)["task_state"]) == ("active", None)


class Killed(BaseException):
    """The process ends here."""


def kill():
    raise Killed
