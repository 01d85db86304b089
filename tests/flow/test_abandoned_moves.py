# SPDX-License-Identifier: Apache-2.0
"""A host dies in the middle of a move: what the janitor does about it, and what can be done with the server then."""

from dataclasses import replace

import pytest
from tests.flow.moving_cloud import LARGE, X86, MovingCloud

from roost.compute.drivers.base import GuestSpec
from roost.conductor.parts import ConductorParts
from roost.conductor.questions import SchedulerQuestions
from roost.errors import HypervisorError, RpcTimeout
from roost.ledger.ledger import Ledger
from roost.records.server import Fault


@pytest.fixture
def cloud(tmp_path):
    cloud = MovingCloud(tmp_path)
    yield cloud
    assert cloud.findings() == []
    cloud.close()


@pytest.fixture
def server(cloud):
    return cloud.build("a")


def states(server):
    return server.vm_state, server.task_state, server.host


def refuse(source):
    """As a hypervisor of another kind refuses a guest."""
    raise HypervisorError("another kind of CPU")


def silence_during(cloud, monkeypatch, host, method, silent):
    """Another host dies while the hypervisor of this one does something."""
    driver = cloud.agents[host].real_driver
    usual = getattr(driver, method)

    def interrupted(*args):
        cloud.silence(silent)
        return usual(*args)

    monkeypatch.setattr(driver, method, interrupted)


def test_a_target_that_dies_before_it_has_prepared_is_replaced_by_the_alternate(cloud, server):
    cloud.silence("b")
    assert cloud.ask("migrate_server_cold", server).task_state == "resize_prep"
    cloud.down("b")
    assert states(cloud.clean_up(server)) == ("resized", None, "c")
    assert cloud.held(server) == ({"c": 1024}, {"a": 1024})
    cloud.ask("confirm_resize", server)


def test_a_source_that_dies_leaves_an_error_that_can_be_evacuated(cloud, server):
    cloud.silence("a")
    assert cloud.ask("resize_server", server, flavor=LARGE).task_state == "resize_migrating"
    cloud.down("a")
    failed = cloud.clean_up(server)
    assert (states(failed), failed.spec.flavor.memory_mb) == (("error", None, "a"), 1024)
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"a": 1024}, {}), "error")
    assert cloud.fault(server).message == "The server could not be moved: its host is down"
    assert states(cloud.ask("evacuate_server", server)) == ("active", None, "b")


def test_a_target_that_dies_before_the_start_leaves_an_error_that_can_be_rebuilt(cloud, server, monkeypatch):
    silence_during(cloud, monkeypatch, "a", "power_off", "b")
    assert cloud.ask("resize_server", server, flavor=LARGE).task_state == "resize_migrated"
    cloud.down("b")
    assert states(cloud.clean_up(server)) == ("error", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})
    assert states(cloud.ask("rebuild_server", server)) == ("active", None, "a")


def test_a_move_is_confirmed_without_its_source(cloud, server):
    cloud.ask("migrate_server_cold", server)
    cloud.silence("a")
    assert cloud.ask("confirm_resize", server).task_state == "resize_confirming"
    cloud.down("a")
    assert states(cloud.clean_up(server)) == ("active", None, "b")
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"b": 1024}, {}), "confirmed")
    cloud.start()
    cloud.recover()
    assert cloud.places(server) == ["b"]


def test_a_move_is_reverted_without_its_target(cloud, server):
    cloud.ask("resize_server", server, flavor=LARGE)
    cloud.silence("b")
    assert cloud.ask("revert_resize", server).task_state == "resize_reverting"
    cloud.down("b")
    reverted = cloud.clean_up(server)
    assert (states(reverted), reverted.spec.flavor.memory_mb) == (("active", None, "a"), 1024)
    assert cloud.held(server) == ({"a": 1024}, {})
    cloud.start()
    cloud.recover()
    assert cloud.places(server) == ["a"]


def test_a_source_that_is_down_cannot_be_reverted_to(cloud, server):
    cloud.ask("resize_server", server, flavor=LARGE)
    cloud.silence("a")
    assert cloud.ask("revert_resize", server).task.target is None
    cloud.down("a")
    failed = cloud.clean_up(server)
    assert (states(failed), failed.spec.flavor.memory_mb) == (("error", None, "a"), 1024)
    assert cloud.held(server) == ({"a": 1024}, {})
    assert states(cloud.ask("evacuate_server", server)) == ("active", None, "b")


def test_a_source_that_dies_before_the_live_migration_leaves_an_error(cloud, server, monkeypatch):
    silence_during(cloud, monkeypatch, "b", "check_migration_source", "a")
    assert cloud.ask("live_migrate_server", server).task_state == "migrating"
    cloud.down("a")
    assert states(cloud.clean_up(server)) == ("error", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_guest_that_has_arrived_is_kept_though_its_source_died(cloud, server, monkeypatch):
    silence_during(cloud, monkeypatch, "b", "check_migration_source", "a")
    cloud.ask("live_migrate_server", server)
    source, target = (cloud.agents[host].real_driver for host in "ab")
    monkeypatch.undo()
    source.live_migrate(GuestSpec(server.uuid, server.name, 1, 1024), target.migration_address())
    cloud.down("a")
    assert states(cloud.clean_up(server)) == ("active", None, "b")
    assert (cloud.held(server), cloud.status_of_move(server)) == (({"b": 1024}, {}), "completed")
    assert cloud.places(server) == ["b"]


def no_answer(*_, **__):
    raise RpcTimeout("no answer")


def test_a_target_that_does_not_answer_is_asked_again_while_it_is_up(cloud, server, monkeypatch):
    with monkeypatch.context() as patch:
        silence_during(cloud, patch, "b", "check_migration_source", "a")
        cloud.ask("live_migrate_server", server)
    source, target = (cloud.agents[host].real_driver for host in "ab")
    source.live_migrate(GuestSpec(server.uuid, server.name, 1, 1024), target.migration_address())
    cloud.down("a")
    with monkeypatch.context() as patch:
        patch.setattr(cloud.transport, "call", no_answer)
        assert states(cloud.clean_up(server)) == ("active", "migrating", "a")
    assert states(cloud.clean_up(server)) == ("active", None, "b")
    assert cloud.places(server) == ["b"]


def test_a_live_migration_between_two_hosts_that_died_is_an_error(cloud, server, monkeypatch):
    silence_during(cloud, monkeypatch, "b", "check_migration_source", "a")
    cloud.ask("live_migrate_server", server)
    cloud.down("a", "b")
    assert states(cloud.clean_up(server)) == ("error", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_guest_that_is_not_running_on_the_target_has_not_arrived(cloud, server, monkeypatch):
    silence_during(cloud, monkeypatch, "b", "check_migration_source", "a")
    cloud.ask("live_migrate_server", server)
    cloud.agents["b"].real_driver.spawn(GuestSpec(server.uuid, server.name, 1, 1024), powered_on=False)
    cloud.down("a")
    assert states(cloud.clean_up(server)) == ("error", None, "a")


def test_an_evacuation_to_a_host_that_dies_too_can_be_repeated(cloud, server):
    cloud.down("a")
    cloud.silence("b")
    assert cloud.ask("evacuate_server", server).task_state == "rebuilding"
    cloud.down("a", "b")
    assert states(cloud.clean_up(server)) == ("error", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})
    assert states(cloud.ask("evacuate_server", server)) == ("active", None, "c")


def test_a_server_whose_host_dies_is_not_shelved(cloud, server):
    cloud.silence("a")
    assert cloud.ask("shelve_server", server).task_state == "shelving"
    cloud.down("a")
    assert states(cloud.clean_up(server)) == ("active", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_an_unshelving_on_a_host_that_dies_is_tried_on_another(cloud, server):
    cloud.ask("shelve_server", server)
    cloud.silence("a")
    assert cloud.ask("unshelve_server", server).task_state == "unshelving"
    cloud.down("a")
    assert states(cloud.clean_up(server)) == ("active", None, "b")
    assert cloud.held(server) == ({"b": 1024}, {})


def test_what_is_deleted_while_a_host_is_chosen_holds_nothing_afterwards(cloud, server, monkeypatch):
    usual = SchedulerQuestions.select_one

    def deleted_meanwhile(*args):
        chosen = usual(*args)
        cloud.resume(cloud.begin(cloud.store.get(server.uuid), "delete"))
        return chosen

    monkeypatch.setattr(SchedulerQuestions, "select_one", deleted_meanwhile)
    assert cloud.ask("migrate_server_cold", server).vm_state == "deleted"
    assert (cloud.held(server), cloud.places(server)) == (({}, {}), [])


def test_a_claim_that_comes_after_the_deletion_is_dropped(cloud, server, monkeypatch):
    usual = SchedulerQuestions.select_one

    def too_late(*args):
        cloud.resume(cloud.begin(cloud.store.get(server.uuid), "delete"))
        return usual(*args)

    monkeypatch.setattr(SchedulerQuestions, "select_one", too_late)
    cloud.ask("migrate_server_cold", server)
    assert cloud.held(server) == ({}, {})


@pytest.mark.parametrize("is_refused", [False, True], ids=["the target takes it", "the target refuses"])
def test_a_claim_that_comes_after_its_move_was_given_up_is_dropped(cloud, server, monkeypatch, is_refused):
    """The scheduler is slow; the janitor's message has another conductor find that the source does not answer."""
    usual = SchedulerQuestions.select_one

    def too_late(*args):
        cloud.manager.parts.undo(cloud.store.get(server.uuid), "undo live migration", Fault("no answer"))
        return usual(*args)

    monkeypatch.setattr(SchedulerQuestions, "select_one", too_late)
    if is_refused:
        monkeypatch.setattr(cloud.agents["b"].real_driver, "check_migration_source", refuse)
    assert states(cloud.ask("live_migrate_server", server)) == ("active", None, "a")
    assert cloud.held(server) == ({"a": 1024}, {})


def test_a_claim_whose_caller_had_given_up_the_move_goes_back_when_it_comes_of_age(cloud, server, monkeypatch):
    """The question waited in the queue of schedulers for longer than its conductor waited for the answer."""
    usual = SchedulerQuestions.select_one

    def without_answer(*args):
        cloud.manager.parts.undo(cloud.store.get(server.uuid), "undo live migration", Fault("no answer"))
        usual(*args)
        raise RpcTimeout("no answer in time")

    monkeypatch.setattr(SchedulerQuestions, "select_one", without_answer)
    assert states(cloud.ask("live_migrate_server", server)) == ("active", None, "a")
    for seconds, held in ((599, ({"b": 1024}, {"a": 1024})), (2, ({"a": 1024}, {}))):
        cloud.clock.seconds += seconds
        cloud.manager.cleaning.run()
        assert cloud.held(server) == held


def test_a_move_that_is_given_up_does_not_undo_the_move_before(cloud, server, monkeypatch):
    """The agent that confirmed it was slow, or killed, before it told the ledger."""
    cloud.ask("migrate_server_cold", server)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "finish_move", lambda *_: False)
        cloud.ask("confirm_resize", server)
    assert states(cloud.ask("live_migrate_server", server, host="b", force=True)) == ("active", None, "b")
    assert cloud.held(server) == ({"b": 1024}, {})


def test_a_resize_that_is_given_up_does_not_undo_the_resize_before_on_the_same_host(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    cloud = MovingCloud(tmp_path / "one", ["a"], options={"allow_resize_to_same_host": True})
    server = cloud.build("a")
    cloud.ask("resize_server", server, flavor=LARGE)
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "finish_move", lambda *_: False)
        cloud.ask("confirm_resize", server)
    cloud.ask("resize_server", server, flavor={**LARGE, "memory_mb": 999999})
    assert cloud.fault(server).message.startswith("No valid host was found.")
    assert cloud.held(server) == ({"a": 4096}, {})
    assert cloud.findings() == []
    cloud.close()


def test_a_doubled_message_chooses_no_second_host(cloud, server, monkeypatch):
    cloud.silence("b")
    cloud.ask("migrate_server_cold", server)
    before = cloud.store.get(server.uuid)
    for generation in (before.generation - 1, before.generation):
        cloud.send(None, "migrate_server", replace(before, generation=generation))
    assert cloud.store.get(server.uuid) == before
    cloud.down("b")
    cloud.clean_up(server)
    cloud.ask("revert_resize", server)


# --- a conductor dies --------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here, as after kill -9."""


MOVES = (
    *(("migrate_server_cold", {}), ("resize_server", {"flavor": LARGE}), ("live_migrate_server", {})),
    *(("rebuild_server", {"image": X86}), ("unshelve_server", {})),
)


def ask_and_kill(cloud, server, method, arguments, monkeypatch, victim):
    """A conductor is killed when it is about to do this; the next one starts when the task has stalled."""

    def kill(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(ConductorParts, victim, kill)
        with pytest.raises(Killed):
            cloud.ask(method, server, **arguments)
    cloud.down()
    return cloud.clean_up(server)


@pytest.mark.parametrize("victim", ["assign", "wake_next"])
def test_a_move_survives_the_death_of_its_conductor(cloud, monkeypatch, victim):
    """Before the claimed host is recorded, and before the agent is told."""
    for method, arguments in MOVES:
        server = cloud.build("a")
        if method == "unshelve_server":
            cloud.ask("shelve_server", server)
        done = ask_and_kill(cloud, server, method, arguments, monkeypatch, victim)
        assert (done.task_state, len(cloud.store.list_migrations(server.uuid))) == (
            None,
            "migra" in method or "resize" in method,
        )
        if done.vm_state == "resized":
            done = cloud.ask("confirm_resize", server)
        assert (done.vm_state, cloud.held(server)[1]) == ("active", {})
        assert cloud.places(server) == [done.host] == list(cloud.held(server)[0])


def test_an_evacuation_survives_the_death_of_its_conductor(cloud, server, monkeypatch):
    cloud.down("a")
    with monkeypatch.context() as patch:
        patch.setattr(cloud, "down", lambda: MovingCloud.down(cloud, "a"))
        done = ask_and_kill(cloud, server, "evacuate_server", {}, patch, "assign")
    assert states(done) == ("active", None, "b")
    assert cloud.held(server) == ({"b": 1024}, {})


def test_a_move_that_was_given_up_is_ended_in_the_ledger_by_the_next_comparison(cloud, server, monkeypatch):
    """The conductor was killed after it had recorded that no host was found, and before it released the last."""

    for host in "bc":
        monkeypatch.setattr(cloud.agents[host].real_driver, "check_migration_source", refuse)
    ask_and_kill(cloud, server, "live_migrate_server", {}, monkeypatch, "undo_in_ledger")
    assert cloud.held(server) == ({"c": 1024}, {"a": 1024})
    cloud.recover()
    assert cloud.held(server) == ({"a": 1024}, {})
