# SPDX-License-Identifier: Apache-2.0
"""A host that libvirt manages. Guests have processors, memory and PCI devices, and no disks or networks yet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as Xml

from roost.compute.drivers.base import FoundGuest, GuestSpec, HostDescription
from roost.compute.drivers.libvirt.capabilities import Capabilities, features_of, read_capabilities, traits_of
from roost.compute.drivers.libvirt.connection import Connection, load_library
from roost.compute.drivers.libvirt.domain_xml import Address, Machine, write_domain
from roost.compute.drivers.libvirt.domains import find_own, get_own, power_state_of, read, remove, start, stop
from roost.compute.drivers.libvirt.migration import check_source, migrate
from roost.compute.drivers.libvirt.options import KVM, NO_CPU_MODE, LibvirtOptions, PciOptions
from roost.compute.drivers.libvirt.pci_devices import HostDevice, choose_devices, make_pools, read_device, read_rules
from roost.errors import HypervisorError
from roost.records.server import SHUTDOWN

_BYTES_PER_GIB = 1024**3


class LibvirtDriver:
    """One libvirt daemon as a host. Guests that Roost did not define are listed and never touched."""

    def __init__(self, options: LibvirtOptions, pci: PciOptions | None = None) -> None:
        """OptionError or BadInput where an option cannot be obeyed; nothing is opened."""
        self._domain_type, self._cpu_mode = options.domain_type, options.guest_cpu_mode
        self._options, self._rules = options, read_rules((pci or PciOptions()).device_spec)
        self._connection = Connection(options.connection_uri)

    def open(self) -> None:
        """Connect; HypervisorError where that fails. A lost connection is opened again by the next operation."""
        self._connection.open()

    def close(self) -> None:
        """Disconnect. Guests go on running."""
        self._connection.close()

    # --- what the host has --------------------------------------------------------------------------

    def describe(self) -> HostDescription:
        """What the hypervisor has, as of now."""
        return self._connection.run("cannot describe the host", self._describe)

    def _describe(self, connection: Any) -> HostDescription:
        options, found = self._options, _capabilities(connection)
        info = connection.getInfo()
        is_whole = not options.host_vcpus and not options.host_memory_mb
        total_gb, free_gb = _disk_gb(options)
        return HostDescription(
            hostname=connection.getHostname(),
            hypervisor_type=connection.getType(),
            hypervisor_version=connection.getVersion(),
            vcpus=options.host_vcpus or info[2],
            memory_mb=options.host_memory_mb or info[1],
            local_gb=total_gb,
            supported_instances=found.supported_instances,
            cpu_info=found.cpu_info,
            traits=self._traits(connection, found),
            numa=found.numa if is_whole else None,
            pci_pools=make_pools(self._devices(connection), self._rules),
            host_ip=options.live_migration_inbound_addr,
            disk_available_least=free_gb,
        )

    def _traits(self, connection: Any, found: Capabilities) -> frozenset[str]:
        """Features of the processor that guests see; none where QEMU's default processor hides the machine's."""
        if self._domain_type != KVM or self._cpu_mode == NO_CPU_MODE:
            return frozenset()
        library = load_library()
        try:  # the capabilities leave out the features that the named model has
            expand = library.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
            expanded = Xml.fromstring(connection.baselineCPU([found.cpu_xml], expand))  # noqa: S314
        except library.libvirtError:  # not every architecture and driver can do it
            return traits_of(found.cpu_info["features"])
        return traits_of(features_of(expanded))

    def _devices(self, connection: Any) -> list[HostDevice]:
        """PCI devices of the machine; not looked at where no guest may have one."""
        if not self._rules:
            return []
        listed = connection.listAllDevices(load_library().VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV)
        found = (read_device(each.XMLDesc()) for each in listed)
        return sorted((device for device in found if device is not None), key=lambda device: device.address)

    # --- guests -------------------------------------------------------------------------------------

    def list_guests(self) -> Sequence[FoundGuest]:
        """All guests that are defined or running, foreign ones included."""
        return self._connection.run("cannot list guests", self._list_guests)

    def _list_guests(self, connection: Any) -> list[FoundGuest]:
        guests = []
        for domain in connection.listAllDomains():
            found = read(domain)
            if found is not None:
                state = power_state_of(domain)
                uses = (0, 0) if found.is_own or state == SHUTDOWN else (found.memory_mb, found.vcpus)
                guests.append(FoundGuest(found.uuid, found.name, state, found.is_own, *uses))
        return guests

    def spawn(self, guest: GuestSpec, powered_on: bool = True) -> None:
        """Define the guest and start it. One that runs already is left alone; one that is stopped is defined anew."""

        def work(connection: Any) -> None:
            domain = find_own(connection, guest.uuid)
            if domain is None or not domain.isActive():
                domain = connection.defineXML(self._write(connection, guest))
            if powered_on:
                start(domain)

        self._connection.run(f"cannot spawn guest {guest.uuid}", work)

    def _write(self, connection: Any, guest: GuestSpec) -> str:
        options, found = self._options, _capabilities(connection)
        arch = found.architecture
        machine = Machine(self._domain_type, arch, options.machine_for(arch), self._cpu_mode)
        cpus = {cell.id: cell.cpuset for cell in found.numa.cells} if found.numa else {}
        return write_domain(guest, machine, cpus, self._choose_devices(connection, guest))

    def _choose_devices(self, connection: Any, guest: GuestSpec) -> list[Address]:
        if guest.placement is None or not guest.placement.devices:
            return []
        others = [found for each in connection.listAllDomains() if (found := read(each)) and found.uuid != guest.uuid]
        taken = frozenset(address for other in others for address in other.devices)
        return choose_devices(guest.placement.devices, self._devices(connection), self._rules, taken)

    def destroy(self, uuid: str) -> None:
        """Stop the guest at once and remove its definition. One that is not there is no error."""
        self._connection.run(f"cannot destroy guest {uuid}", lambda connection: remove(find_own(connection, uuid)))

    def power_on(self, uuid: str) -> None:
        """Start a defined guest; one that runs is no error."""
        self._connection.run(f"cannot start guest {uuid}", lambda connection: start(get_own(connection, uuid)))

    def power_off(self, uuid: str) -> None:
        """Stop a guest; its definition stays. One that is stopped is no error."""
        self._connection.run(f"cannot stop guest {uuid}", lambda connection: stop(get_own(connection, uuid)))

    # --- live migration -----------------------------------------------------------------------------

    def migration_address(self) -> Mapping[str, Any]:
        """How another host reaches this one for a live migration, and what it has to know to check it."""
        return self._connection.run("cannot tell the address for migrations", self._migration_address)

    def _migration_address(self, connection: Any) -> dict[str, Any]:
        found = _capabilities(connection)
        address = self._options.live_migration_inbound_addr or connection.getHostname()
        return {
            "uri": _reachable_uri(self._options, address),
            "migrate_uri": f"tcp://{_bracketed(address)}",
            "listen_address": address,
            "host_uuid": found.host_uuid,
            "arch": found.architecture,
            "virt_type": self._domain_type,
            "hypervisor_type": connection.getType(),
            "hypervisor_version": connection.getVersion(),
            "cpu": "" if self._cpu_mode == NO_CPU_MODE else found.cpu_xml,
        }

    def check_migration_source(self, source: Mapping[str, Any]) -> None:
        """HypervisorError if a guest of a host with this `migration_address` cannot be taken over here."""

        def work(connection: Any) -> None:
            check_source(connection, source, self._migration_address(connection))

        self._connection.run("cannot take over a guest", work)

    def live_migrate(self, guest: GuestSpec, target: Mapping[str, Any]) -> None:
        """Move a running guest to the host with this `migration_address`; it is gone here afterwards.

        One that an interrupted call has already moved is no error.
        """
        slows_down = self._options.live_migration_permit_auto_converge

        def work(connection: Any) -> None:
            domain = find_own(connection, guest.uuid)
            if migrate(guest.uuid, domain, target, slows_down):
                remove(domain)

        self._connection.run_once(f"cannot migrate guest {guest.uuid}", work)


def _capabilities(connection: Any) -> Capabilities:
    try:
        return read_capabilities(connection.getCapabilities())
    except (ValueError, Xml.ParseError) as error:
        raise HypervisorError(f"the capabilities of {connection.getURI()} cannot be read: {error}") from error


def _reachable_uri(options: LibvirtOptions, address: str) -> str:
    """The URI at which agents on other hosts reach this daemon."""
    if options.live_migration_uri:
        return options.live_migration_uri.replace("%s", _bracketed(address))
    parts = urlsplit(options.connection_uri)
    names_daemon = parts.netloc or "socket=" in parts.query
    return options.connection_uri if names_daemon else f"qemu+tcp://{_bracketed(address)}/system"


def _bracketed(address: str) -> str:
    """An address as it is written in a URI."""
    return f"[{address}]" if ":" in address else address


def _disk_gb(options: LibvirtOptions) -> tuple[int, int | None]:
    """Size and free space for disks, GiB: of the file system of `host_disk_path`, or of its nearest parent.

    Free space is None where an option says the size.
    """
    if options.host_disk_gb >= 0:
        return options.host_disk_gb, None
    folder = Path(options.host_disk_path).absolute()
    found = os.statvfs(next(each for each in (folder, *folder.parents) if each.exists()))
    total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
    return total // _BYTES_PER_GIB, free // _BYTES_PER_GIB
