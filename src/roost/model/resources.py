# SPDX-License-Identifier: Apache-2.0
"""What a request takes of resource classes, which traits it requires, and what a consumer uses of a host.

Amounts and traits come from the extra specs `resources:` and `trait:` of the flavor, and from settings that imply
traits: disk format, buses, encryption, TPM. Such a setting is read from the flavor as `hw:NAME` and from the image as
`hw_NAME`; if it is set in both, they must agree.

Allocation candidates say what placement offers for one instance, on which resource providers. They decide about
capacity and traits in place of a host's own columns where a request takes resources of more than one provider: a
child of the host's provider, such as a GPU, or a pool that several hosts share.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from roost.errors import RuleError
from roost.model.cpu_policy import is_true
from roost.model.flavor import Flavor
from roost.model.image_property_values import ARCHITECTURES
from roost.model.kinds import MOST, Matching

if TYPE_CHECKING:
    from roost.model.request import RequestSpec


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


"""Resource class -> amount."""


NONE: frozenset[str] = frozenset()
_IMAGE_TYPES = frozenset("AKI AMI ARI ISO QCOW2 RAW VDI VHD VHDX VMDK PLOOP".split())
_BUSES = frozenset("FDC IDE LXC SATA SCSI USB VIRTIO UML XEN".split())
_GRAPHICS = frozenset("BOCHS CIRRUS GOP NONE QXL VGA VIRTIO VMVGA XEN".split())
_VIFS = frozenset(
    "E1000 E1000E LAN9118 NETFRONT NE2K_PCI PCNET RTL8139 SPAPR_VLAN SRIOV VIRTIO VMXNET VMXNET3 IGB".split()
)
_EMULATED = frozenset("AARCH64 PPC64LE MIPSEL S390X RISCV64 X86_64".split())
_HARDWARE = frozenset("ARMV7" if name == "armv7l" else name.upper() for name in ARCHITECTURES)
_IMAGE_METADATA = {
    "hw_cdrom_bus": ("COMPUTE_STORAGE_BUS", _BUSES),
    "hw_disk_bus": ("COMPUTE_STORAGE_BUS", _BUSES),
    "hw_video_model": ("COMPUTE_GRAPHICS_MODEL", _GRAPHICS),
    "hw_vif_model": ("COMPUTE_NET_VIF_MODEL", _VIFS),
    "hw_architecture": ("HW_ARCH", _HARDWARE),
    "hw_emulation_architecture": ("COMPUTE_ARCH", _EMULATED),
    "hw_viommu_model": ("COMPUTE_VIOMMU_MODEL", frozenset({"INTEL", "SMMUV3", "VIRTIO", "AUTO"})),
}
_ENCRYPTION_FORMATS = ("plain", "luks", "luksv2")
_SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
_TPM_LEVELS = ("user", "host", "deployment")


def image_type_traits(spec: RequestSpec) -> frozenset[str]:
    """The trait of the image's disk format; none when booting from a volume."""
    if spec.is_bfv or spec.image is None:
        return NONE
    if not spec.image.disk_format:
        raise RuleError("image type support", "the image has no disk_format", "AttributeError", "set one")
    suffix = spec.image.disk_format.upper()
    return frozenset({f"COMPUTE_IMAGE_TYPE_{suffix}"}) if suffix in _IMAGE_TYPES else NONE


def image_metadata_traits(spec: RequestSpec) -> frozenset[str]:
    """Traits of the image's buses, models and architectures; none at all if one of them has no standard trait."""
    if spec.image is None:
        return NONE
    traits = set()
    for name, (prefix, standard) in _IMAGE_METADATA.items():
        value = spec.image.properties.get(name)
        if value:
            suffix = "ARMV7" if value == "armv7l" else str(value).upper().replace("-", "_")
            if suffix not in standard:
                return NONE
            traits.add(f"{prefix}_{suffix}")
    return frozenset(traits)


def accelerator_traits(spec: RequestSpec) -> frozenset[str]:
    """The accelerator trait, if the flavor names a device profile."""
    return frozenset({"COMPUTE_ACCELERATORS"}) if spec.flavor.extra_specs.get("accel:device_profile") else NONE


def packed_ring_traits(spec: RequestSpec) -> frozenset[str]:
    """The trait for packed virtqueues, if flavor or image switch them on."""
    return frozenset({"COMPUTE_NET_VIRTIO_PACKED"}) if _switch(spec, "virtio_packed_ring") else NONE


def encryption_traits(spec: RequestSpec) -> frozenset[str]:
    """Traits for encrypted ephemeral disks and their format, if encryption is switched on."""
    if not _switch(spec, "ephemeral_encryption"):
        return NONE
    traits = {"COMPUTE_EPHEMERAL_ENCRYPTION"}
    disk_format = _choice(spec, "ephemeral_encryption_format", _ENCRYPTION_FORMATS)
    return frozenset(traits | ({f"COMPUTE_EPHEMERAL_ENCRYPTION_{disk_format.upper()}"} if disk_format else set()))


def sound_traits(spec: RequestSpec) -> frozenset[str]:
    """The trait for a virtio sound card; other sound models imply none."""
    is_virtio = _choice(spec, "sound_model", _SOUND_MODELS) == "virtio"
    return frozenset({"COMPUTE_SOUND_MODEL_VIRTIO"}) if is_virtio else NONE


def tpm_traits(spec: RequestSpec) -> frozenset[str]:
    """The trait for where the secret of an emulated TPM is kept, if a TPM version is set."""
    version = _choice(spec, "tpm_version", ("1.2", "2.0"))
    model = _choice(spec, "tpm_model", ("tpm-tis", "tpm-crb"))
    if not version:
        return NONE
    if model == "tpm-crb" and version != "2.0":
        raise RuleError("tpm", f"model tpm-crb with version {version}", "InvalidVTPMConfig", "it needs version 2.0")
    level = spec.flavor.extra_specs.get("hw:tpm_secret_security") or "user"
    if level not in _TPM_LEVELS:
        problem = f"hw:tpm_secret_security={level}"
        raise RuleError("tpm", problem, "RequestFilterFailed", f"one of {', '.join(_TPM_LEVELS)}")
    return frozenset({f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{level.upper()}"})


def feature_traits(spec: RequestSpec) -> frozenset[str]:
    """Traits for secure boot, a TPM, and PCI devices on the socket of the guest's NUMA cells, if asked for."""
    traits = set()
    image = spec.image.properties.get("os_secure_boot") if spec.image else None
    if "required" in (spec.flavor.extra_specs.get("os:secure_boot"), image):
        traits.add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    if version := _choice(spec, "tpm_version", ("1.2", "2.0")):
        model = _choice(spec, "tpm_model", ("tpm-tis", "tpm-crb")) or "tpm-tis"
        traits |= {f"COMPUTE_SECURITY_TPM_{each.upper()}" for each in (version.replace(".", "_"), model[4:])}
    if "socket" in _pair(spec, "pci_numa_affinity_policy"):
        traits.add("COMPUTE_SOCKET_PCI_NUMA_AFFINITY")
    return frozenset(traits)


def _pair(spec: RequestSpec, key: str) -> tuple[str | None, Any]:
    return spec.flavor.extra_specs.get(f"hw:{key}"), spec.image.properties.get(f"hw_{key}") if spec.image else None


def _conflict(key: str, flavor: Any, image: Any) -> RuleError:
    problem = f"the flavor says hw:{key}={flavor}, the image hw_{key}={image}"
    return RuleError(key, problem, "FlavorImageConflict", "make them agree, or drop one")


def _switch(spec: RequestSpec, key: str) -> bool:
    """A boolean setting. Any flavor text that does not mean true is false."""
    flavor, image = _pair(spec, key)
    if flavor is None:
        return bool(image)
    is_on = is_true(flavor)
    if image is not None and is_on != bool(image):
        raise _conflict(key, flavor, image)
    return is_on


def _choice(spec: RequestSpec, key: str, allowed: tuple[str, ...]) -> str | None:
    """A setting with a fixed set of values, from flavor or image; None if unset."""
    flavor, image = _pair(spec, key)
    if flavor and image and flavor != image:
        raise _conflict(key, flavor, image)
    value = flavor or image
    if value and value not in allowed:
        raise RuleError(key, f"hw:{key}={value}", "Invalid", f"one of {', '.join(allowed)}")
    return str(value) if value else None


Amounts = Mapping[str, int]
"""Resource class -> amount."""


@dataclass(frozen=True)
class AllocationCandidate:
    """One way to serve one instance: what is taken from each provider."""

    allocations: Mapping[str, Amounts]
    """Provider uuid -> what is taken from it."""
    mappings: Mapping[str, Sequence[str]]
    """Suffix of a request group, empty for the one without -> uuids of the providers that serve it."""

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute by its name: filters of nova's shape read candidates as dicts."""
        return getattr(self, name, default)


@dataclass(frozen=True)
class AllocationCandidates:
    """The candidates of all hosts for a request, and what its providers have left."""

    by_node: Mapping[str, tuple[AllocationCandidate, ...]]
    """Uuid of a compute node, which is its root provider -> candidates that take something from it, best first."""
    free: Mapping[tuple[str, str], int]
    """(Provider uuid, resource class) -> amount that can still be taken."""

    def of(self, node_uuid: str) -> list[AllocationCandidate]:
        """The candidates of a node for which all providers have enough left."""
        return [each for each in self.by_node.get(node_uuid, ()) if self._fits(each)]

    def without(self, taken: AllocationCandidate) -> AllocationCandidates:
        """What is left for the other instances of the request when one of them has taken this candidate."""
        free = dict(self.free)
        for provider, amounts in taken.allocations.items():
            for name, amount in amounts.items():
                free[provider, name] = free.get((provider, name), 0) - amount
        return replace(self, free=free)

    def _fits(self, candidate: AllocationCandidate) -> bool:
        return all(
            self.free.get((provider, name), 0) >= amount
            for provider, amounts in candidate.allocations.items()
            for name, amount in amounts.items()
        )


INSTANCE, MIGRATION, UNLISTED = "instance", "migration", "unlisted"
"""Kinds of consumers: a server; a migration, which keeps the server's old allocation; usage of unlisted servers."""

_MOVES = uuid.UUID("0d5f4a5e-5f0b-5d3e-8c57-9c0c0b6f1d21")


def move_of(instance: str) -> str:
    """The consumer uuid of the migration that holds the source of a moving instance."""
    return str(uuid.uuid5(_MOVES, instance))


class Use(NamedTuple):
    """The resources that an instance uses, as nova's host attributes count them."""

    memory_mb: int = 0
    disk_gb: int = 0
    vcpus: int = 0

    def plus(self, other: Use, sign: int = 1) -> Use:
        """The sum of this use and `sign` times the other; sign -1 subtracts."""
        return Use(*(one + sign * another for one, another in zip(self, other, strict=True)))


def use_of(details: Mapping[str, Any], amounts: Mapping[str, int]) -> Use:
    """The use that was recorded with the claim; without a record, the allocated MEMORY_MB, DISK_GB and VCPU."""
    recorded = details.get("use")
    if recorded is not None:
        return Use(*recorded)
    return Use(*(amounts.get(name, 0) for name in (MEMORY_MB, DISK_GB, VCPU)))


def use_on(details: Mapping[str, Any], node_id: int, amounts: Amounts) -> Use:
    """The use of one node by a consumer that may hold several, in different sizes; else as `use_of` says."""
    recorded = details.get("uses", {}).get(str(node_id))
    return Use(*recorded) if recorded else use_of(details, amounts)
