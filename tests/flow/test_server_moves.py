# SPDX-License-Identifier: Apache-2.0
"""Servers move: conductor, scheduler, ledger and agents in one process, from a client's request to its end."""

import pytest
from tests.flow.moving_cloud import ARM, LARGE, SMALL, X86, MovingCloud
from tests.unit.compute.agents import CONTEXT
from tests.unit.compute.agents import LARGE as AGENTS_LARGE

from roost.conductor.parts import ConductorParts
from roost.conductor.questions import SchedulerQuestions
from roost.errors import HypervisorError, RemoteFailure, RpcTimeout
from roost.model import Image, ServerGroup


@pytest.fixture
def make_cloud(tmp_path):
    made = []

    def make(hosts=("a", "b", "c"), **more):
        folder = tmp_path / f"cloud{len(made)}"
        folder.mkdir()
        made.append(MovingCloud(folder, hosts, **more))
        return made[-1]

    yield make
    for cloud in made:
        assert cloud.findings() == []
        cloud.close()


@pytest.fixture
def cloud(make_cloud):
    return make_cloud()


def states(server):
    return server.vm_state, server.task_state, server.host


# --- resize and cold migration -----------------------------------------------------------------------


def test_a_resized_server_waits_for_its_confirmation_on_another_host(cloud):
    server = cloud.build("a")
    resized = cloud.ask("resize_server", server, flavor=LARGE)
    assert states(resized) == ("resized", None, "b")
    assert resized.spec.flavor.memory_mb == 4096
    assert cloud.held(server) == ({"b": 4096}, {"a": 1024})
    assert cloud.status_of_move(server) == "finished"
    assert cloud.findings() == []


def test_a_confirmed_resize_leaves_nothing_on_the_old_host(cloud):
    server = cloud.build("a")
    cloud.ask("resize_server", server, flavor=LARGE)
    confirmed = cloud.ask("confirm_resize", server)
    assert states(confirmed) == ("active", None, "b")
    assert cloud.held(server) == ({"b": 4096}, {})
    assert (cloud.places(server), cloud.status_of_move(server)) == (["b"], "confirmed")


def test_a_reverted_resize_leaves_nothing_on_the_new_host(cloud):
    server = cloud.build("a")
    cloud.ask("resize_server", server, flavor=LARGE)
    reverted = cloud.ask("revert_resize", server)
    assert states(reverted) == ("active", None, "a")
    assert reverted.spec.flavor.memory_mb == 1024
    assert cloud.held(server) == ({"a": 1024}, {})
    assert (cloud.places(server), cloud.status_of_move(server)) == (["a"], "reverted")


@pytest.mark.parametrize(("end", "size"), [("confirm_resize", 4096), ("revert_resize", 1024)])
def test_a_resize_may_stay_on_its_host_where_that_is_allowed(make_cloud, end, size):
    cloud = make_cloud(["a"], options={"allow_resize_to_same_host": True})
    server = cloud.build("a")
    assert states(cloud.ask("resize_server", server, flavor=LARGE)) == ("resized", None, "a")
    assert cloud.held(server) == ({"a": 4096}, {"a": 1024})
    assert states(cloud.ask(end, server)) == ("active", None, "a")
    assert cloud.held(server) == ({"a": size}, {})


def test_a_resize_without_a_host_leaves_the_server_as_it_was(make_cloud):
    cloud = make_cloud(["a"])
    server = cloud.build("a")
    after = cloud.ask("resize_server", server, flavor=LARGE)
    assert states(after) == ("active", None, "a")
    assert cloud.fault(server).message == "No valid host was found. No valid host found for resize"
    assert "ignore_hosts" in cloud.fault(server).details
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"a": 1024}, {}), "error")


def test_a_cold_migration_keeps_the_size(cloud):
    server = cloud.build("a")
    assert states(cloud.ask("migrate_server_cold", server)) == ("resized", None, "b")
    assert cloud.held(server) == ({"b": 1024}, {"a": 1024})
    assert cloud.ask("confirm_resize", server).vm_state == "active"


def test_a_stopped_server_is_stopped_after_its_move(cloud):
    server = cloud.build("a")
    cloud.resume(cloud.begin(server, "stop"))
    cloud.ask("migrate_server_cold", server)
    assert states(cloud.ask("confirm_resize", server)) == ("stopped", None, "b")


def test_a_named_host_is_taken(cloud):
    server = cloud.build("a")
    assert cloud.ask("migrate_server_cold", server, host="c").host == "c"
    cloud.ask("confirm_resize", server)


def break_targets(cloud, monkeypatch, *hosts):
    """Local claims on these hosts fail."""

    def claim(*_):
        raise HypervisorError("the roof leaks")

    for host in hosts:
        monkeypatch.setattr(cloud.agents[host].tracker._watched, "claim", claim)


def test_after_a_failed_target_the_alternate_is_used(cloud, monkeypatch):
    server = cloud.build("a")
    break_targets(cloud, monkeypatch, "b")
    assert states(cloud.ask("migrate_server_cold", server)) == ("resized", None, "c")
    assert cloud.held(server) == ({"c": 1024}, {"a": 1024})
    cloud.ask("revert_resize", server)


def test_without_another_alternate_the_server_stays_and_all_reasons_are_kept(cloud, monkeypatch):
    server = cloud.build("a")
    break_targets(cloud, monkeypatch, "b", "c")
    assert states(cloud.ask("migrate_server_cold", server)) == ("active", None, "a")
    fault = cloud.fault(server)
    assert fault.message.startswith("Exceeded maximum number of retries. Exhausted all hosts available for retrying")
    assert fault.details.split("\n") == ["b: the roof leaks", "c: the roof leaks"]
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"a": 1024}, {}), "error")


def test_a_named_host_that_fails_is_tried_once(cloud, monkeypatch):
    server = cloud.build("a")
    break_targets(cloud, monkeypatch, "b")
    assert states(cloud.ask("migrate_server_cold", server, host="b")) == ("active", None, "a")
    assert cloud.fault(server).message == "b: the roof leaks"


def test_a_cold_migration_without_a_host_says_so(make_cloud):
    cloud = make_cloud(["a"])
    server = cloud.build("a")
    assert states(cloud.ask("migrate_server_cold", server)) == ("active", None, "a")
    assert cloud.fault(server).message == "No valid host was found. No valid host found for cold migrate"


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("migrate_server_cold", {"host": "a"}, "Cannot migrate to the host where the server exists."),
        ("migrate_server_cold", {"host": "x"}, "Compute host x could not be found."),
        ("resize_server", {"flavor": SMALL}, "When resizing, instances must change flavor!"),
        ("confirm_resize", {}, "Cannot 'confirmResize' instance .* while it is in vm_state active"),
        ("evacuate_server", {}, "Compute service of a is still in use."),
        ("live_migrate_server", {"force": True}, "force without a host"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(cloud, method, arguments, words):
    server = cloud.build("a")
    with pytest.raises(RemoteFailure, match=words):
        cloud.ask(method, server, **arguments)
    assert cloud.store.get(server.uuid) == server


@pytest.mark.parametrize("method", ["migrate_server_cold", "live_migrate_server", "evacuate_server"])
def test_what_needs_knowledge_of_hosts_is_for_admins(cloud, method):
    server = cloud.build("a")
    with pytest.raises(RemoteFailure, match="only an admin may"):
        cloud.ask(method, server, context=CONTEXT)


def test_a_dry_run_names_the_host_and_changes_nothing(cloud):
    server = cloud.build("a")
    for method, more in (
        ("migrate_server_cold", {}),
        ("resize_server", {"flavor": LARGE}),
        ("live_migrate_server", {}),
    ):
        assert cloud.ask(method, server, dry_run=True, **more)["host"] == "b"
    assert cloud.ask("shelve_server", server, dry_run=True)["host"] == "a"
    assert cloud.store.get(server.uuid) == server
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_member_of_an_anti_affinity_group_avoids_the_others_and_not_itself(cloud):
    group = ServerGroup("anti-affinity", uuid="6a0b7c1e-5ef2-4a3e-9d7b-0c9b8f7a1e01")
    server = cloud.build("a", instance_group=group)
    cloud.build("b", instance_group=group)
    assert cloud.ask("live_migrate_server", server).host == "c"
    assert cloud.ask("live_migrate_server", server).host == "a"
    assert cloud.ask("migrate_server_cold", server, host="b").host == "a"


def test_an_unexpected_error_leaves_no_server_in_its_task(cloud, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("oops")

    server = cloud.build("a")
    monkeypatch.setattr(SchedulerQuestions, "select_one", fail)
    assert states(cloud.ask("migrate_server_cold", server)) == ("active", None, "a")
    assert cloud.fault(server).details == "ZeroDivisionError: oops"


def test_a_scheduler_that_does_not_answer_is_asked_again_later(cloud):
    server = cloud.build("a")
    cloud.scheduler.stop()
    assert cloud.ask("migrate_server_cold", server).task_state == "resize_prep"
    cloud.scheduler.start()
    cloud.down()
    cloud.manager.janitor.run()
    assert cloud.ask("confirm_resize", server).host == "b"


# --- live migration ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("wish", "host"), [({}, "b"), ({"host": "c"}, "c"), ({"host": "c", "force": True}, "c")])
def test_a_running_server_moves_live(cloud, wish, host):
    server = cloud.build("a")
    assert states(cloud.ask("live_migrate_server", server, **wish)) == ("active", None, host)
    assert (cloud.places(server), cloud.held(server)) == ([host], ({host: 1024}, {}))
    assert cloud.status_of_move(server) == "completed"


def make_incompatible(cloud, monkeypatch, *hosts):
    def check(_):
        raise HypervisorError("another kind of CPU")

    for host in hosts:
        monkeypatch.setattr(cloud.agents[host].real_driver, "check_migration_source", check)


def test_a_destination_that_fails_the_check_is_left_out(cloud, monkeypatch):
    server = cloud.build("a")
    make_incompatible(cloud, monkeypatch, "b")
    assert cloud.ask("live_migrate_server", server).host == "c"
    assert cloud.held(server) == ({"c": 1024}, {})


def test_without_a_compatible_destination_the_server_runs_on(cloud, monkeypatch):
    server = cloud.build("a")
    make_incompatible(cloud, monkeypatch, "b", "c")
    assert states(cloud.ask("live_migrate_server", server)) == ("active", None, "a")
    assert cloud.fault(server).message.startswith("No valid host was found.")
    assert "c: Migration pre-check error: another kind of CPU" in cloud.fault(server).details
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"a": 1024}, {}), "error")


def lose_answers(cloud, monkeypatch, method):
    """Agents do not answer this; returns the queues that were asked."""
    usual, asked = cloud.transport.call, []

    def call(topic, name, *args, **kwargs):
        if name == method:
            asked.append(topic)
            raise RpcTimeout("no answer")
        return usual(topic, name, *args, **kwargs)

    monkeypatch.setattr(cloud.transport, "call", call)
    return asked


def test_a_source_that_does_not_answer_is_not_blamed_on_destinations(cloud, monkeypatch):
    server = cloud.build("a")
    asked = lose_answers(cloud, monkeypatch, "get_migration_address")
    assert states(cloud.ask("live_migrate_server", server)) == ("active", None, "a")
    assert asked == ["compute.a"]
    assert cloud.fault(server).message.startswith("Compute service of a is unavailable at this time.")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_destinations_that_do_not_answer_are_tried_three_times(make_cloud, monkeypatch):
    cloud = make_cloud("abcdef")
    server = cloud.build("a")
    asked = lose_answers(cloud, monkeypatch, "check_can_live_migrate_destination")
    assert states(cloud.ask("live_migrate_server", server)) == ("active", None, "a")
    assert asked == ["compute.b", "compute.c", "compute.d"]
    assert "3 destinations did not answer" in cloud.fault(server).message
    assert cloud.held(server) == ({"a": 1024}, {})


def test_the_retries_of_a_live_migration_are_limited(make_cloud, monkeypatch):
    """The example of the specification: one retry, and both hosts fail the check."""
    cloud = make_cloud(["a", "b", "c", "d"], options={"migrate_max_retries": 1})
    server = cloud.build("a")
    make_incompatible(cloud, monkeypatch, "b", "c")
    assert cloud.ask("live_migrate_server", server).host == "a"
    assert "Exceeded max scheduling retries 2 for instance" in cloud.fault(server).message
    assert cloud.status_of_move(server) == "failed"


@pytest.mark.parametrize("force", [True, False])
def test_a_named_destination_that_is_incompatible_leaves_the_server_where_it_is(cloud, monkeypatch, force):
    server = cloud.build("a")
    make_incompatible(cloud, monkeypatch, "b")
    assert states(cloud.ask("live_migrate_server", server, host="b", force=force)) == ("active", None, "a")
    fault = cloud.fault(server)
    assert "another kind of CPU" in (fault.message if force else fault.details)
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_forced_destination_needs_more_memory_than_the_server(make_cloud):
    cloud = make_cloud(memory_mb=512 + 1024)
    server = cloud.build("a")
    cloud.build("b")
    cloud.ask("live_migrate_server", server, host="b", force=True)
    message = cloud.fault(server).message
    assert f"Unable to migrate {server.uuid} to b: Lack of memory(host:0 <= instance:1024)" in message
    assert cloud.store.get(server.uuid).host == "a"


def test_a_forced_destination_is_not_the_source(cloud):
    server = cloud.build("a")
    cloud.ask("live_migrate_server", server, host="a", force=True)
    assert cloud.fault(server).message == f"Unable to migrate instance ({server.uuid}) to current host (a)."


def test_a_server_that_does_not_run_is_not_migrated_live(cloud):
    server = cloud.build("a")
    cloud.store.note_power_state(server, "shutdown")
    cloud.ask("live_migrate_server", server)
    assert f"Instance {server.uuid} in power_state shutdown." in cloud.fault(server).message


def test_a_server_does_not_go_back_to_a_host_that_is_down(cloud):
    server = cloud.build("a")
    cloud.ask("resize_server", server, flavor=LARGE)
    cloud.down("a")
    for dry_run in (True, False):
        with pytest.raises(RemoteFailure, match="its former host is down"):
            cloud.ask("revert_resize", server, dry_run=dry_run)
    assert states(cloud.store.get(server.uuid)) == ("resized", None, "b")
    assert cloud.guests("b") == {server.uuid: "running"}


# --- evacuation --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wish", "host"), [({}, "b"), ({"host": "c"}, "c"), ({"host": "c", "force": True}, "c")])
def test_a_server_of_a_dead_host_is_evacuated(cloud, wish, host):
    server = cloud.build("a")
    cloud.down("a")
    assert states(cloud.ask("evacuate_server", server, **wish)) == ("active", None, host)
    assert cloud.held(server) == ({host: 1024}, {})
    assert cloud.status_of_move(server) == "done"
    cloud.start()
    cloud.recover()
    assert cloud.places(server) == [host]


@pytest.mark.parametrize("is_chosen", [False, True])
def test_a_server_whose_host_comes_back_is_not_evacuated(cloud, monkeypatch, is_chosen):
    """Before a host is chosen, and after."""
    server = cloud.build("a")
    cloud.down("a")
    usual = SchedulerQuestions.select_one if is_chosen else ConductorParts.run_if_due

    def come_back(*args):
        if is_chosen:
            found = usual(*args)
        cloud.send_heartbeats(["a"])
        return found if is_chosen else usual(*args)

    owner, name = (SchedulerQuestions, "select_one") if is_chosen else (ConductorParts, "run_if_due")
    monkeypatch.setattr(owner, name, come_back)
    assert states(cloud.ask("evacuate_server", server)) == ("active", None, "a")
    assert cloud.fault(server).message == "Compute service of a is still in use."
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"a": 1024}, {}), "error")
    assert cloud.places(server) == ["a"]


def test_an_evacuation_without_a_host_leaves_an_error_that_can_be_evacuated_again(make_cloud):
    cloud = make_cloud(["a", "b"])
    server = cloud.build("a")
    cloud.down("a", "b")
    assert states(cloud.ask("evacuate_server", server)) == ("error", None, "a")
    assert cloud.fault(server).message.startswith("No valid host was found.")
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"a": 1024}, {}), "error")
    cloud.send_heartbeats(["b"])
    cloud.clock.seconds += 2
    cloud.rpc_servers[1].start()
    assert states(cloud.ask("evacuate_server", server)) == ("active", None, "b")


# --- rebuild -----------------------------------------------------------------------------------------


def test_a_rebuild_with_the_same_image_asks_no_scheduler(cloud):
    server = cloud.build("a")
    cloud.scheduler.stop()
    assert states(cloud.ask("rebuild_server", server)) == ("active", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_rebuild_with_another_image_claims_nothing(cloud):
    server = cloud.build("a")
    rebuilt = cloud.ask("rebuild_server", server, image=X86)
    assert (states(rebuilt), rebuilt.image_id) == (("active", None, "a"), "x86")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_rebuild_with_an_image_that_the_host_refuses_is_an_error(cloud):
    server = cloud.build("a")
    after = cloud.ask("rebuild_server", server, image=ARM)
    assert (states(after), after.spec.image) == (("error", None, "a"), None)
    assert cloud.fault(server).message.startswith("No valid host was found.")
    assert "ImagePropertiesFilter" in cloud.fault(server).details
    assert cloud.held(server) == ({"a": 1024}, {})


# --- shelving ----------------------------------------------------------------------------------------


def test_a_shelved_server_is_on_no_host_until_it_is_unshelved(cloud):
    server = cloud.build("a")
    assert states(cloud.ask("shelve_server", server)) == ("shelved_offloaded", None, None)
    assert (cloud.held(server), cloud.places(server)) == (({}, {}), [])
    assert states(cloud.ask("unshelve_server", server, host="c")) == ("active", None, "c")
    assert cloud.held(server) == ({"c": 1024}, {})


def test_an_unshelving_that_fails_is_tried_on_another_host(cloud, monkeypatch):
    server = cloud.build("a")
    cloud.ask("shelve_server", server)
    break_targets(cloud, monkeypatch, "a")
    assert states(cloud.ask("unshelve_server", server)) == ("active", None, "b")
    assert cloud.held(server) == ({"b": 1024}, {})


def test_without_a_host_a_server_stays_shelved(make_cloud):
    cloud = make_cloud(["a"], memory_mb=512 + 1024)
    server = cloud.build("a")
    cloud.ask("shelve_server", server)
    cloud.build("a")
    assert states(cloud.ask("unshelve_server", server)) == ("shelved_offloaded", None, None)
    assert cloud.fault(server).message.startswith("No valid host was found.")
    assert cloud.held(server) == ({}, {})


def test_an_unshelving_into_another_zone_pins_the_server_to_it(cloud):
    server = cloud.build("a")
    cloud.ask("shelve_server", server)
    with pytest.raises(RemoteFailure, match="'mars' is not available"):
        cloud.ask("unshelve_server", server, availability_zone="mars")
    with pytest.raises(RemoteFailure, match="availability_zone"):
        cloud.ask("unshelve_server", server, availability_zone=5)
    assert cloud.store.get(server.uuid).task_state is None
    unshelved = cloud.ask("unshelve_server", server, availability_zone="nova")
    assert (states(unshelved), unshelved.spec.availability_zone) == (("active", None, "a"), "nova")


# --- images ------------------------------------------------------------------------------------------


def test_an_image_that_needs_more_than_the_flavor_has_is_refused(cloud):
    server = cloud.build("a", flavor=AGENTS_LARGE, image=Image("big", min_ram=4096))
    with pytest.raises(RemoteFailure, match="memory is too small"):
        cloud.ask("resize_server", server, flavor=SMALL)
    with pytest.raises(RemoteFailure, match="disk is too small"):
        cloud.ask("rebuild_server", server, image={**X86, "min_disk": 2})
    assert states(cloud.store.get(server.uuid)) == ("active", None, "a")
