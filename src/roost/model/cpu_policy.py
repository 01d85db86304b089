# SPDX-License-Identifier: Apache-2.0
"""Settings of flavor and image for CPUs, memory pages and NUMA nodes: `hw:` extra specs and `hw_` properties.

Each function reads one setting from flavor and image, and raises NumaRequestError if they are invalid or in conflict.
`read_cpu_settings` reads those of CPUs: shared or dedicated, which of them, thread and emulator policy, real-time.
`numa.py` builds the topology.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from roost.errors import BadInput, nearest
from roost.model.image_property_values import LARGEST_CPU, ImagePropertyError, parse_cpu_set
from roost.model.kinds import shown

Setting = TypeVar("Setting")

Specs = Mapping[str, str]
"""The extra specs of a flavor."""

Properties = Mapping[str, Any]
"""The parsed properties of an image."""

SMALL, LARGE, ANY = -1, -2, -3
"""Page sizes that leave the choice to the host; other page sizes are in KiB."""

PAGE_SIZE_WORDS = {"small": SMALL, "large": LARGE, "any": ANY}

_TOPOLOGY_PREFIXES = ("hw:numa_", "hw:cpu_realtime")
_TOPOLOGY_NAMES = frozenset(
    "hw:cpu_policy hw:cpu_thread_policy hw:cpu_dedicated_mask hw:emulator_threads_policy"
    " hw:mem_page_size hw:locked_memory hw:pmem resources:PCPU".split()
)
_TRUE = frozenset(("1", "t", "true", "on", "y", "yes"))
_PREFIXES = "KMGTPEZY"
_SIZE = re.compile(rf"([0-9]{{1,15}})(?:([{_PREFIXES}])i?)?(B|b|bit)")
_BITS_PER_KIB = 8 * 1024


class NumaRequestError(BadInput):
    """CPU, memory page or NUMA settings that no host can satisfy. `nova_type` names the error nova would raise."""

    code = "roost.bad_input.numa"

    def __init__(self, nova_type: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.nova_type = nova_type


def is_true(text: str) -> bool:
    """Whether the text of an extra spec means true: 1, t, true, on, y or yes, in any case."""
    return text.strip().lower() in _TRUE


def integer_or(value: str | int, otherwise: int) -> int:
    """The integer in the text, or `otherwise` if it is none or has more than 18 digits."""
    try:
        return int(value) if len(str(value)) <= 18 else otherwise
    except ValueError:
        return otherwise


def all_cpus(vcpus: int) -> frozenset[int]:
    """The guest CPUs 0, 1, ... of an instance."""
    if vcpus > LARGEST_CPU + 1:
        message = f"{vcpus} vCPUs are too many for a topology"
        raise NumaRequestError("InvalidRequest", message, f"at most {LARGEST_CPU + 1}")
    return frozenset(range(vcpus))


def read_cpu_list(text: str, spec: str) -> frozenset[int]:
    """The CPUs in a list such as `0-3,^2`. `spec` names the setting in errors."""
    try:
        return parse_cpu_set(text)
    except ImagePropertyError as error:
        raise NumaRequestError(error.nova_type, f"{spec}: {error.problem}", error.hint) from None


def shapes_topology(extra_spec: str) -> bool:
    """Whether an extra spec has a part in the NUMA topology of an instance."""
    return extra_spec.startswith(_TOPOLOGY_PREFIXES) or extra_spec in _TOPOLOGY_NAMES


# --- memory ---------------------------------------------------------------------------------------


def read_page_size(specs: Specs, properties: Properties) -> int | None:
    """The requested page size: KiB, or SMALL, LARGE or ANY; None if not requested."""
    size = _page_size_of(specs.get("hw:mem_page_size"), "extra spec hw:mem_page_size")
    of_image = _page_size_of(properties.get("hw_mem_page_size"), "image property hw_mem_page_size")
    if of_image is None:
        return size
    if size not in (ANY, LARGE):
        raise NumaRequestError(
            "MemoryPageSizeForbidden",
            f"image property hw_mem_page_size {properties['hw_mem_page_size']!r}: the flavor's hw:mem_page_size"
            f" is {specs.get('hw:mem_page_size') or 'unset'}",
            "an image may choose only where the flavor says any or large",
        )
    return of_image


def _page_size_of(text: str | None, where: str) -> int | None:
    if not text:
        return None
    if text in PAGE_SIZE_WORDS:
        return PAGE_SIZE_WORDS[text]
    bits = _BITS_PER_KIB * int(text) if re.fullmatch("[0-9]{1,15}", text) else _bits_of(text)
    if bits is None or bits % _BITS_PER_KIB:
        remedy = "write small, large, any, a number of KiB, or a size such as 2MB or 1GB"
        raise NumaRequestError("MemoryPageSizeInvalid", f"{where}: {shown(text)} is no page size", remedy)
    return bits // _BITS_PER_KIB or None


def _bits_of(text: str) -> int | None:
    """Bits of a size with a unit, such as 2MB; None if it is invalid. Prefixes are powers of 1024 (2M = 2Mi)."""
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    power = _PREFIXES.index(match[2]) + 1 if match[2] else 0
    return int(match[1]) * int(1024**power) * (8 if match[3] == "B" else 1)


def check_locked_memory(specs: Specs, properties: Properties, page_size: int | None) -> None:
    """Raise NumaRequestError if memory is locked (never swapped out) without a page size."""
    if _agreed_flag("locked_memory", specs, properties, "FlavorImageLockedMemoryConflict") and page_size is None:
        message = "hw:locked_memory is set, but no page size"
        raise NumaRequestError("LockMemoryForbidden", message, "set hw:mem_page_size, for example to any")


def check_memory_encryption(specs: Specs, properties: Properties) -> None:
    """Raise NumaRequestError if memory is encrypted without UEFI firmware, or with a machine type other than q35."""
    if not _agreed_flag("mem_encryption", specs, properties, "FlavorImageConflict"):
        return
    firmware, machine = properties.get("hw_firmware_type"), properties.get("hw_machine_type")
    if firmware != "uefi":
        message = f"hw:mem_encryption is set, but image property hw_firmware_type is {firmware or 'unset'}"
        raise NumaRequestError("FlavorImageConflict", message, "set hw_firmware_type=uefi on the image")
    if machine is not None and "q35" not in machine:
        message = f"hw:mem_encryption is set, but image property hw_machine_type is {shown(machine)}"
        raise NumaRequestError("InvalidMachineType", message, "use a q35 machine type")


def _agreed_flag(name: str, specs: Specs, properties: Properties, nova_type: str) -> bool:
    """A boolean setting of flavor or image; NumaRequestError if they disagree."""
    spec, of_image = specs.get(f"hw:{name}"), properties.get(f"hw_{name}")
    if spec is None:
        return bool(of_image)
    if of_image is not None and of_image != is_true(spec):
        message = f"extra spec hw:{name} is {spec!r}, image property hw_{name} is {of_image}"
        raise NumaRequestError(nova_type, message, "make the two agree, or set only one")
    return is_true(spec)


# --- nodes ----------------------------------------------------------------------------------------


def read_node_count(specs: Specs, properties: Properties) -> int | None:
    """The requested number of NUMA nodes of the guest; None if neither flavor nor image sets it."""
    spec = specs.get("hw:numa_nodes") or None
    of_image: int | None = properties.get("hw_numa_nodes")
    for value, where in ((spec, "extra spec hw:numa_nodes"), (of_image, "image property hw_numa_nodes")):
        if value is not None and integer_or(value, 0) < 1:
            message = f"{where}: {shown(value)} is no number of nodes"
            raise NumaRequestError("InvalidNUMANodesNumber", message, "write 1 or more")
    return _from_flavor_or_image(None if spec is None else int(spec), of_image, "numa_nodes")


def read_node_lists(
    specs: Specs, properties: Properties
) -> tuple[Sequence[frozenset[int]] | None, Sequence[int] | None]:
    """CPUs and memory (MiB) per NUMA node, from hw:numa_cpus.N and hw:numa_mem.N; None for what is not set."""
    cpus = [read_cpu_list(text, f"extra spec {spec}") for spec, text in _numbered(specs, "hw:numa_cpus").items()]
    memory = [_memory_of(text, spec) for spec, text in _numbered(specs, "hw:numa_mem").items()]
    return (
        _from_flavor_or_image(cpus or None, properties.get("hw_numa_cpus"), "numa_cpus.0"),
        _from_flavor_or_image(memory or None, properties.get("hw_numa_mem"), "numa_mem.0"),
    )


def _from_flavor_or_image(of_flavor: Setting | None, of_image: Setting | None, name: str) -> Setting | None:
    if of_flavor is not None and of_image is not None:
        message = f"extra spec hw:{name} and image property hw_{name} are both given"
        raise NumaRequestError("ImageNUMATopologyForbidden", message, "give only one of the two")
    return of_image if of_flavor is None else of_flavor


def _numbered(specs: Specs, name: str) -> dict[str, str]:
    """The extra specs name.0, name.1, ..., up to the first that is missing."""
    found: dict[str, str] = {}
    while (spec := f"{name}.{len(found)}") in specs:
        found[spec] = specs[spec]
    return found


def _memory_of(text: str, spec: str) -> int:
    try:
        return int(text)
    except ValueError:
        message = f"extra spec {spec}: {shown(text)} is no amount of memory"
        raise NumaRequestError("ValueError", message, "write MiB, as in 1024") from None


CPU_POLICIES = ("shared", "dedicated", "mixed")
PINNED_POLICIES = ("dedicated", "mixed")
"""CPU policies that dedicate host CPUs to an instance."""
THREAD_POLICIES = ("prefer", "require", "isolate")
EMULATOR_POLICIES = ("share", "isolate")

_REFUSED_IMAGE_POLICIES = {"mixed": ("dedicated",), "shared": ("mixed", "dedicated")}
_RESOURCE = re.compile(r"resources[0-9]*:(VCPU|PCPU)")
_TRAIT_NAME = "HW_CPU_HYPERTHREADING"
_TRAIT = re.compile(r"trait[0-9]*:" + _TRAIT_NAME)


@dataclass(frozen=True)
class CpuSettings:
    """The CPU settings of an instance. A policy is None if it is not set."""

    policy: str | None
    thread_policy: str | None
    emulator_policy: str | None
    dedicated: frozenset[int]
    """Guest CPUs that get a dedicated host CPU."""


def read_cpu_settings(specs: Specs, properties: Properties, vcpus: int) -> CpuSettings:
    """The CPU settings of flavor and image, validated; NumaRequestError if they are invalid or in conflict."""
    policy = _read_cpu_policy(specs, properties)
    threads = _read_thread_policy(specs, properties)
    emulator = _checked_policy(specs.get("hw:emulator_threads_policy") or None, "hw:emulator_threads_policy")
    policy = _policy_of_resources(specs, policy, vcpus + (emulator == "isolate")) or policy
    threads = _thread_policy_of_trait(specs, properties, threads) or threads
    real_time = _real_time_cpus(specs, properties, vcpus, emulator)
    _check_policy(specs, policy, threads, emulator, real_time is not None)
    dedicated = _dedicated_cpus(specs, policy, vcpus, real_time)
    return CpuSettings(policy, threads, emulator, dedicated)


# --- policies -------------------------------------------------------------------------------------

_ALLOWED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "hw:cpu_policy": (CPU_POLICIES, "InvalidCPUAllocationPolicy"),
    "hw:cpu_thread_policy": (THREAD_POLICIES, "InvalidCPUThreadAllocationPolicy"),
    "hw:emulator_threads_policy": (EMULATOR_POLICIES, "InvalidEmulatorThreadsPolicy"),
}


def _checked_policy(value: str | None, spec: str) -> str | None:
    allowed, nova_type = _ALLOWED[spec]
    if value is None or value in allowed:
        return value
    message = f"extra spec {spec}: {shown(value)} is not allowed"
    raise NumaRequestError(nova_type, message, nearest(value, allowed))


def _read_cpu_policy(specs: Specs, properties: Properties) -> str | None:
    policy = _checked_policy(specs.get("hw:cpu_policy") or None, "hw:cpu_policy")
    in_image = properties.get("hw_cpu_policy")
    if policy is None:
        return in_image
    if in_image in _REFUSED_IMAGE_POLICIES.get(policy, ()):
        raise NumaRequestError(
            "ImageCPUPinningForbidden",
            f"image property hw_cpu_policy {in_image!r} asks for more than the flavor's hw:cpu_policy {policy!r}",
            "use another flavor, or take the property off the image",
        )
    return policy


def _read_thread_policy(specs: Specs, properties: Properties) -> str | None:
    policy = _checked_policy(specs.get("hw:cpu_thread_policy"), "hw:cpu_thread_policy")
    in_image = properties.get("hw_cpu_thread_policy")
    if policy in (None, "prefer"):
        return policy or in_image
    if in_image not in (None, policy):
        raise NumaRequestError(
            "ImageCPUThreadPolicyForbidden",
            f"image property hw_cpu_thread_policy {in_image!r} is not the flavor's hw:cpu_thread_policy {policy!r}",
            "use another flavor, or take the property off the image",
        )
    return policy


def _policy_of_resources(specs: Specs, policy: str | None, pcpus_needed: int) -> str | None:
    """The CPU policy implied by explicit amounts of VCPU or PCPU; None if there are none."""
    amounts = {"VCPU": 0, "PCPU": 0}
    for spec, value in specs.items():
        if match := _RESOURCE.fullmatch(spec):
            amounts[match[1]] += integer_or(value, 0)
    asked = [f"resources:{kind}={amount}" for kind, amount in amounts.items() if amount]
    if not asked:
        return None
    if policy is not None:
        message = f"extra spec {asked[0]} and CPU policy {policy!r} say the same thing twice"
        raise NumaRequestError("InvalidRequest", message, "keep one of the two")
    if len(asked) > 1:
        message = f"extra specs {asked[0]} and {asked[1]} exclude each other"
        raise NumaRequestError("InvalidRequest", message, "keep one, or use hw:cpu_policy=mixed with a mask")
    if amounts["PCPU"] and amounts["PCPU"] != pcpus_needed:
        message = f"extra spec {asked[0]}: the instance needs {pcpus_needed} dedicated CPUs"
        raise NumaRequestError("InvalidRequest", message, f"ask for PCPU={pcpus_needed}")
    return "dedicated" if amounts["PCPU"] else "shared"


def _thread_policy_of_trait(specs: Specs, properties: Properties, policy: str | None) -> str | None:
    """The thread policy implied by the hyperthreading trait; None if the trait is not mentioned."""
    marks = [value for spec, value in specs.items() if _TRAIT.fullmatch(spec)]
    if _TRAIT_NAME in properties.get("traits_required", ()):
        marks.append("required")
    if marks and policy is not None:
        message = f"trait {_TRAIT_NAME}={marks[0]} and CPU thread policy {policy!r} say the same thing twice"
        raise NumaRequestError("InvalidRequest", message, "keep one of the two")
    if "forbidden" in marks:
        return "isolate"
    return "require" if "required" in marks else None


def _check_policy(
    specs: Specs, policy: str | None, threads: str | None, emulator: str | None, is_real_time: bool
) -> None:
    has_mask = "hw:cpu_dedicated_mask" in specs
    remedy = "set hw:cpu_policy to dedicated or mixed"
    if policy not in PINNED_POLICIES:
        without = f"with CPU policy {policy or 'unset'} no CPU is dedicated"
        if threads is not None:
            message = f"thread policy {threads!r}: {without}"
            raise NumaRequestError("CPUThreadPolicyConfigurationInvalid", message, remedy)
        if emulator == "isolate":
            message = f"extra spec hw:emulator_threads_policy 'isolate': {without}"
            raise NumaRequestError("BadRequirementEmulatorThreadsPolicy", message, remedy)
    if has_mask and policy != "mixed":
        mask = shown(specs["hw:cpu_dedicated_mask"])
        message = f"extra spec hw:cpu_dedicated_mask {mask}: the CPU policy is {policy or 'unset'}"
        raise NumaRequestError("RequiredMixedInstancePolicy", message, "set hw:cpu_policy to mixed")
    if is_real_time and policy not in PINNED_POLICIES:
        message = f"extra spec hw:cpu_realtime: with CPU policy {policy or 'unset'} no CPU is dedicated"
        raise NumaRequestError("RealtimeConfigurationInvalid", message, remedy)
    if policy == "mixed" and has_mask == is_real_time:
        message = f"CPU policy 'mixed' with {'both' if has_mask else 'neither'} of dedicated mask and real-time"
        remedy = "give exactly one of hw:cpu_dedicated_mask and hw:cpu_realtime"
        raise NumaRequestError("RequiredMixedOrRealtimeCPUMask", message, remedy)


# --- sets of CPUs ---------------------------------------------------------------------------------


def _real_time_cpus(specs: Specs, properties: Properties, vcpus: int, emulator: str | None) -> frozenset[int] | None:
    """The real-time CPUs; None if the instance is not real-time."""
    if not is_true(specs.get("hw:cpu_realtime", "")):
        return None
    mask = properties.get("hw_cpu_realtime_mask") or specs.get("hw:cpu_realtime_mask")
    cpus = _masked_cpus(mask, "hw:cpu_realtime_mask", vcpus) if mask else all_cpus(vcpus)
    if problem := _mask_problem(cpus, vcpus, may_be_all=emulator is not None):
        message = f"hw:cpu_realtime with {f'mask {shown(mask)}' if mask else 'no mask'} {problem}"
        remedy = "leave a CPU out, as in hw:cpu_realtime_mask=^0, or set hw:emulator_threads_policy"
        raise NumaRequestError("RealtimeMaskNotFoundOrInvalid", message, remedy)
    return cpus


def _dedicated_cpus(specs: Specs, policy: str | None, vcpus: int, real_time: frozenset[int] | None) -> frozenset[int]:
    if policy not in PINNED_POLICIES:
        return frozenset()
    if policy == "dedicated":
        return all_cpus(vcpus)
    if real_time is not None:
        return real_time
    mask = specs["hw:cpu_dedicated_mask"]
    cpus = _masked_cpus(mask, "hw:cpu_dedicated_mask", vcpus)
    if problem := _mask_problem(cpus, vcpus, may_be_all=False):
        message = f"extra spec hw:cpu_dedicated_mask {shown(mask)} {problem}"
        remedy = "name some of the instance's CPUs, as in '1-3' or '^0'"
        raise NumaRequestError("InvalidMixedInstanceDedicatedMask", message, remedy)
    return cpus


def _masked_cpus(mask: str, spec: str, vcpus: int) -> frozenset[int]:
    """The CPUs of a mask; a mask that starts with ^ means all CPUs except those named."""
    everything = f"0-{vcpus - 1}," if vcpus and mask.startswith("^") else ""
    return read_cpu_list(everything + mask, spec)


def _mask_problem(cpus: frozenset[int], vcpus: int, may_be_all: bool) -> str:
    if not cpus:
        return "names no CPU"
    if max(cpus) >= vcpus:
        return f"names CPU {max(cpus)}, the last one is {vcpus - 1}"
    return f"names all {vcpus} CPUs" if len(cpus) == vcpus and not may_be_all else ""
