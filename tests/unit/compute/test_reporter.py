# SPDX-License-Identifier: Apache-2.0
"""Reports of an agent, from its tracked usage to the row that a scheduler has of the host."""

import random
import threading

import pytest
from tests.store.fleets import changes_since, count_changes, one

from roost import Flavor, RequestSpec
from roost.compute.drivers.base import FoundGuest
from roost.compute.drivers.fake import FakeDriver, FakeHypervisors
from roost.compute.options import ComputeOptions, FakeDriverOptions
from roost.compute.reporter import HostReporter
from roost.compute.tracker import ResourceTracker
from roost.hosts import HostView
from roost.hosts.record import default_node_uuid
from roost.ledger.claim import Claim
from roost.model.resources import Use
from roost.records.reports import delete_node
from roost.records.services import save_heartbeats
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.change_log import NODES, Change
from roost.store.schema.fleet import compute_nodes, services

DEVICE = '{"vendor_id": "8086", "product_id": "1", "count": 4}'


@pytest.fixture
def make_reporter(engine, clock, make_tracker):
    def make(host="h1", driver=FakeDriver, tracker=None, **options):
        settings = FakeDriverOptions(**({"vcpus": 8, "memory_mb": 8192, "local_gb": 100} | options))
        made = driver(host, FakeHypervisors(), settings, clock, random.Random(1))
        return HostReporter(host, made, tracker or make_tracker(host), engine, clock)

    return make


@pytest.fixture
def read_host(engine, clock):
    """Reads a host as a scheduler has it."""

    def read(host="h1"):
        manager = make_host_manager(engine, SchedulerOptions(), clock.now, clock.monotonic)
        manager.refresh()
        return HostView(manager.table, manager.table.rows_of_host(host)[0])

    return read


def test_a_report_describes_the_host(make_reporter, make_tracker, read_host):
    tracker = make_tracker(reserved_host_cpus=1, reserved_host_disk_mb=1500, ram_allocation_ratio=1.5)
    make_reporter(tracker=tracker, numa_cells=2, pci_devices=(DEVICE,)).report()
    found = read_host()
    assert (found.vcpus_total, found.total_usable_ram_mb, found.total_usable_disk_gb) == (8, 8192, 100)
    assert (found.vcpus_used, found.free_ram_mb, found.free_disk_mb) == (1, 8192 - 512, 98 * 1024)
    assert (found.cpu_allocation_ratio, found.ram_allocation_ratio) == (4.0, 1.5)
    assert (found.hypervisor_type, found.num_instances, found.num_io_ops) == ("fake", 0, 0)
    assert len(found.numa.cells) == 2
    assert [pool.count for pool in found.pci_pools] == [4]


def test_io_and_failed_builds_reach_the_scheduler_with_the_report(
    make_reporter, tracker, store, new_server, read_host
):
    reporter = make_reporter(tracker=tracker)
    for _ in range(3):
        tracker.build_failed()
    for _ in range(2):
        tracker.note(store.advance(new_server(), "start build", host="h1", node="h1"))
    reporter.report()
    found = read_host()
    assert (found.failed_builds, found.num_io_ops) == (3, 2)
    assert found.stats["num_vm_building"] == 2
    tracker.build_succeeded()
    reporter.report()
    assert read_host().failed_builds == 0


def test_hosts_with_failed_builds_and_io_are_chosen_last(
    engine, clock, make_reporter, make_tracker, store, new_server
):
    settings = read_options(
        explicit={"filter_scheduler": {"weight_classes": ["BuildFailureWeigher", "IoOpsWeigher"]}}
    )
    failing, busy, calm = (make_tracker(host) for host in ("failing", "busy", "calm"))
    failing.build_failed()
    busy.note(store.advance(new_server(), "start build", host="busy", node="busy"))
    for tracker in (failing, busy, calm):
        make_reporter(tracker.host, tracker=tracker).report()
    manager = make_host_manager(engine, settings.fill(SchedulerOptions), clock.now, clock.monotonic)
    manager.refresh()
    spec = RequestSpec(flavor=Flavor(1, 512))
    place = build_pipeline(settings).place
    decision = place(manager.table, spec, ["u1"], randomness=random.Random(1), clock=lambda: 0, alternates=2)
    (chosen,) = decision.selections
    assert [each.host for each in (chosen, *chosen.alternates)] == ["calm", "busy", "failing"]


def test_a_claim_that_the_agent_does_not_know_of_survives_its_report(make_reporter, ledger, read_host):
    reporter = make_reporter()
    reporter.report()
    amounts = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}
    ledger.claim([Claim("u1", default_node_uuid("h1", "h1"), amounts, Use(1024, 10, 2))])
    reporter.report()
    found = read_host()
    assert (found.vcpus_used, found.free_ram_mb, found.free_disk_mb, found.num_instances) == (2, 6656, 90 * 1024, 1)


def test_memory_of_strangers_is_reserved_for_them(make_reporter, tracker, read_host):
    tracker.note_foreign_guests([FoundGuest("s", "other", "running", False, memory_mb=10**6, vcpus=3)])
    make_reporter(tracker=tracker).report()
    found = read_host()
    assert (found.free_ram_mb, found.vcpus_used) == (0, 3)


def test_a_heartbeat_is_no_report(make_reporter, engine, clock):
    reporter = make_reporter()
    reporter.report()
    reported = one(engine, compute_nodes, host="h1").updated_at
    clock.seconds += 10
    save_heartbeats(engine, ["h1"], clock.now())
    assert one(engine, services, host="h1").last_seen_up == clock.now()
    assert one(engine, compute_nodes, host="h1").updated_at == reported


# --- bursts ------------------------------------------------------------------------------------------


class SlowTracker(ResourceTracker):
    """Counts how often it is asked for statistics, and answers when it is told to."""

    count, is_slow = 0, False

    def stats(self):
        self.count += 1
        if self.is_slow:
            self.begun.set()
            assert self.may_end.wait(30)
        return super().stats()


def test_a_burst_of_changes_makes_two_reports(make_reporter, store, ledger):
    tracker = SlowTracker("h1", store, ledger, ComputeOptions())
    tracker.begun, tracker.may_end = threading.Event(), threading.Event()
    reporter = make_reporter(tracker=tracker)
    reporter.report()
    tracker.count, tracker.is_slow = 0, True
    first = threading.Thread(target=reporter.note_change)
    first.start()
    assert tracker.begun.wait(30)
    for _ in range(20):
        reporter.note_change()
    tracker.may_end.set()
    first.join()
    assert tracker.count == 2
    reporter.note_change()
    assert tracker.count == 3


def test_a_change_of_a_server_is_one_change_of_the_node(make_reporter, engine, tracker, read_host):
    reporter = make_reporter(tracker=tracker)
    reporter.note_change()  # the first one tells everything
    known = count_changes(engine)
    reporter.note_change()
    assert changes_since(engine, known) == set()
    tracker.build_failed()
    reporter.note_change()
    assert changes_since(engine, known) == {Change(NODES, str(one(engine, compute_nodes, host="h1").id))}
    assert read_host().failed_builds == 1
    assert read_host().traits  # all else stayed


def test_after_a_change_an_equal_report_is_no_change(make_reporter, engine, tracker):
    reporter = make_reporter(tracker=tracker)
    reporter.report()
    tracker.build_failed()
    reporter.note_change()
    known = count_changes(engine)
    reporter.report()
    assert changes_since(engine, known) == set()


def test_a_node_that_was_deleted_is_reported_anew(make_reporter, engine, tracker):
    reporter = make_reporter(tracker=tracker)
    reporter.report()
    delete_node(engine, "h1")
    tracker.build_failed()
    reporter.note_change()
    assert one(engine, compute_nodes, host="h1").vcpus == 8


def test_a_report_that_failed_does_not_stop_the_next(make_reporter, engine):
    reporter = make_reporter()
    describe, reporter._driver.describe = reporter._driver.describe, lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        reporter.note_change()
    reporter._driver.describe = describe
    reporter.note_change()
    assert one(engine, compute_nodes, host="h1").vcpus == 8
