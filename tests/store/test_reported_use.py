# SPDX-License-Identifier: Apache-2.0
"""Reports of agents and claims of the ledger do not contradict each other: no report raises what is claimed."""

from dataclasses import replace

import pytest
from tests.store.fleets import LATER, NOW, UUID, changes_since, count_changes, one, wipe

from roost.hosts import HostRecord, Instance
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import Use, move_of
from roost.records.reports import save_report, save_statistics
from roost.store.change_log import NODES, Change
from roost.store.schema.fleet import compute_nodes

HOST = HostRecord(
    "a",
    vcpus_total=8,
    total_usable_ram_mb=16384,
    total_usable_disk_gb=100,
    reserved_vcpus=1,
    reserved_ram_mb=512,
    reserved_disk_gb=2,
    stats={"num_instances": 0, "io_workload": 3},
)
AMOUNTS = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 10}
SMALL = Use(1024, 9, 2)


@pytest.fixture
def store(current):
    yield current
    wipe(current)


@pytest.fixture
def ledger(store):
    save_report(store, HOST, NOW)
    return Ledger(store, now=lambda: NOW)


def node(engine):
    return one(engine, compute_nodes, host="a")


def use_of(engine):
    row = node(engine)
    assert row.memory_mb - row.free_ram_mb == row.memory_mb_used
    assert row.local_gb - row.free_disk_gb == row.local_gb_used
    return row.memory_mb_used, row.local_gb_used, row.vcpus_used, row.running_vms


def claim_of(engine, use=SMALL):
    return Claim(UUID % 1, node(engine).uuid, AMOUNTS, use)


def test_what_is_reserved_counts_as_used(store, ledger):
    assert use_of(store) == (512, 2, 1, 0)
    assert node(store).current_workload == 3


def test_a_claim_that_the_agent_does_not_know_stays_in_the_figures(store, ledger):
    ledger.claim([claim_of(store)])
    known = count_changes(store)
    save_report(store, HOST, LATER)
    assert use_of(store) == (1536, 11, 3, 1)  # disk as nova counts it, not as it is allocated
    assert changes_since(store, known) == set()  # schedulers have no reason to read the node again


def test_a_release_is_not_undone_by_an_agent_that_still_has_the_server(store, ledger):
    ledger.claim([claim_of(store)])
    ledger.release([UUID % 1])
    save_report(store, replace(HOST, stats={"num_instances": 1}), LATER)
    assert use_of(store) == (512, 2, 1, 0)


def test_the_source_of_a_move_counts_until_it_is_left(store, ledger):
    ledger.claim([claim_of(store)])
    ledger.start_move(move_of(UUID % 1), claim_of(store, use=Use(2048, 20, 4)))
    save_report(store, HOST, LATER)
    assert use_of(store) == (512 + 1024 + 2048, 2 + 9 + 20, 1 + 2 + 4, 2)
    ledger.finish_move(move_of(UUID % 1))
    save_report(store, HOST, LATER)
    assert use_of(store) == (512 + 2048, 2 + 20, 1 + 4, 1)


def test_an_instance_that_the_ledger_does_not_have_counts_too(store, ledger):
    ledger.claim([claim_of(store)])
    listed = tuple(Instance(UUID % number, resources=AMOUNTS) for number in (1, 2))
    save_report(store, replace(HOST, instances=listed), LATER)
    assert use_of(store) == (512 + 2 * 1024, 2 + 9 + 10, 1 + 2 + 2, 2)


def test_an_agent_that_reports_use_itself_is_believed(store, ledger):
    ledger.claim([claim_of(store)])
    save_report(store, replace(HOST, free_ram_mb=16000, free_disk_mb=99 * 1024, vcpus_used=0, num_instances=4), LATER)
    assert use_of(store) == (384, 1, 0, 4)


def test_a_change_of_the_hardware_is_one_change_with_the_claims_kept(store, ledger):
    ledger.claim([claim_of(store)])
    known = count_changes(store)
    save_report(store, replace(HOST, total_usable_ram_mb=32768), LATER)
    assert node(store).free_ram_mb == 32768 - 1536
    assert changes_since(store, known) == {Change(NODES, str(node(store).id))}


def test_statistics_alone_leave_everything_else(store, ledger):
    ledger.claim([claim_of(store)])
    before, known = node(store), count_changes(store)
    changed = replace(HOST, total_usable_ram_mb=1, num_io_ops=7, failed_builds=2, stats={"io_workload": 7})
    assert save_statistics(store, changed, LATER)
    after = node(store)
    assert (after.current_workload, after.stats, after.attributes) == (7, {"io_workload": 7}, {"failed_builds": 2})
    differing = {name for name in before._fields if getattr(before, name) != getattr(after, name)}
    assert differing == {"current_workload", "stats", "attributes", "updated_at"}
    assert changes_since(store, known) == {Change(NODES, str(after.id))}
    assert not save_statistics(store, replace(changed, host="unknown"), LATER)
