# SPDX-License-Identifier: Apache-2.0
"""PCI devices of a host that guests may get: read from libvirt's node device XML, in pools of equal devices."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from xml.etree import ElementTree as Xml

from roost.compute.drivers.libvirt.domain_xml import Address, format_address
from roost.errors import BadInput, HypervisorError
from roost.hosts.pci import Pool, Pools

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
