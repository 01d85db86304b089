# SPDX-License-Identifier: Apache-2.0
"""A host that libvirt manages. Guests have processors, memory and PCI devices, and no disks or networks yet.

Each operation on a domain may be repeated, and may meet a domain that is gone meanwhile. PCI devices that guests may
get are read from libvirt's node device XML, in pools of equal devices.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as Xml

from roost.compute.drivers.base import FoundGuest, GuestSpec, HostDescription
from roost.compute.libvirt.capabilities import Capabilities, features_of, read_capabilities, traits_of
from roost.compute.libvirt.connection import Connection, check_source, load_library, migrate
from roost.compute.libvirt.domain_xml import Address, FoundDomain, Machine, format_address, read_domain, write_domain
from roost.compute.libvirt.options import KVM, NO_CPU_MODE, LibvirtOptions, PciOptions
from roost.errors import BadInput, HypervisorError
from roost.hosts.pci import Pool, Pools
from roost.records.server import NO_STATE, RUNNING, SHUTDOWN


def find_own(connection: Any, uuid: str) -> Any:
    """The domain of a guest that Roost defined; None if there is none, HypervisorError for one of another program."""
    library = load_library()
    try:
        domain = connection.lookupByUUIDString(uuid)
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise
    found = read(domain)
    if found is not None and not found.is_own:
        remedy = "the hypervisor's other user has to remove it"
        raise HypervisorError(f"guest {uuid} ({found.name}) was not defined by Roost: it is not touched", remedy)
    return domain if found else None


def get_own(connection: Any, uuid: str) -> Any:
    """The domain of a guest that Roost defined; HypervisorError if there is none."""
    domain = find_own(connection, uuid)
    if domain is None:
        raise HypervisorError(f"guest {uuid} is not on this host")
    return domain


def read(domain: Any) -> FoundDomain | None:
    """What is known of a domain; None if it is gone meanwhile."""
    library = load_library()
    try:
        return read_domain(domain.XMLDesc())
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return None
        raise


def power_state_of(domain: Any) -> str:
    """One of `roost.records.server.POWER_STATES`; paused guests have no state."""
    library = load_library()
    try:
        state, _ = domain.state()
    except library.libvirtError as error:
        if error.get_error_code() == library.VIR_ERR_NO_DOMAIN:
            return SHUTDOWN
        raise
    if state in (library.VIR_DOMAIN_RUNNING, library.VIR_DOMAIN_BLOCKED, library.VIR_DOMAIN_SHUTDOWN):
        return RUNNING  # VIR_DOMAIN_SHUTDOWN: the guest has been asked to stop, and still runs
    return SHUTDOWN if state in (library.VIR_DOMAIN_SHUTOFF, library.VIR_DOMAIN_CRASHED) else NO_STATE


def start(domain: Any) -> None:
    """Start a domain, or resume one that a user has paused; one that runs is no error.

    One that is paused by a migration stays so: it may run on the target.
    """
    library = load_library()
    if domain.isActive():
        if domain.state() == [library.VIR_DOMAIN_PAUSED, library.VIR_DOMAIN_PAUSED_USER]:
            domain.resume()
        return
    try:
        domain.create()
    except library.libvirtError:
        if not domain.isActive():  # another call may have been faster
            raise


def stop(domain: Any) -> None:
    """Stop a domain at once; one that is stopped is no error."""
    library = load_library()
    if not domain.isActive():
        return
    try:
        domain.destroy()
    except library.libvirtError as error:
        if error.get_error_code() not in (library.VIR_ERR_OPERATION_INVALID, library.VIR_ERR_NO_DOMAIN):
            raise  # else it has stopped by itself


def remove(domain: Any) -> None:
    """Stop a domain and remove its definition; None is no error."""
    if domain is None:
        return
    library = load_library()
    flags = (
        library.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | library.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | library.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | library.VIR_DOMAIN_UNDEFINE_NVRAM
    )
    try:
        stop(domain)
        domain.undefineFlags(flags)
    except library.libvirtError as error:
        if error.get_error_code() != library.VIR_ERR_NO_DOMAIN:
            raise


_MATCHED = ("vendor_id", "product_id", "address")
_PHYSICAL_FUNCTION, _VIRTUAL_FUNCTION, _OTHER = "type-PF", "type-VF", "type-PCI"


@dataclass(frozen=True)
class HostDevice:
    """A PCI device of a host."""

    address: Address
    vendor_id: str
    product_id: str
    kind: str
    """nova's dev_type: type-PCI, type-PF or type-VF."""
    numa_node: int | None = None


@dataclass(frozen=True)
class DeviceRule:
    """Which devices guests may get: patterns for vendor_id, product_id and address; tags are properties they get."""

    patterns: Mapping[str, str]
    tags: Mapping[str, str]

    def admits(self, device: HostDevice) -> bool:
        """Whether a device matches all patterns."""
        return all(fnmatchcase(getattr(device, name), pattern) for name, pattern in self.patterns.items())


def read_rules(lines: Iterable[str]) -> tuple[DeviceRule, ...]:
    """The rules of option [pci] device_spec; BadInput where a line is no JSON object of texts."""
    return tuple(_read_rule(line) for line in lines)


def _read_rule(line: str) -> DeviceRule:
    remedy = 'write a JSON object, such as {"vendor_id": "8086", "product_id": "10ed"}'
    try:
        values: Any = json.loads(line)
    except ValueError as error:
        raise BadInput(f"[pci] device_spec {line}: {error}", remedy) from error
    if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
        raise BadInput(f"[pci] device_spec {line}: is not an object whose values are texts", remedy)
    patterns = {name: values[name].lower() for name in _MATCHED if name in values}
    if not patterns:
        raise BadInput(f"[pci] device_spec {line}: names no device", "give vendor_id, product_id or address")
    return DeviceRule(patterns, {name: value for name, value in values.items() if name not in _MATCHED})


def read_device(text: str) -> HostDevice | None:
    """A device from the XML of a node device; None where it is no PCI device or a bridge."""
    pci = Xml.fromstring(text).find("capability[@type='pci']")  # noqa: S314 - from the local daemon
    if pci is None or pci.find("capability[@type='pci-bridge']") is not None:
        return None
    vendor, product, node = pci.find("vendor"), pci.find("product"), pci.find("numa")
    parts = {name: pci.findtext(name, "0") for name in ("domain", "bus", "slot", "function")}
    if vendor is None or product is None:
        return None
    cell = None if node is None else int(node.get("node", "0"))
    return HostDevice(format_address(parts), _hex_id(vendor), _hex_id(product), _kind(pci), cell)


def _hex_id(element: Xml.Element) -> str:
    return element.get("id", "").removeprefix("0x").lower()


def _kind(pci: Xml.Element) -> str:
    if pci.find("capability[@type='phys_function']") is not None:
        return _VIRTUAL_FUNCTION  # it names the physical function that it belongs to
    functions = pci.find("capability[@type='virt_functions']")
    return _OTHER if functions is None else _PHYSICAL_FUNCTION


def make_pools(devices: Iterable[HostDevice], rules: Sequence[DeviceRule]) -> Pools:
    """The devices that guests may get, as pools of equal devices."""
    counts = Counter(found for device in devices if (found := properties_of(device, rules)))
    return tuple(Pool(properties, count) for properties, count in counts.items())


def properties_of(device: HostDevice, rules: Sequence[DeviceRule]) -> tuple[tuple[str, Any], ...]:
    """The properties of a device in its pool, by nova's names; empty if no rule admits it."""
    rule = next((each for each in rules if each.admits(device)), None)
    if rule is None:
        return ()
    own = {"vendor_id": device.vendor_id, "product_id": device.product_id, "dev_type": device.kind}
    return tuple(sorted({"numa_node": device.numa_node, **rule.tags, **own}.items()))


def choose_devices(
    booked: Iterable[Pool], devices: Sequence[HostDevice], rules: Sequence[DeviceRule], taken: Collection[Address]
) -> list[Address]:
    """Devices for a guest, of the pools that the ledger booked for it; HypervisorError where too few are free."""
    chosen: list[Address] = []
    for pool in booked:
        alike = (each.address for each in devices if properties_of(each, rules) == pool.properties)
        free = [address for address in alike if address not in taken and address not in chosen]
        if len(free) < pool.count:
            wanted = f"{pool.count} PCI devices {pool.get('vendor_id')}:{pool.get('product_id')}"
            raise HypervisorError(f"{wanted} are booked and {len(free)} of the host's are in no other guest")
        chosen += sorted(free)[: pool.count]
    return chosen


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
