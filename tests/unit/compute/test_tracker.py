# SPDX-License-Identifier: Apache-2.0
"""Usage that an agent tracks: the local claim with nova's reasons, moves on both sides, statistics, restarts."""

import threading
import tracemalloc
from dataclasses import replace

import pytest
from tests.unit.compute.conftest import SMALL

from roost import Flavor
from roost.compute.drivers.base import FoundGuest
from roost.compute.tracker import uses_on
from roost.errors import ComputeResourcesUnavailable
from roost.hosts import HostRecord
from roost.hosts.guests import Guest, GuestSpace
from roost.hosts.numa_cells import HostCell, HostTopology
from roost.hosts.pci import pools_from_json
from roost.hosts.record import default_node_uuid
from roost.ledger.claim import Claim
from roost.messages.objects.flavor_image_group import flavor_to_object
from roost.messages.objects.selections import SelectedHost, selection_to_object
from roost.model.numa import InstanceCell
from roost.model.request import NumaLimits
from roost.model.resources import Use, move_of
from roost.records.reports import save_report
from roost.records.server import Migration, TaskData

LARGE = Flavor(4, 2048, root_gb=40)
RESERVED = Use(512, 0, 0)


def target(host):
    return selection_to_object(SelectedHost(host, host, f"uuid-{host}", "", {}, None, None))


def build_on(store, server, host="h1"):
    server = store.advance(server, "start build", host=host, node=host)
    return store.advance(server, "finish build")


# --- claims ------------------------------------------------------------------------------------------


def test_without_limits_everything_is_taken(tracker):
    tracker.claim("u1", Flavor(1000, 10**9, root_gb=10**6))
    assert tracker.used == Use(512 + 10**9, 10**6, 1000)


def test_all_reasons_are_told_in_novas_words(tracker):
    limits = {"memory_mb": 522, "disk_gb": 11, "vcpu": 0}
    with pytest.raises(ComputeResourcesUnavailable) as caught:
        tracker.claim("u1", SMALL, limits)
    assert str(caught.value) == (
        "Free memory 10.00 MB < requested 512 MB; Free disk 11.00 GB < requested 12 GB; "
        "Free vcpu 0.00 VCPU < requested 1 VCPU"
    )
    assert (tracker.used, tracker.tracked()) == (RESERVED, {})


def test_what_fits_exactly_is_taken_and_a_missing_limit_is_none(tracker):
    tracker.claim("u1", SMALL, {"memory_mb": 1024})
    with pytest.raises(ComputeResourcesUnavailable, match=r"^Free memory 0\.00 MB < requested 512 MB$"):
        tracker.claim("u2", SMALL, {"memory_mb": 1024})


def test_a_repeated_claim_counts_once(tracker):
    for _ in range(2):
        tracker.claim("u1", SMALL, {"memory_mb": 1024})
    assert tracker.used == Use(1024, 12, 1)


def test_an_aborted_claim_gives_everything_back(tracker):
    tracker.claim("u1", SMALL)
    tracker.abort("u1")
    tracker.abort("u1")
    assert (tracker.used, tracker.tracked()) == (RESERVED, {})


def test_of_many_threads_as_many_get_the_room_as_there_is(tracker):
    refused = []

    def claim(number):
        try:
            tracker.claim(f"u{number}", SMALL, {"memory_mb": 512 + 5 * 512})
        except ComputeResourcesUnavailable as error:
            refused.append(error)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(tracker.tracked()), len(refused), tracker.used.memory_mb) == (5, 11, 512 + 5 * 512)


def test_strangers_use_memory_that_servers_cannot_have(tracker):
    tracker.note_foreign_guests(
        [FoundGuest("s", "other", "running", False, 1000, 2), FoundGuest("u", "own", "running", True, 99, 1)]
    )
    assert tracker.reserved == tracker.used == Use(1512, 0, 2)


# --- CPUs and devices --------------------------------------------------------------------------------


CELL = HostCell(0, frozenset(range(4)), frozenset(range(4)), 4096)
DEVICES = pools_from_json([{"vendor_id": "8086", "product_id": "1", "count": 1}])


def pinned(*cpus):
    own = frozenset(range(len(cpus)))
    cell = InstanceCell(0, frozenset(), own, 512, cpu_policy="dedicated", cpu_pinning=tuple(enumerate(cpus)))
    return Guest((cell,))


def test_a_guest_on_cpus_of_another_is_refused(tracker):
    tracker.note_space(GuestSpace(HostTopology((CELL,)), ()))
    tracker.claim("u1", SMALL, guest=pinned(0, 1))
    tracker.claim("u2", SMALL, guest=pinned(2))
    with pytest.raises(ComputeResourcesUnavailable, match="cannot fit the given host NUMA topology"):
        tracker.claim("u3", SMALL, guest=pinned(1, 3))
    tracker.abort("u1")
    tracker.claim("u3", SMALL, guest=pinned(1, 3))


def test_a_device_that_another_guest_has_is_refused(tracker):
    tracker.note_space(GuestSpace(None, DEVICES))
    tracker.claim("u1", SMALL, guest=Guest(devices=DEVICES))
    with pytest.raises(ComputeResourcesUnavailable, match="Claim pci failed: 0 PCI devices 8086:1 are free there"):
        tracker.claim("u2", SMALL, guest=Guest(devices=DEVICES))


def test_limits_of_cells_are_respected(tracker):
    tracker.note_space(GuestSpace(HostTopology((CELL,)), ()))
    shared = Guest((InstanceCell(0, frozenset(range(4)), frozenset(), 512),))
    limits = {"numa_topology": NumaLimits(1.0, 1.0)}
    tracker.claim("u1", SMALL, limits, shared)
    with pytest.raises(ComputeResourcesUnavailable, match="overcommit limit"):
        tracker.claim("u2", SMALL, limits, shared)


# --- servers and moves -------------------------------------------------------------------------------


def test_a_server_counts_until_it_has_left(store, new_server, tracker):
    server = build_on(store, new_server())
    tracker.note(server)
    assert tracker.used == Use(1024, 12, 1)
    server = store.advance(server, "delete")
    tracker.note(server)
    assert tracker.used == Use(1024, 12, 1)
    tracker.note(store.advance(server, "finish delete"))
    assert (tracker.used, tracker.tracked()) == (RESERVED, {})


def test_a_server_of_another_host_is_not_noted(store, new_server, tracker):
    tracker.note(build_on(store, new_server(), "h2"))
    assert tracker.tracked() == {}


def resizing(server, host):
    """The server while it is resized from h1 to a host."""
    task = TaskData(
        "resize",
        vm_state="active",
        source=("h1", "h1"),
        target=target(host) if host else None,
        flavor=flavor_to_object(LARGE),
        old_flavor=flavor_to_object(SMALL),
    )
    return replace(server, vm_state="active", task_state="resize_prep", host="h1", node="h1", task=task)


SMALL_USE, LARGE_USE = Use(512, 12, 1), Use(2048, 40, 4)


def test_a_resize_counts_on_both_sides(new_server):
    server = resizing(new_server(), "h2")
    assert uses_on(server, "h1") == {move_of(server.uuid): SMALL_USE}
    assert uses_on(server, "h2") == {server.uuid: LARGE_USE}
    assert uses_on(server, "h3") == {}


def test_before_a_target_is_chosen_the_source_is_the_servers(new_server):
    server = resizing(new_server(), None)
    assert uses_on(server, "h1") == {server.uuid: SMALL_USE}


def test_a_resize_on_its_own_host_counts_twice(new_server, tracker):
    server = resizing(new_server(), "h1")
    tracker.note(server)
    tracker.claim(server.uuid, LARGE)
    assert tracker.used == RESERVED.plus(SMALL_USE).plus(LARGE_USE)
    assert tracker.stats()["num_instances"] == 1
    tracker.abort(server.uuid)
    assert tracker.used == RESERVED.plus(SMALL_USE)


def test_a_resized_server_holds_both_until_it_is_confirmed_or_reverted(new_server):
    server = resizing(new_server(flavor=LARGE), "h2")
    resized = replace(server, vm_state="resized", task_state=None, host="h2", node="h2")
    assert uses_on(resized, "h1") == {move_of(server.uuid): SMALL_USE}
    assert uses_on(resized, "h2") == {server.uuid: LARGE_USE}
    reverting = replace(resized, task_state="resize_reverting", task=replace(resized.task, target=None), host="h1")
    assert uses_on(reverting, "h1") == {server.uuid: SMALL_USE}
    assert uses_on(reverting, "h2") == {}


def test_a_live_migration_counts_on_both_sides(new_server):
    task = TaskData("live-migration", source=("h1", "h1"), target=target("h2"))
    server = replace(new_server(), vm_state="active", task_state="migrating", host="h1", task=task)
    assert uses_on(server, "h1") == {move_of(server.uuid): SMALL_USE}
    assert uses_on(server, "h2") == {server.uuid: SMALL_USE}


# --- restarts ----------------------------------------------------------------------------------------


def test_the_usage_survives_a_restart(store, new_server, make_tracker):
    before = make_tracker()
    for server in (build_on(store, new_server()), build_on(store, new_server(LARGE)), new_server()):
        before.note(server)
    again = make_tracker()
    again.rebuild()
    assert (again.used, again.stats(), again.tracked()) == (before.used, before.stats(), before.tracked())
    assert again.used == RESERVED.plus(SMALL_USE).plus(LARGE_USE)


def test_what_is_claimed_while_the_usage_is_counted_again_stays(store, new_server, tracker, monkeypatch):
    left, stays = build_on(store, new_server()), build_on(store, new_server())
    tracker.rebuild()
    list_on = store.list_on

    def claim_meanwhile(host):
        found = list_on(host)
        tracker.claim("u1", LARGE)
        tracker.forget(left.uuid)
        return found

    monkeypatch.setattr(store, "list_on", claim_meanwhile)
    tracker.rebuild()
    assert tracker.tracked().keys() == {stays.uuid, "u1"}


def test_a_server_that_moves_here_is_found_after_a_restart(store, new_server, make_tracker):
    server = build_on(store, new_server())
    task = resizing(server, "h2").task
    moving = Migration("m1", server.uuid, "resize", "pre-migrating", "h1", "h1", "h2", "h2")
    store.advance(server, "resize", task=task, also=store.create_migration(moving))
    found = {}
    for host in ("h1", "h2"):
        tracker = make_tracker(host)
        tracker.rebuild()
        found[host] = tracker.used
    assert found == {"h1": RESERVED.plus(SMALL_USE), "h2": RESERVED.plus(LARGE_USE)}


def test_cpus_that_the_ledger_has_booked_are_known_after_a_restart(
    engine, clock, store, ledger, new_server, make_tracker
):
    record = HostRecord(
        "h1", vcpus_total=4, total_usable_ram_mb=4096, total_usable_disk_gb=100, numa=HostTopology((CELL,))
    )
    save_report(engine, record, clock.now())
    server = build_on(store, new_server())
    node_uuid, amounts = default_node_uuid("h1", "h1"), {"VCPU": 2, "MEMORY_MB": 512}
    ledger.claim([Claim(server.uuid, node_uuid, amounts, guest=replace(pinned(0, 1), instance_uuid=server.uuid))])
    tracker = make_tracker()
    tracker.rebuild()
    tracker.note_space(GuestSpace(HostTopology((CELL,)), ()))
    with pytest.raises(ComputeResourcesUnavailable, match="NUMA topology"):
        tracker.claim("u2", SMALL, guest=pinned(1))
    tracker.claim("u2", SMALL, guest=pinned(2))


# --- statistics --------------------------------------------------------------------------------------


def test_statistics_have_novas_names(store, new_server, tracker):
    tracker.note(build_on(store, new_server()))
    tracker.note(store.advance(new_server(os_type="windows"), "start build", host="h1", node="h1"))
    shelving = store.advance(build_on(store, new_server(project_id="red")), "shelve")
    tracker.note(shelving)
    assert tracker.stats() == {
        "num_instances": 3,
        "num_vm_active": 2,
        "num_vm_building": 1,
        "num_task_None": 1,
        "num_task_spawning": 1,
        "num_task_shelving": 1,
        "num_os_type_linux": 2,
        "num_os_type_windows": 1,
        "num_proj_blue": 2,
        "num_proj_red": 1,
        "io_workload": 1,
        "failed_builds": 0,
    }


@pytest.mark.parametrize(
    ("vm_state", "task_state", "counts"),
    [
        ("building", "spawning", 1),
        ("active", "resize_prep", 1),
        ("active", "resize_migrating", 1),
        ("error", "rebuilding", 1),
        ("shelved_offloaded", "unshelving", 1),
        ("active", "migrating", 0),
        ("active", "deleting", 0),
        ("active", None, 0),
    ],
)
def test_what_counts_as_io(new_server, tracker, vm_state, task_state, counts):
    tracker.note(replace(new_server(), vm_state=vm_state, task_state=task_state, host="h1"))
    assert tracker.stats()["io_workload"] == counts


def test_failed_builds_are_counted_until_one_succeeds(make_tracker):
    tracker, silent = make_tracker(), make_tracker(consecutive_build_service_disable_threshold=0)
    for each in (tracker, tracker, silent):
        each.build_failed()
    assert (tracker.failed_builds, silent.failed_builds) == (2, 0)
    tracker.build_succeeded()
    assert tracker.stats()["failed_builds"] == 0


def test_servers_that_are_gone_leave_nothing_behind(tracker):
    """D44: they were remembered until the next periodic report, which may be switched off."""
    tracker.rebuild()
    tracemalloc.start()
    try:
        for number in range(1000):
            tracker.forget(f"server {number}")
        assert tracemalloc.get_traced_memory()[0] < 5000
    finally:
        tracemalloc.stop()
