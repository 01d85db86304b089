# SPDX-License-Identifier: Apache-2.0
"""What an image says about the machines made from it: the properties that are known, and how each is converted.

An image carries free-form properties. `take_properties` keeps the known ones, under their modern names, with
typed values; filters and weighers see the result, never the raw text.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from roost.errors import FieldError, nearest
from roost.validation.display import shown
from roost.validation.frozen_dict import FrozenDict
from roost.validation.kinds import Kind, Schema

Rule = Callable[[Any], Any]
"""Converts a raw value, or raises ImagePropertyError without a field."""

VersionPredicates = tuple[tuple[str, tuple[int, ...]], ...]
"""Comparisons that must all hold: `(">=", (6, 0)), ("<", (7,))`."""

LARGEST_CPU = 65535
"""No CPU of an instance has a higher number; keeps `0-999999999` from filling the memory."""


class ImagePropertyError(FieldError):
    """An image property whose value cannot be converted. `nova_type` names the error that nova would raise."""

    code = "roost.bad_input.image_property"

    def __init__(self, field: str, problem: str, hint: str = "", nova_type: str = "ValueError") -> None:
        super().__init__(field, problem, hint)
        self.nova_type = nova_type

    def at(self, field: str) -> ImagePropertyError:
        """A copy of this error that names another path."""
        return ImagePropertyError(field, self.problem, self.hint, self.nova_type)


@dataclass(frozen=True, eq=False, repr=False)
class ImageProperties(Mapping[str, Any]):
    """The properties that are set, converted: a mapping whose names are attributes too; see take_properties.

    `properties.os_distro` is None where os_distro is not set, and an AttributeError where there is no such
    property. Lists are tuples and sets are frozen here; `to_dict` gives ordinary ones.
    """

    _values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name in KNOWN:
            return self._values.get(name)
        raise AttributeError(f"there is no image property {name!r}: {nearest(name, KNOWN)}")

    def __hash__(self) -> int:
        # Read-only maps have no hash of their own: for the lists of them the name has to do.
        plain = ((name, None if name in LISTS_OF_MAPS else value) for name, value in self.items())
        return hash(frozenset(plain))

    def __repr__(self) -> str:
        return f"ImageProperties({self.to_dict()})"

    def to_dict(self) -> dict[str, Any]:
        """What is set, with ordinary lists, sets and dicts: a copy that the caller may change."""
        return {name: _thawed(value) for name, value in self.items()}

    def text_of(self, name: str) -> str:
        """The text of a property that is set, as it is compared with other texts: `True`, `4`, `x86_64`."""
        return str(_thawed(self[name]))


def take_properties(raw: Mapping[str, Any]) -> ImageProperties:
    """The known properties of an image, converted; unknown ones are dropped, a bad value refuses them all."""
    if isinstance(raw, ImageProperties):
        return raw
    if not isinstance(raw, Mapping):
        raise _refused(raw, "is not a mapping", "write key: value pairs").under("properties")
    found = _under_modern_names(raw)
    taken = {name: _convert(RULES[name], value, written) for name, (written, value) in found.items()}
    for name, rule in RULES_PER_NODE.items():
        if per_node := _gather_nodes(raw, name, rule):
            taken[name] = per_node
    if traits := _required_traits(raw):
        taken["traits_required"] = tuple(dict.fromkeys((*taken.get("traits_required", ()), *traits)))
    return ImageProperties(taken)


class PropertiesOfImage(Kind[ImageProperties]):
    """Raw properties, as an image carries them, made into ImageProperties."""

    def strict(self, value: Any, field: str) -> ImageProperties:
        """The known properties, converted. Errors begin with `properties`, wherever the image is."""
        return take_properties(value)

    @property
    def schema(self) -> Schema:
        """An object: properties that are not known are allowed."""
        return {"type": "object"}


def _under_modern_names(raw: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Modern name -> the name it was written under, and its value. What is put in later wins."""
    found = {name: ("vmware_adaptertype", value) for name, value in _from_adapter_type(raw).items()}
    found |= {modern: (legacy, raw[legacy]) for legacy, modern in LEGACY_NAMES.items() if legacy in raw}
    found |= {name: (name, raw[name]) for name in raw if name in RULES}
    return found


def _from_adapter_type(raw: Mapping[str, Any]) -> dict[str, Any]:
    adapter_type = raw.get("vmware_adaptertype")
    if not adapter_type:
        return {}
    if adapter_type == "ide":
        return {"hw_disk_bus": "ide"}
    return {"hw_disk_bus": "scsi", "hw_scsi_model": adapter_type}


def _gather_nodes(raw: Mapping[str, Any], name: str, rule: Rule) -> tuple[Any, ...]:
    """The values of name.0, name.1, ... up to the first that is not there."""
    values: list[Any] = []
    while (written := f"{name}.{len(values)}") in raw:
        values.append(_convert(rule, raw[written], written))
    return tuple(values)


def _required_traits(raw: Mapping[str, Any]) -> list[str]:
    marked = [name for name, value in raw.items() if isinstance(name, str) and value == "required"]
    return [name.removeprefix("trait:") for name in marked if name.startswith("trait:") and name != "trait:"]


def _convert(rule: Rule, value: Any, written: str) -> Any:
    try:
        if value is None:
            raise _refused(value, "is no value", "give it one, or leave the property out")
        return rule(value)
    except ImagePropertyError as error:
        raise error.under(f"properties.{written}") from None
    except RecursionError:
        raise ImagePropertyError(f"properties.{written}", "is nested too deeply") from None


def _refused(value: Any, problem: str, hint: str = "", nova_type: str = "ValueError") -> ImagePropertyError:
    return ImagePropertyError("", f"{shown(value)} {problem}", hint, nova_type)


# --- rules: one for each kind of value ------------------------------------------------------------


def _integer(value: Any) -> int:
    """As int() of the value's text, so 4.0 and True are none."""
    try:
        return int(str(value))
    except ValueError:
        raise _refused(value, "is not an integer", "write digits, such as 4") from None


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise _refused(value, "is not text", "put it in quotes")
    try:
        return str(value)
    except ValueError:
        raise _refused(value, "has no text", "use a smaller number") from None


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("true", "yes", "on", "1", "t", "y")
    return isinstance(value, int) and value == 1


def _one_of(allowed: str, any_case: bool = False, **aliases: str) -> Rule:
    """One of the blank-separated words, or an alias of one."""
    choices = allowed.split()
    hint = "one of: " + ", ".join(choices)

    def rule(value: Any) -> str:
        if not isinstance(value, str):
            raise _refused(value, "is not text", f"put it in quotes; {hint}")
        word = value.lower() if any_case else value
        word = aliases.get(word, word)
        if word not in choices:
            raise _refused(value, "is not allowed", hint if len(choices) <= 12 else nearest(word, choices))
        return word

    return rule


def _version_predicate(value: Any) -> str:
    """Kept as it is written, once it is known to be readable."""
    parse_version_predicate(value)
    return str(value)


def _list_of_text(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise _refused(value, "is not a list of texts")
    return tuple(_text(each) for each in value)


def _list_of_maps(value: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, Mapping) for each in value):
        raise _refused(value, "is not a list of maps")
    return tuple(_frozen(each) for each in value)


def _cpu_set(value: Any) -> frozenset[int]:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return parse_cpu_set(_text(value) if is_number else value)


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FrozenDict({key: _frozen(each) for key, each in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(each) for each in value)
    return frozenset(value) if isinstance(value, set) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _thawed(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_thawed(each) for each in value]
    return set(value) if isinstance(value, frozenset) else value


# --- small languages inside a value ---------------------------------------------------------------

_CPU_PIECE = re.compile(r"(\^?)\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)
_COMPARISON = re.compile(r"(<=|>=|==|!=|<|>)\s*(\d{1,18}(?:\.\d{1,18})*)", re.ASCII)
_OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}


def parse_cpu_set(text: str) -> frozenset[int]:
    """The CPUs in a list such as `1-4,^2,8`; `^` leaves out, wherever it stands; empty pieces are ignored."""
    if not isinstance(text, str):
        raise _unreadable_cpus(text, "is not a list of CPUs")
    wanted: set[range] = set()
    left_out: set[range] = set()
    for piece in filter(None, map(str.strip, text.split(","))):
        excludes, cpus = _parse_cpu_piece(piece)
        (left_out if excludes else wanted).add(cpus)
    return _cpus_in(wanted) - _cpus_in(left_out)


def _cpus_in(ranges: set[range]) -> frozenset[int]:
    """All CPUs of the ranges; each is added once, however many ranges it is in."""
    cpus: set[int] = set()
    beyond = 0
    for each in sorted(ranges, key=lambda each: each.start):
        cpus.update(range(max(each.start, beyond), each.stop))
        beyond = max(beyond, each.stop)
    return frozenset(cpus)


def _parse_cpu_piece(piece: str) -> tuple[bool, range]:
    if not (match := _CPU_PIECE.fullmatch(piece)):
        raise _unreadable_cpus(piece, "is not a CPU or a range of them")
    first, last = int(match[2]), int(match[3] or match[2])
    if first > last:
        raise _unreadable_cpus(piece, "runs backwards")
    if last > LARGEST_CPU:
        raise _unreadable_cpus(piece, f"goes beyond CPU {LARGEST_CPU}")
    return bool(match[1]), range(first, last + 1)


def _unreadable_cpus(value: Any, problem: str) -> ImagePropertyError:
    return _refused(value, problem, "write CPUs and ranges, as in '0-3,^2'", nova_type="Invalid")


def parse_version_predicate(text: str) -> VersionPredicates:
    """The comparisons in a text such as `>=6.0, <7`."""
    if not isinstance(text, str):
        raise _refused(text, "is not text", "put it in quotes")
    matches = [_COMPARISON.fullmatch(piece.strip()) for piece in text.split(",")]
    if None in matches:
        raise _refused(text, "is not a version predicate", "write comparisons, as in '>=6.0, <7'")
    return tuple((match[1], tuple(map(int, match[2].split(".")))) for match in matches if match)


def version_satisfies(version: tuple[int, ...], predicates: VersionPredicates) -> bool:
    """Whether all comparisons hold for the version; zeros at the end mean nothing, so 6.2 is 6.2.0."""
    seen = _without_last_zeros(version)
    return all(_OPERATORS[symbol](seen, _without_last_zeros(wanted)) for symbol, wanted in predicates)


def _without_last_zeros(version: tuple[int, ...]) -> tuple[int, ...]:
    length = len(version)
    while length and version[length - 1] == 0:
        length -= 1
    return version[:length]


# --- the vocabulary -------------------------------------------------------------------------------

_ARCHITECTURES = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64"
    " mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64"
    " unicore32 x86_64 xtensa xtensaeb"
)
ARCHITECTURES = tuple(_ARCHITECTURES.split())
"""The canonical names."""

_architecture = _one_of(
    _ARCHITECTURES,
    any_case=True,
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    amd64="x86_64",
)
_bus = _one_of("fdc ide sata scsi usb virtio xen lxc uml")

_BOOLEANS = """
    hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory
    hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled
    hw_virtio_packed_ring img_bdm_v2 img_bittorrent img_cache_in_nova img_hide_hypervisor_id
    img_linked_clone img_use_agent os_require_quiesce os_skip_agent_inject_files_at_boot
    os_skip_agent_inject_ssh
"""
_INTEGERS = """
    hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets hw_cpu_threads
    hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count
    hw_video_ram img_compression_level img_version
"""
_TEXTS = """
    hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_ephemeral_encryption_secret_uuid
    hw_machine_type hw_mem_page_size img_owner_id img_root_device_name img_signature
    img_signature_certificate_uuid os_admin_user os_command_line os_distro
"""

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_BOOLEANS.split(), _boolean),
    **dict.fromkeys(_INTEGERS.split(), _integer),
    **dict.fromkeys(_TEXTS.split(), _text),
    **dict.fromkeys(("hw_architecture", "hw_emulation_architecture"), _architecture),
    **dict.fromkeys(("hw_cdrom_bus", "hw_disk_bus", "hw_floppy_bus", "hw_rescue_bus"), _bus),
    "hw_cpu_policy": _one_of("dedicated shared mixed"),
    "hw_cpu_thread_policy": _one_of("prefer isolate require"),
    "hw_ephemeral_encryption_format": _one_of("plain luks luksv2"),
    "hw_firmware_type": _one_of("uefi bios"),
    "hw_input_bus": _one_of("usb virtio"),
    "hw_maxphysaddr_mode": _one_of("passthrough emulate"),
    "hw_mem_encryption_model": _one_of("amd-sev amd-sev-es amd-sev-snp intel-tdx"),
    "hw_pci_numa_affinity_policy": _one_of("required legacy preferred socket"),
    "hw_pointer_model": _one_of("usbtablet"),
    "hw_rescue_device": _one_of("cdrom disk floppy fs lun"),
    "hw_rng_model": _one_of("virtio"),
    "hw_scsi_model": _one_of(
        "buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi",
        any_case=True,
        lsilogicsas="lsisas1068",
        paravirtual="vmpvscsi",
    ),
    "hw_sound_model": _one_of("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"),
    "hw_tpm_model": _one_of("tpm-tis tpm-crb"),
    "hw_tpm_version": _one_of("1.2 2.0"),
    "hw_usb_model": _one_of("none nec-xhci qemu-xhci"),
    "hw_video_model": _one_of("cirrus qxl vga vmvga xen virtio gop none bochs"),
    "hw_vif_model": _one_of(
        "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet vmxnet3 igb",
        any_case=True,
        virtuale1000="e1000",
        virtuale1000e="e1000e",
        virtualpcnet32="pcnet",
        virtualsriovethernetcard="sriov",
        virtualvmxnet="vmxnet",
        virtualvmxnet3="vmxnet3",
    ),
    "hw_viommu_model": _one_of("intel smmuv3 virtio auto"),
    "hw_vm_mode": _one_of("hvm xen uml exe", any_case=True, pv="xen", hv="hvm", baremetal="hvm"),
    "hw_watchdog_action": _one_of("none pause poweroff reset disabled"),
    "img_block_device_mapping": _list_of_maps,
    "img_config_drive": _one_of("optional mandatory"),
    "img_hv_requested_version": _version_predicate,
    "img_hv_type": _one_of(
        "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test uml vbox"
        " vz vmware xen zvm prsm",
        any_case=True,
        xapi="xen",
    ),
    "img_mappings": _list_of_maps,
    "img_signature_hash_method": _one_of("SHA-224 SHA-256 SHA-384 SHA-512"),
    "img_signature_key_type": _one_of(
        "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
    ),
    "os_secure_boot": _one_of("required disabled optional"),
    "os_type": _one_of("linux windows", any_case=True),
    "traits_required": _list_of_text,
}
"""Property -> how its value is converted."""

RULES_PER_NODE: Mapping[str, Rule] = {"hw_numa_cpus": _cpu_set, "hw_numa_mem": _integer}
"""Property written once for each NUMA node (`hw_numa_mem.0`, ...) -> how the value of one node is converted."""

LISTS_OF_MAPS = frozenset({"img_block_device_mapping", "img_mappings"})

KNOWN = frozenset((*RULES, *RULES_PER_NODE))
"""The names of all properties; any other name is dropped."""

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
"""Older name -> modern name; where both are given, the modern one wins."""
