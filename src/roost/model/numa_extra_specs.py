# SPDX-License-Identifier: Apache-2.0
"""Settings of flavor and image for memory pages and NUMA nodes: `hw:` extra specs and `hw_` properties.

Each function reads one setting from flavor and image, and raises NumaRequestError if they are invalid or in conflict.
CPU settings are in `numa_cpus.py`; `numa.py` builds the topology.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from roost.errors import BadInput
from roost.model.image_property_values import LARGEST_CPU, ImagePropertyError, parse_cpu_set
from roost.validation.display import shown

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
