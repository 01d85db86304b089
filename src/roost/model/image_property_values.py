# SPDX-License-Identifier: Apache-2.0
"""The known image properties: names, legacy names, and the converter of each property's value.

A converter is called with the raw value and returns the typed one, or raises ImagePropertyError with an empty field:
the caller knows the name of the property. Kinds of values: numbers, texts, choices, CPU lists, version predicates.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from roost.errors import FieldError, nearest
from roost.model.kinds import FrozenDict, shown

Converter = Callable[[Any], Any]
"""Raw value of a property -> typed value; raises ImagePropertyError with an empty field."""

VersionPredicates = tuple[tuple[str, tuple[int, ...]], ...]
"""Comparisons that must all hold: `(">=", (6, 0)), ("<", (7,))`."""

LARGEST_CPU = 65535
"""The highest CPU number of an instance. The bound keeps `0-999999999` from exhausting memory."""


class ImagePropertyError(FieldError):
    """An image property whose value cannot be converted. `nova_type` names the error that nova would raise."""

    code = "roost.bad_input.image_property"

    def __init__(self, field: str, problem: str, hint: str = "", nova_type: str = "ValueError") -> None:
        super().__init__(field, problem, hint)
        self.nova_type = nova_type

    def at(self, field: str) -> ImagePropertyError:
        """A copy of this error with another field path."""
        return ImagePropertyError(field, self.problem, self.hint, self.nova_type)


def property_error(value: Any, problem: str, hint: str = "", nova_type: str = "ValueError") -> ImagePropertyError:
    """The error for a raw value, which the message quotes before `problem`; its field is empty."""
    return ImagePropertyError("", f"{shown(value)} {problem}", hint, nova_type)


# --- scalars --------------------------------------------------------------------------------------


def to_integer(value: Any) -> int:
    """The integer that int() reads from the value's text; 4.0 and True are refused."""
    try:
        return int(str(value))
    except ValueError:
        raise property_error(value, "is not an integer", "write digits, such as 4") from None


def to_text(value: Any) -> str:
    """The text of a text, a number or a boolean."""
    if not isinstance(value, (str, int, float)):
        raise property_error(value, "is not text", "put it in quotes")
    try:
        return str(value)
    except ValueError:
        raise property_error(value, "has no text", "use a smaller number") from None


def to_boolean(value: Any) -> bool:
    """True for the texts that mean yes, for True and for 1; False for everything else."""
    if isinstance(value, str):
        return value.lower() in ("true", "yes", "on", "1", "t", "y")
    return isinstance(value, int) and value == 1


def one_of(allowed: str, any_case: bool = False, **aliases: str) -> Converter:
    """A converter for one of the blank-separated words. `aliases`: other accepted word -> the allowed word.

    `any_case`: the value is lowercased before it is compared.
    """
    choices = allowed.split()
    hint = "one of: " + ", ".join(choices)

    def convert(value: Any) -> str:
        if not isinstance(value, str):
            raise property_error(value, "is not text", f"put it in quotes; {hint}")
        word = value.lower() if any_case else value
        word = aliases.get(word, word)
        if word not in choices:
            raise property_error(value, "is not allowed", hint if len(choices) <= 12 else nearest(word, choices))
        return word

    return convert


# --- lists ----------------------------------------------------------------------------------------


def to_text_list(value: Any) -> tuple[str, ...]:
    """The texts of a list."""
    if not isinstance(value, (list, tuple)):
        raise property_error(value, "is not a list of texts")
    return tuple(to_text(each) for each in value)


def to_map_list(value: Any) -> tuple[Mapping[str, Any], ...]:
    """A list of mappings, as read-only copies."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, Mapping) for each in value):
        raise property_error(value, "is not a list of maps")
    return tuple(_frozen(each) for each in value)


def _frozen(value: Any) -> Any:
    """A read-only copy: lists become tuples, sets frozensets, mappings FrozenDicts, at any depth."""
    if isinstance(value, Mapping):
        return FrozenDict({key: _frozen(each) for key, each in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(each) for each in value)
    return frozenset(value) if isinstance(value, set) else value


def thawed(value: Any) -> Any:
    """A converted value with ordinary containers: tuples become lists, frozensets sets, mappings dicts."""
    if isinstance(value, Mapping):
        return {key: thawed(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [thawed(each) for each in value]
    return set(value) if isinstance(value, frozenset) else value


# --- CPU lists ------------------------------------------------------------------------------------

_CPU_PIECE = re.compile(r"(\^?)\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)


def to_cpu_set(value: Any) -> frozenset[int]:
    """The CPUs in a list such as `1-4,^2,8`, or the one CPU of an integer."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return parse_cpu_set(to_text(value) if is_number else value)


def parse_cpu_set(text: str) -> frozenset[int]:
    """The CPUs in a list such as `1-4,^2,8`. `^` excludes, at any position; empty pieces are ignored."""
    if not isinstance(text, str):
        raise _cpu_error(text, "is not a list of CPUs")
    included: set[range] = set()
    excluded: set[range] = set()
    for piece in filter(None, map(str.strip, text.split(","))):
        is_excluded, cpus = _parse_cpu_piece(piece)
        (excluded if is_excluded else included).add(cpus)
    return _cpus_in(included) - _cpus_in(excluded)


def _cpus_in(ranges: set[range]) -> frozenset[int]:
    """The union of the ranges; overlaps are added once, so that many wide ranges cost no more than one."""
    cpus: set[int] = set()
    beyond = 0
    for each in sorted(ranges, key=lambda each: each.start):
        cpus.update(range(max(each.start, beyond), each.stop))
        beyond = max(beyond, each.stop)
    return frozenset(cpus)


def _parse_cpu_piece(piece: str) -> tuple[bool, range]:
    if not (match := _CPU_PIECE.fullmatch(piece)):
        raise _cpu_error(piece, "is not a CPU or a range of them")
    first, last = int(match[2]), int(match[3] or match[2])
    if first > last:
        raise _cpu_error(piece, "runs backwards")
    if last > LARGEST_CPU:
        raise _cpu_error(piece, f"goes beyond CPU {LARGEST_CPU}")
    return bool(match[1]), range(first, last + 1)


def _cpu_error(value: Any, problem: str) -> ImagePropertyError:
    return property_error(value, problem, "write CPUs and ranges, as in '0-3,^2'", nova_type="Invalid")


# --- version predicates ---------------------------------------------------------------------------

_COMPARISON = re.compile(r"(<=|>=|==|!=|<|>)\s*(\d{1,18}(?:\.\d{1,18})*)", re.ASCII)
_COMPARATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def to_version_predicate(value: Any) -> str:
    """The text as it is, after a check that it can be parsed."""
    parse_version_predicate(value)
    return str(value)


def parse_version_predicate(text: str) -> VersionPredicates:
    """The comparisons in a text such as `>=6.0, <7`."""
    if not isinstance(text, str):
        raise property_error(text, "is not text", "put it in quotes")
    return _version_predicate(text)


@lru_cache(maxsize=8)
def _version_predicate(text: str) -> VersionPredicates:
    """The comparisons in a text; kept, because each hypervisor version of a fleet is compared."""
    matches = [_COMPARISON.fullmatch(piece.strip()) for piece in text.split(",")]
    if None in matches:
        raise property_error(text, "is not a version predicate", "write comparisons, as in '>=6.0, <7'")
    return tuple((match[1], tuple(map(int, match[2].split(".")))) for match in matches if match)


def version_satisfies(version: tuple[int, ...], predicates: VersionPredicates) -> bool:
    """Whether all comparisons hold for the version. Trailing zeros are ignored: 6.2 equals 6.2.0."""
    found = _without_trailing_zeros(version)
    return all(_COMPARATORS[symbol](found, _without_trailing_zeros(wanted)) for symbol, wanted in predicates)


def _without_trailing_zeros(version: tuple[int, ...]) -> tuple[int, ...]:
    length = len(version)
    while length and version[length - 1] == 0:
        length -= 1
    return version[:length]


_ARCHITECTURE_WORDS = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64"
    " mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64"
    " unicore32 x86_64 xtensa xtensaeb"
)
ARCHITECTURES = tuple(_ARCHITECTURE_WORDS.split())
"""The canonical names of CPU architectures."""

_to_architecture = one_of(
    _ARCHITECTURE_WORDS,
    any_case=True,
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    amd64="x86_64",
)
_to_bus = one_of("fdc ide sata scsi usb virtio xen lxc uml")

_BOOLEAN_PROPERTIES = """
    hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory
    hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled
    hw_virtio_packed_ring img_bdm_v2 img_bittorrent img_cache_in_nova img_hide_hypervisor_id
    img_linked_clone img_use_agent os_require_quiesce os_skip_agent_inject_files_at_boot
    os_skip_agent_inject_ssh
"""
_INTEGER_PROPERTIES = """
    hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets hw_cpu_threads
    hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count
    hw_video_ram img_compression_level img_version
"""
_TEXT_PROPERTIES = """
    hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_ephemeral_encryption_secret_uuid
    hw_machine_type hw_mem_page_size img_owner_id img_root_device_name img_signature
    img_signature_certificate_uuid os_admin_user os_command_line os_distro
"""

CONVERTERS: Mapping[str, Converter] = {
    **dict.fromkeys(_BOOLEAN_PROPERTIES.split(), to_boolean),
    **dict.fromkeys(_INTEGER_PROPERTIES.split(), to_integer),
    **dict.fromkeys(_TEXT_PROPERTIES.split(), to_text),
    **dict.fromkeys(("hw_architecture", "hw_emulation_architecture"), _to_architecture),
    **dict.fromkeys(("hw_cdrom_bus", "hw_disk_bus", "hw_floppy_bus", "hw_rescue_bus"), _to_bus),
    "hw_cpu_policy": one_of("dedicated shared mixed"),
    "hw_cpu_thread_policy": one_of("prefer isolate require"),
    "hw_ephemeral_encryption_format": one_of("plain luks luksv2"),
    "hw_firmware_type": one_of("uefi bios"),
    "hw_input_bus": one_of("usb virtio"),
    "hw_maxphysaddr_mode": one_of("passthrough emulate"),
    "hw_mem_encryption_model": one_of("amd-sev amd-sev-es amd-sev-snp intel-tdx"),
    "hw_pci_numa_affinity_policy": one_of("required legacy preferred socket"),
    "hw_pointer_model": one_of("usbtablet"),
    "hw_rescue_device": one_of("cdrom disk floppy fs lun"),
    "hw_rng_model": one_of("virtio"),
    "hw_scsi_model": one_of(
        "buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi",
        any_case=True,
        lsilogicsas="lsisas1068",
        paravirtual="vmpvscsi",
    ),
    "hw_sound_model": one_of("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"),
    "hw_tpm_model": one_of("tpm-tis tpm-crb"),
    "hw_tpm_version": one_of("1.2 2.0"),
    "hw_usb_model": one_of("none nec-xhci qemu-xhci"),
    "hw_video_model": one_of("cirrus qxl vga vmvga xen virtio gop none bochs"),
    "hw_vif_model": one_of(
        "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet vmxnet3 igb",
        any_case=True,
        virtuale1000="e1000",
        virtuale1000e="e1000e",
        virtualpcnet32="pcnet",
        virtualsriovethernetcard="sriov",
        virtualvmxnet="vmxnet",
        virtualvmxnet3="vmxnet3",
    ),
    "hw_viommu_model": one_of("intel smmuv3 virtio auto"),
    "hw_vm_mode": one_of("hvm xen uml exe", any_case=True, pv="xen", hv="hvm", baremetal="hvm"),
    "hw_watchdog_action": one_of("none pause poweroff reset disabled"),
    "img_block_device_mapping": to_map_list,
    "img_config_drive": one_of("optional mandatory"),
    "img_hv_requested_version": to_version_predicate,
    "img_hv_type": one_of(
        "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test uml vbox"
        " vz vmware xen zvm prsm",
        any_case=True,
        xapi="xen",
    ),
    "img_mappings": to_map_list,
    "img_signature_hash_method": one_of("SHA-224 SHA-256 SHA-384 SHA-512"),
    "img_signature_key_type": one_of(
        "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
    ),
    "os_secure_boot": one_of("required disabled optional"),
    "os_type": one_of("linux windows", any_case=True),
    "traits_required": to_text_list,
}
"""Property -> converter of its value."""

CONVERTERS_PER_NODE: Mapping[str, Converter] = {"hw_numa_cpus": to_cpu_set, "hw_numa_mem": to_integer}
"""Property with one value per NUMA node (`hw_numa_mem.0`, `hw_numa_mem.1`, ...) -> converter of one value."""

MAP_LIST_PROPERTIES = frozenset({"img_block_device_mapping", "img_mappings"})
"""Properties whose value is a list of mappings."""

PROPERTY_NAMES = frozenset((*CONVERTERS, *CONVERTERS_PER_NODE))
"""The names of all properties that are parsed; any other property of an image is dropped."""

LEGACY_NAMES: Mapping[str, str] = {
    "architecture": "hw_architecture",
    "auto_disk_config": "hw_auto_disk_config",
    "bdm_v2": "img_bdm_v2",
    "bittorrent": "img_bittorrent",
    "block_device_mapping": "img_block_device_mapping",
    "cache_in_nova": "img_cache_in_nova",
    "hypervisor_type": "img_hv_type",
    "hypervisor_version_requires": "img_hv_requested_version",
    "ipxe_boot": "hw_ipxe_boot",
    "mappings": "img_mappings",
    "owner_id": "img_owner_id",
    "root_device_name": "img_root_device_name",
    "vm_mode": "hw_vm_mode",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_linked_clone": "img_linked_clone",
    "vmware_ostype": "os_distro",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_use_agent": "img_use_agent",
}
"""Legacy name -> modern name. If an image has a property under both names, the modern one wins."""
