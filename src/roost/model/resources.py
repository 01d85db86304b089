# SPDX-License-Identifier: Apache-2.0
"""Requested resource amounts and traits, from a flavor and its extra specs `resources:` and `trait:`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from roost.model.flavor import Flavor
from roost.validation.kinds import MOST, Matching

VCPU, MEMORY_MB, DISK_GB = "VCPU", "MEMORY_MB", "DISK_GB"

STANDARD_CLASSES = frozenset(
    [
        "VCPU",
        "MEMORY_MB",
        "DISK_GB",
        "PCI_DEVICE",
        "SRIOV_NET_VF",
        "NUMA_SOCKET",
        "NUMA_CORE",
        "NUMA_THREAD",
        "NUMA_MEMORY_MB",
        "IPV4_ADDRESS",
        "VGPU",
        "VGPU_DISPLAY_HEAD",
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_BW_IGR_KILOBIT_PER_SEC",
        "PCPU",
        "MEM_ENCRYPTION_CONTEXT",
        "FPGA",
        "PGPU",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    ]
)

_LONGEST = 64
"""Maximum length of an amount that is parsed; a longer one exceeds any host's capacity."""

_RESOURCE = re.compile(r"resources(?:[A-Za-z0-9_-]{1,64})?:(?P<name>.+)")
_TRAIT = re.compile(r"trait(?:[A-Za-z0-9_-]{1,64})?:(?P<name>.+)")
_PERSISTENT_MEMORY = "CUSTOM_PMEM_NAMESPACE_"
_CUSTOM = re.compile(r"CUSTOM_[A-Z0-9_]+")

RESOURCE_CLASS = Matching(
    f"({'|'.join(sorted(STANDARD_CLASSES))}|{_CUSTOM.pattern})",
    "is no resource class",
    "a standard one, or CUSTOM_NAME",
)


def is_resource_class(name: str) -> bool:
    """Whether it is a standard class, or a custom one: CUSTOM_ followed by capitals, digits and underscores."""
    return name in STANDARD_CLASSES or bool(_CUSTOM.fullmatch(name))


def resource_class_of(extra_spec: str) -> str | None:
    """The resource class that an extra spec such as `resources:VGPU` sets the amount of; None for any other."""
    match = _RESOURCE.fullmatch(extra_spec)
    return match["name"] if match and is_resource_class(match["name"]) else None


def requested_amounts(
    flavor: Flavor, is_volume_booted: bool = False, groups: Iterable[Mapping[str, int]] = ()
) -> dict[str, int]:
    """Resource class -> requested amount; classes with amount 0 are left out.

    VCPU, MEMORY_MB and DISK_GB come from the flavor (swap rounded up to whole GB; no root disk when booted from
    a volume). A `resources:CLASS` extra spec replaces the flavor's amount or adds a class; 0 removes it. An extra
    spec with an unknown class or an invalid amount is ignored, as in nova. `groups` are additional amounts of the
    request; they are added to those of the extra specs.
    """
    requested = _amounts_in(flavor.extra_specs) | persistent_memory(flavor.extra_specs)
    for group in groups:
        for name, amount in group.items():
            requested[name] = min(MOST, requested.get(name, 0) + amount)
    if VCPU not in requested and "PCPU" not in requested:
        requested[VCPU] = flavor.vcpus
    requested.setdefault(MEMORY_MB, flavor.memory_mb)
    root_gb = 0 if is_volume_booted else flavor.root_gb
    requested.setdefault(DISK_GB, root_gb + flavor.ephemeral_gb + -(-flavor.swap // 1024))
    return {name: amount for name, amount in requested.items() if amount > 0}


def persistent_memory(extra_specs: Mapping[str, str]) -> dict[str, int]:
    """Resource class -> amount of the namespaces of persistent memory in `hw:pmem`: labels, separated by commas."""
    labels = [label.strip() for label in extra_specs.get("hw:pmem", "").split(",")]
    names = [f"{_PERSISTENT_MEMORY}{label.upper()}" for label in labels if label]
    return {name: names.count(name) for name in names if _CUSTOM.fullmatch(name)}


def requested_traits(extra_specs: Mapping[str, str]) -> tuple[frozenset[str], frozenset[str]]:
    """(required, forbidden) traits of the extra specs `trait:NAME`."""
    by_mark: dict[str, set[str]] = {"required": set(), "forbidden": set()}
    for key, mark in extra_specs.items():
        match = _TRAIT.fullmatch(key)
        if match and mark in by_mark:
            by_mark[mark].add(match["name"])
    return frozenset(by_mark["required"]), frozenset(by_mark["forbidden"])


def _amounts_in(extra_specs: Mapping[str, str]) -> dict[str, int]:
    """Resource class -> amount of the `resources:` extra specs. Numbered groups are summed: one host serves all."""
    amounts: dict[str, int] = {}
    for key, value in extra_specs.items():
        name = resource_class_of(key)
        if name and (amount := parse_amount(value)) is not None:
            amounts[name] = min(MOST, amounts.get(name, 0) + amount)
    return amounts


def parse_amount(text: str) -> int | None:
    """The amount of a `resources:` extra spec, at most MOST; None if it is no whole number."""
    if not text.strip().isdecimal():
        return None
    return min(MOST, int(text)) if len(text) <= _LONGEST else MOST  # int() refuses texts of thousands of digits
