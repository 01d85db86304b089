# SPDX-License-Identifier: Apache-2.0
"""Fake hypervisors: guests that outlive their driver, delays on the given clock, failures of the given seed."""

import random
from dataclasses import replace

import pytest
from tests.clocks import SleeplessClock

from roost.compute.drivers.base import GuestSpec
from roost.compute.drivers.fake import FakeDriver, FakeGuest, FakeHypervisors
from roost.compute.drivers.registry import make_drivers
from roost.compute.options import FakeDriverOptions
from roost.errors import BadInput, HypervisorError, OptionError
from roost.scheduler.all_options import read_options

GUEST = GuestSpec("u1", "one", vcpus=2, memory_mb=512)
OPTIONS = FakeDriverOptions()


@pytest.fixture(params=["memory", "files"])
def hypervisors(request, tmp_path):
    return FakeHypervisors(tmp_path / "guests" if request.param == "files" else None)


@pytest.fixture
def make(hypervisors):
    def make_driver(host="h1", clock=None, seed=1, at=hypervisors, **options):
        settings = replace(OPTIONS, **options)
        return FakeDriver(host, at, settings, clock or SleeplessClock(), random.Random(seed))

    return make_driver


def states(driver):
    return {each.uuid: each.power_state for each in driver.list_guests()}


def test_a_guest_is_spawned_stopped_started_and_destroyed(make):
    driver = make()
    driver.spawn(GUEST)
    assert states(driver) == {"u1": "running"}
    driver.power_off("u1")
    driver.power_off("u1")
    assert states(driver) == {"u1": "shutdown"}
    driver.power_on("u1")
    assert states(driver) == {"u1": "running"}
    driver.destroy("u1")
    driver.destroy("u1")
    assert states(driver) == {}


def test_a_guest_that_is_there_is_started_and_not_built_again(make):
    clock = SleeplessClock()
    driver = make(clock=clock, build_seconds=5.0)
    driver.spawn(GUEST, powered_on=False)
    assert (states(driver), clock.slept) == ({"u1": "shutdown"}, [5.0])
    driver.spawn(GUEST)
    driver.spawn(GUEST, powered_on=False)
    assert (states(driver), clock.slept) == ({"u1": "running"}, [5.0])


def test_a_deletion_takes_the_time_it_is_told(make):
    clock = SleeplessClock()
    driver = make(clock=clock, delete_seconds=3.0)
    driver.destroy("u1")
    driver.spawn(GUEST)
    driver.destroy("u1")
    assert clock.slept == [3.0]


def test_what_is_not_there_cannot_be_started(make):
    with pytest.raises(HypervisorError, match="host h1: there is no guest u1"):
        make().power_on("u1")


def test_a_stranger_is_listed_and_never_destroyed(make, hypervisors):
    hypervisors.put("h1", FakeGuest("s1", "stranger", memory_mb=1024, vcpus=3, is_own=False))
    (found,) = make().list_guests()
    assert (found.is_own, found.memory_mb, found.vcpus) == (False, 1024, 3)
    with pytest.raises(HypervisorError, match="s1 is not Roost's"):
        make().destroy("s1")


def test_builds_fail_at_their_rate_and_leave_nothing(make):
    driver = make(build_failure_rate=0.25)
    failed = 0
    for at in range(200):
        try:
            driver.spawn(replace(GUEST, uuid=f"u{at}"))
        except HypervisorError:
            failed += 1
    assert 30 <= failed <= 70
    assert len(driver.list_guests()) == 200 - failed


def test_the_same_seed_fails_the_same_builds(tmp_path):
    def built(seed):
        driver = FakeDriver(
            "h", FakeHypervisors(), replace(OPTIONS, build_failure_rate=0.5), SleeplessClock(), random.Random(seed)
        )
        for at in range(20):
            try:
                driver.spawn(replace(GUEST, uuid=f"u{at}"))
            except HypervisorError:
                continue
        return sorted(states(driver))

    assert built(7) == built(7) != built(8)


# --- live migration ----------------------------------------------------------------------------------


def test_a_running_guest_moves_to_another_host(make, hypervisors):
    source, target = make("h1"), make("h2")
    source.spawn(GUEST)
    target.check_migration_source(source.migration_address())
    source.live_migrate(GUEST, target.migration_address())
    assert {host: list(guests) for host, guests in hypervisors.all_guests().items()} == {"h2": ["u1"]}
    source.live_migrate(GUEST, target.migration_address())  # an agent repeats it after a crash
    assert (states(source), states(target)) == ({}, {"u1": "running"})


def test_a_stopped_guest_does_not_move(make):
    source = make("h1")
    source.spawn(GUEST, powered_on=False)
    with pytest.raises(HypervisorError, match="does not run"):
        source.live_migrate(GUEST, make("h2").migration_address())


def test_a_move_that_fails_leaves_the_guest_where_it_was(make):
    source, target = make("h1", move_failure_rate=1.0), make("h2")
    source.spawn(GUEST)
    with pytest.raises(HypervisorError, match="cannot be migrated"):
        source.live_migrate(GUEST, target.migration_address())
    assert (states(source), states(target)) == ({"u1": "running"}, {})


def test_hosts_of_other_hypervisors_are_refused(make, tmp_path):
    stranger = make("h2", at=FakeHypervisors(tmp_path / "elsewhere"))
    with pytest.raises(HypervisorError, match="no live migration from or to h2"):
        make("h1").check_migration_source(stranger.migration_address())
    with pytest.raises(HypervisorError, match="no live migration from or to libvirt-1"):
        make("h1").check_migration_source({"type": "libvirt", "host": "libvirt-1"})


# --- files -------------------------------------------------------------------------------------------


def test_guests_in_files_are_seen_by_another_process(tmp_path, make):
    make("rack/1", at=FakeHypervisors(tmp_path)).spawn(GUEST)
    again = FakeHypervisors(tmp_path)
    assert again.guests_on("rack/1")["u1"] == FakeGuest("u1", "one", "running", 2, 512)
    assert list(again.all_guests()) == ["rack/1"]


def test_a_write_that_was_killed_half_way_is_no_guest(tmp_path, make):
    driver = make("h1", at=FakeHypervisors(tmp_path))
    driver.spawn(GUEST)
    (tmp_path / "h1" / "u2.123.456").write_text('{"uuid": "u')
    assert states(driver) == {"u1": "running"}


def test_a_file_that_cannot_be_read_is_an_error_of_the_hypervisor(tmp_path, make):
    driver = make("h1", at=FakeHypervisors(tmp_path))
    driver.spawn(GUEST)
    (tmp_path / "h1" / "u1.json").write_text("no JSON")
    with pytest.raises(HypervisorError, match="state_directory"):
        driver.list_guests()


# --- the host ----------------------------------------------------------------------------------------


def test_cells_share_cpus_and_memory(make):
    numa = make(vcpus=7, memory_mb=1001, numa_cells=2).describe().numa
    assert [(sorted(cell.cpuset), cell.memory) for cell in numa.cells] == [([0, 1, 2], 500), ([3, 4, 5, 6], 501)]
    assert make().describe().numa is None


def test_pci_devices_are_pools(make):
    (pool,) = (
        make(pci_devices=('{"vendor_id": "8086", "product_id": "1", "count": 4, "numa_node": 0}',))
        .describe()
        .pci_pools
    )
    assert (pool["vendor_id"], pool.count, pool.numa_node) == ("8086", 4, 0)


@pytest.mark.parametrize("line", ["8086:1", '{"vendor_id": "8086"}'])
def test_devices_that_cannot_be_understood_name_the_option(make, line):
    with pytest.raises(OptionError, match=r"\[roost_fake\] pci_devices"):
        make(pci_devices=(line,))


# --- make_drivers ------------------------------------------------------------------------------------


def settings_with(**options):
    return read_options(explicit={"DEFAULT": options.pop("DEFAULT"), "roost_fake": options})


def drivers_of(settings, hosts):
    return make_drivers(settings, hosts, clock=SleeplessClock(), randomness=random.Random(1))


@pytest.mark.parametrize("name", ["fake", "fake.FakeDriver"])
def test_fake_hosts_share_their_hypervisors(name, tmp_path):
    settings = settings_with(DEFAULT={"compute_driver": name}, memory_mb=2048, state_directory=str(tmp_path))
    drivers = drivers_of(settings, ["h1", "h2"])
    assert drivers["h1"].describe().memory_mb == 2048
    drivers["h1"].spawn(GUEST)
    drivers["h1"].live_migrate(GUEST, drivers["h2"].migration_address())
    assert states(drivers_of(settings, ["h2"])["h2"]) == {"u1": "running"}


def test_a_driver_that_only_nova_has_is_refused_by_agents_alone():
    settings = settings_with(DEFAULT={"compute_driver": "vmwareapi.VMwareVCDriver"})
    with pytest.raises(OptionError, match=r"compute_driver: Roost has no driver 'vmwareapi\.VMwareVCDriver'"):
        drivers_of(settings, ["h1"])


def test_libvirt_is_one_host():
    with pytest.raises(BadInput, match="libvirt is one host, not 2"):
        drivers_of(settings_with(DEFAULT={}), ["h1", "h2"])
