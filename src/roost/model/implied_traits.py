# SPDX-License-Identifier: Apache-2.0
"""Traits that other settings of flavor and image imply: disk format, buses, encryption, TPM.

A setting is read from the flavor as `hw:NAME` and from the image as `hw_NAME`; if it is set in both, they must
agree. Each function returns the required traits, empty if there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roost.errors import RuleError
from roost.model.image_property_table import ARCHITECTURES
from roost.model.numa_extra_specs import is_true

if TYPE_CHECKING:
    from roost.model.request import RequestSpec

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
