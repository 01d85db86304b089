# SPDX-License-Identifier: Apache-2.0
"""Each operation of the libvirt driver on real daemons; what it did is looked at with virsh."""

import multiprocessing
import subprocess
import time
import uuid
from pathlib import Path

from tests.nova_stack.processes import wait_for

from roost.compute.drivers.base import GuestSpec
from roost.compute.libvirt.driver import LibvirtDriver
from roost.compute.libvirt.options import LibvirtOptions, PciOptions
from roost.errors import HypervisorError
from roost.hosts.guests import Guest
from roost.model.numa import InstanceCell


def run_driver(checks, hosts):
    """Each operation of the driver on real daemons; what it did is looked at with virsh."""
    drivers = {host.name: make_driver(host) for host in hosts}
    for driver in drivers.values():
        driver.open()
    guest = GuestSpec(str(uuid.uuid4()), "web & <1>", vcpus=1, memory_mb=32)
    stranger = hosts["vm-1"].start_stranger()
    see_description(checks, drivers)
    see_pci_devices(checks, hosts["vm-1"])
    see_life(checks, hosts["vm-1"], drivers["vm-1"], guest)
    see_migration(checks, hosts, drivers, guest)
    see_interrupted_migration(checks, hosts, drivers)
    see_restart(checks, hosts, drivers["vm-2"], guest)
    see_power_failure(checks, hosts, drivers, guest)
    see_pinning(checks, hosts["vm-3"], drivers["vm-3"])
    see_stranger(checks, hosts["vm-1"], drivers["vm-1"], stranger)
    for driver in drivers.values():
        driver.close()


def make_driver(host):
    """A driver as an agent on this host has it."""
    return LibvirtDriver(options_of(host))


def options_of(host):
    return LibvirtOptions(connection_uri=host.uri, virt_type="qemu", live_migration_inbound_addr="127.0.0.1")


def see_description(checks, drivers):
    found = {name: driver.describe() for name, driver in drivers.items()}
    names = [each.hostname for each in found.values()]
    checks.see("each daemon is a host with a name of its own", names == list(drivers), names)
    one = found["vm-1"]
    checks.see(
        "a host tells processors, memory and what it can run",
        one.vcpus > 0 and one.memory_mb > 0 and ("x86_64", "qemu", "hvm") in one.supported_instances,
        f"{one.vcpus} CPUs, {one.memory_mb} MiB, {one.hypervisor_type} {one.hypervisor_version}",
    )
    cells = one.numa.cells if one.numa else ()
    checks.see("its NUMA cells have its CPUs", sum(len(cell.cpuset) for cell in cells) == one.vcpus, len(cells))


def see_pci_devices(checks, host):
    """PCI devices of this machine, where it has any: counted and booked for a guest that is only defined."""
    driver = LibvirtDriver(options_of(host), PciOptions(device_spec=('{"address": "*"}',)))
    pools = driver.describe().pci_pools
    there = len(list(Path("/sys/bus/pci/devices").iterdir())) if Path("/sys/bus/pci/devices").exists() else 0
    count = sum(pool.count for pool in pools)
    checks.see(
        "PCI devices are counted, bridges are not",
        count <= there and bool(count) == bool(there),
        f"{count} of {there}",
    )
    for pool in pools[:1]:
        first, second = (GuestSpec(str(uuid.uuid4()), "card", 1, 32, placement=Guest(devices=(pool,))) for _ in "12")
        driver.spawn(first, powered_on=False)
        given = host.virsh("dumpxml", first.uuid).count("<hostdev ")
        checks.see("a guest gets the devices that are booked for it", given == pool.count, given)
        refused = error_of(driver.spawn, second)
        checks.see("a second guest does not get the same ones", "are booked and 0" in refused, refused)
        driver.destroy(first.uuid)
    driver.close()


def see_life(checks, host, driver, guest):
    driver.spawn(guest)
    driver.spawn(guest)
    checks.see("spawn, repeated: one domain runs", host.domains().get(guest.uuid) == "running", host.domains())
    found = {each.uuid: each for each in driver.list_guests()}
    own = found.get(guest.uuid)
    checks.see("it is listed with the server's name", own and (own.name, own.is_own) == (guest.name, True), own)
    others = [(each.memory_mb, each.vcpus) for each in found.values() if not each.is_own]
    checks.see("the other program's is a stranger, of 16 MiB and 1 CPU", others == [(16, 1)], others)
    for _ in range(2):
        driver.power_off(guest.uuid)
    checks.see("power off, repeated", host.domains()[guest.uuid] == "shut off", host.domains()[guest.uuid])
    for _ in range(2):
        driver.power_on(guest.uuid)
    checks.see("power on, repeated", host.domains()[guest.uuid] == "running", host.domains()[guest.uuid])
    host.virsh("suspend", guest.uuid)
    paused = [each.power_state for each in driver.list_guests() if each.is_own]
    driver.power_on(guest.uuid)
    state = host.domains()[guest.uuid]
    checks.see("one that a user paused is told, and resumed", (paused, state) == (["nostate"], "running"), paused)


def see_migration(checks, hosts, drivers, guest):
    source, target = drivers["vm-1"], drivers["vm-2"]
    target.check_migration_source(source.migration_address())
    refused = error_of(source.check_migration_source, source.migration_address())
    checks.see("a move to the same host is refused", "this host" in refused, refused)
    started = time.monotonic()
    source.live_migrate(guest, target.migration_address())
    took = f"{time.monotonic() - started:.1f} s"
    there, here = hosts["vm-2"].domains(), hosts["vm-1"].domains()
    checks.see(
        "live migration: it runs on the target alone",
        there.get(guest.uuid) == "running" and guest.uuid not in here,
        took,
    )
    source.live_migrate(guest, target.migration_address())
    checks.see("repeated, it is left where it is", hosts["vm-2"].domains() == there, there)
    hosts["vm-2"].virsh("dumpxml", "--inactive", guest.uuid)
    lost = error_of(source.live_migrate, GuestSpec(str(uuid.uuid4()), "lost", 1, 32), target.migration_address())
    checks.see("a guest that is on neither host is told", "neither" in lost, lost)


def see_interrupted_migration(checks, hosts, drivers):
    """An agent that is killed during a migration: libvirt cancels it."""
    guest = GuestSpec(str(uuid.uuid4()), "large", vcpus=1, memory_mb=1024)
    source, target = hosts["vm-1"], hosts["vm-2"]
    drivers["vm-1"].spawn(guest)
    source.virsh("migrate-setspeed", guest.uuid, "1")
    agent = multiprocessing.get_context("spawn").Process(target=migrate_in_process, args=(source, target, guest))
    agent.start()
    wait_for("the migration begins", lambda: "Unbounded" in source.virsh("domjobinfo", guest.uuid))
    agent.kill()
    agent.join()
    wait_for("the target has no half of it", lambda: guest.uuid not in target.domains())
    state = source.domains().get(guest.uuid)
    checks.see("an agent is killed during a migration: the guest runs on at the source", state == "running", state)
    source.virsh("migrate-setspeed", guest.uuid, "1000")
    drivers["vm-1"].live_migrate(guest, drivers["vm-2"].migration_address())
    moved = target.domains().get(guest.uuid) == "running" and guest.uuid not in source.domains()
    checks.see("its migration can be repeated", moved)
    drivers["vm-2"].destroy(guest.uuid)


def migrate_in_process(source, target, guest):
    """What an agent does, in a process that can be killed."""
    make_driver(source).live_migrate(guest, make_driver(target).migration_address())


def see_restart(checks, hosts, driver, guest):
    hosts.kill_daemon("vm-2")
    away = error_of(driver.list_guests)
    checks.see("a killed daemon is told in one line", "no connection to" in away and "\n" not in away, away)
    hosts.start("vm-2")
    states = {each.uuid: each.power_state for each in driver.list_guests()}
    checks.see(
        "after its restart the same driver finds the guest, which has run on",
        states == {guest.uuid: "running"},
        states,
    )


def see_power_failure(checks, hosts, drivers, guest):
    was = hosts.qemu_pids("vm-2")
    hosts.kill("vm-2")
    checks.see("daemon and QEMU of a host are killed", was and not still_running(was), was)
    drivers["vm-3"].spawn(guest)
    checks.see(
        "the guest starts elsewhere", hosts["vm-3"].domains() == {guest.uuid: "running"}, hosts["vm-3"].domains()
    )
    hosts.start("vm-2")
    states = {each.uuid: each.power_state for each in drivers["vm-2"].list_guests()}
    checks.see("the host comes back with its definition, not running", states == {guest.uuid: "shutdown"}, states)
    for name in ("vm-2", "vm-3"):
        for _ in range(2):
            drivers[name].destroy(guest.uuid)
        checks.see(
            f"destroy on {name}, repeated: nothing is left", not hosts[name].domains() and not hosts.qemu_pids(name)
        )


def still_running(pids):
    """Processes that are there and no zombies."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", ",".join(map(str, pids))], capture_output=True, text=True, check=False
    )
    return [each for each in done.stdout.split() if not each.startswith("Z")]


def see_pinning(checks, host, driver):
    cell = InstanceCell(0, frozenset(), frozenset({0}), 32, cpu_policy="dedicated", cpu_pinning=((0, 1),))
    guest = GuestSpec(str(uuid.uuid4()), "pinned", 1, 32, placement=Guest((cell,)))
    driver.spawn(guest)
    pins = host.virsh("vcpupin", guest.uuid).split("\n")[2].split()
    checks.see("a guest that the ledger pinned to CPU 1 runs there", pins == ["0", "1"], pins)
    driver.destroy(guest.uuid)


def see_stranger(checks, host, driver, stranger):
    refusals = [error_of(each, stranger) for each in (driver.destroy, driver.power_off, driver.power_on)]
    refusals.append(error_of(driver.spawn, GuestSpec(stranger, "web", 1, 32)))
    checks.see("a stranger is never touched", all("not defined by Roost" in each for each in refusals), refusals[0])
    checks.see("it has run all the time", host.domains() == {stranger: "running"}, host.domains())


def error_of(operation, *arguments):
    """Message of the HypervisorError that an operation raises; empty where it raises none."""
    try:
        operation(*arguments)
    except HypervisorError as error:
        return str(error)
    return ""
