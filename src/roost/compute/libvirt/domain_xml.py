# SPDX-License-Identifier: Apache-2.0
"""The definition of a guest as libvirt's domain XML: written for own guests, read for all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as Xml

from roost.compute.drivers.base import GuestSpec
from roost.compute.libvirt.capabilities import KIB_PER_MIB, kib_of
from roost.compute.libvirt.options import NO_CPU_MODE
from roost.model.numa import InstanceCell

NAMESPACE = "urn:roost:libvirt:1"
"""Of the element `server` in a domain's metadata, which marks the guests that Roost defined."""
_SERVER, _NAME = f"{{{NAMESPACE}}}server", f"{{{NAMESPACE}}}name"
_NOT_IN_XML = re.compile("[^\t\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Xml.register_namespace("roost", NAMESPACE)

Address = str
"""Of a PCI device: "0000:0a:00.1"."""


@dataclass(frozen=True)
class Machine:
    """What guests of a host have in common."""

    virt_type: str
    architecture: str
    machine_type: str | None = None
    """None: libvirt's own choice."""
    cpu_mode: str = NO_CPU_MODE


@dataclass(frozen=True)
class FoundDomain:
    """A domain as its XML describes it."""

    uuid: str
    name: str
    """Name of the server for own guests, of the domain for others."""
    is_own: bool
    devices: frozenset[Address] = frozenset()
    """PCI devices of the host that it has."""
    memory_mb: int = 0
    """Rounded up to MiB."""
    vcpus: int = 0


def domain_name(uuid: str) -> str:
    """Name of the domain of a server: unique on a host, which the name of a server need not be."""
    return f"roost-{uuid}"


def write_domain(
    guest: GuestSpec,
    machine: Machine,
    shared_cpus: Mapping[int, frozenset[int]] | None = None,
    devices: Sequence[Address] = (),
) -> str:
    """The XML of a guest without disks and network cards.

    `shared_cpus`: NUMA cell of the host -> its CPUs, for guests with cells and without pinned CPUs.
    """
    domain = Xml.Element("domain", type=machine.virt_type)
    _add(domain, "uuid", guest.uuid)
    _add(domain, "name", domain_name(guest.uuid))
    server = Xml.SubElement(_add(domain, "metadata"), _SERVER)
    _add(server, _NAME, _printable(guest.name))
    _add(domain, "memory", str(guest.memory_mb), unit="MiB")
    _add(domain, "vcpu", str(guest.vcpus), placement="static")
    system = {"arch": machine.architecture} | ({"machine": machine.machine_type} if machine.machine_type else {})
    _add(_add(domain, "os"), "type", "hvm", **system)
    if machine.architecture in ("x86_64", "i686"):
        features = _add(domain, "features")
        _add(features, "acpi")
        _add(features, "apic")
    cells = guest.placement.cells if guest.placement else ()
    _add_cpu(domain, machine.cpu_mode, cells)
    _add_cells(domain, cells, shared_cpus or {})
    _add(domain, "clock", offset="utc")
    _add(domain, "on_poweroff", "destroy")
    _add(domain, "on_reboot", "restart")
    _add(domain, "on_crash", "destroy")
    _add_devices(domain, devices)
    return Xml.tostring(domain, encoding="unicode")


def read_domain(text: str) -> FoundDomain:
    """What the XML of a domain says, whichever program defined it."""
    domain = Xml.fromstring(text)  # noqa: S314 - from the local daemon
    server = domain.find(f"metadata/{_SERVER}")
    named = None if server is None else server.findtext(_NAME)
    memory = domain.find("memory")
    sources = domain.iterfind("devices/hostdev[@type='pci']/source/address")
    return FoundDomain(
        uuid=domain.findtext("uuid", ""),
        name=domain.findtext("name", "") if named is None else named,
        is_own=server is not None,
        devices=frozenset(format_address(each.attrib) for each in sources),
        memory_mb=0 if memory is None else -(-kib_of(memory) // KIB_PER_MIB),
        vcpus=int(domain.findtext("vcpu", "0")),
    )


def format_address(parts: Mapping[str, str]) -> Address:
    """The address of a PCI device from its parts, which libvirt writes as 0x0a."""
    domain, bus, slot, function = (int(parts.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function"))
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _add(parent: Xml.Element, tag: str, text: str | None = None, **attributes: str) -> Xml.Element:
    child = Xml.SubElement(parent, tag, attributes)
    child.text = text
    return child


def _printable(name: str) -> str:
    """A name without characters that XML cannot hold."""
    return _NOT_IN_XML.sub("?", name)


def _add_cpu(domain: Xml.Element, mode: str, cells: Sequence[InstanceCell]) -> None:
    """The processor that the guest sees, with its NUMA cells."""
    if mode == NO_CPU_MODE and not cells:
        return
    cpu = _add(domain, "cpu", **({} if mode == NO_CPU_MODE else {"mode": mode}))
    if cells:
        numa = _add(cpu, "numa")
        for number, cell in enumerate(cells):
            cpus = _cpu_list(cell.cpuset | cell.pcpuset)
            _add(numa, "cell", id=str(number), cpus=cpus, memory=str(cell.memory), unit="MiB")


def _add_cells(domain: Xml.Element, cells: Sequence[InstanceCell], shared_cpus: Mapping[int, frozenset[int]]) -> None:
    """Where the guest's NUMA cells are on the host: CPUs, memory and the sizes of pages."""
    if not cells:
        return
    tuning = _add(domain, "cputune")
    for cell in cells:
        pinned = dict(cell.cpu_pinning or ())
        for cpu in sorted(cell.cpuset | cell.pcpuset):
            on_host = {pinned[cpu]} if cpu in pinned else shared_cpus.get(cell.id, frozenset())
            if on_host:
                _add(tuning, "vcpupin", vcpu=str(cpu), cpuset=_cpu_list(on_host))
    memory = _add(domain, "numatune")
    _add(memory, "memory", mode="strict", nodeset=_cpu_list({cell.id for cell in cells}))
    for number, cell in enumerate(cells):
        _add(memory, "memnode", cellid=str(number), mode="strict", nodeset=str(cell.id))
    large = [(number, cell.pagesize) for number, cell in enumerate(cells) if cell.pagesize and cell.pagesize > 4]
    if large:
        pages = _add(_add(domain, "memoryBacking"), "hugepages")
        for number, size in large:
            _add(pages, "page", size=str(size), unit="KiB", nodeset=str(number))


def _add_devices(domain: Xml.Element, devices: Sequence[Address]) -> None:
    """PCI devices of the host that the guest gets; libvirt detaches them from the host's own drivers."""
    parent = _add(domain, "devices")
    for address in devices:
        number, bus, rest = address.split(":")
        slot, function = rest.split(".")
        source = _add(_add(parent, "hostdev", mode="subsystem", type="pci", managed="yes"), "source")
        parts = {"domain": number, "bus": bus, "slot": slot, "function": function}
        _add(source, "address", **{name: f"0x{value}" for name, value in parts.items()})


def _cpu_list(cpus: frozenset[int] | set[int]) -> str:
    return ",".join(map(str, sorted(cpus)))
