# SPDX-License-Identifier: Apache-2.0
"""What flavor and image say about memory pages and NUMA nodes: the `hw:` extra specs and `hw_` properties.

Each function reads one wish, from flavor and image together, and refuses what makes no sense. The CPUs are in
`numa_cpus.py`; `numa.py` makes the topology of it all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from roost.errors import BadInput
from roost.model.image_property_values import LARGEST_CPU, ImagePropertyError, parse_cpu_set
from roost.validation.display import shown

Wish = TypeVar("Wish")

Specs = Mapping[str, str]
"""The extra specs of a flavor."""

Properties = Mapping[str, Any]
"""The properties of an image, converted."""

SMALL, LARGE, ANY = -1, -2, -3
"""Page sizes that leave the choice to the host; other page sizes are in KiB."""

PAGE_SIZE_WORDS = {"small": SMALL, "large": LARGE, "any": ANY}

_TRUE = frozenset(("1", "t", "true", "on", "y", "yes"))
_PREFIXES = "KMGTPEZY"
_SIZE = re.compile(rf"([0-9]{{1,15}})(?:([{_PREFIXES}])i?)?(B|b|bit)")
_BITS_PER_KIB = 8 * 1024


class NumaRequestError(BadInput):
    """CPU, memory page or NUMA wishes that cannot be met anywhere. `nova_type` names nova's error for it."""

    code = "roost.bad_input.numa"

    def __init__(self, nova_type: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.nova_type = nova_type


def is_true(text: str) -> bool:
    """Whether an extra spec says yes."""
    return text.strip().lower() in _TRUE


def integer_or(value: str | int, otherwise: int) -> int:
    """The integer that the text is, or else the other; what has more than 18 digits counts as none."""
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
    """The CPUs in an extra spec such as `0-3,^2`."""
    try:
        return parse_cpu_set(text)
    except ImagePropertyError as error:
        raise NumaRequestError(error.nova_type, f"{spec}: {error.problem}", error.hint) from None


# --- memory ---------------------------------------------------------------------------------------


def read_page_size(specs: Specs, properties: Properties) -> int | None:
    """The page size asked for: KiB, or SMALL, LARGE or ANY; None where nothing is asked."""
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
    """A size with its unit, in bits. Prefixes are powers of 1024, with the i and without."""
    match = _SIZE.fullmatch(text)
    if not match:
        return None
    power = _PREFIXES.index(match[2]) + 1 if match[2] else 0
    return int(match[1]) * int(1024**power) * (8 if match[3] == "B" else 1)


def check_locked_memory(specs: Specs, properties: Properties, page_size: int | None) -> None:
    """Memory that must not be swapped out needs a page size."""
    if _both_say("locked_memory", specs, properties, "FlavorImageLockedMemoryConflict") and page_size is None:
        message = "hw:locked_memory is set, but no page size"
        raise NumaRequestError("LockMemoryForbidden", message, "set hw:mem_page_size, for example to any")


def check_memory_encryption(specs: Specs, properties: Properties) -> None:
    """Encrypted memory needs UEFI firmware and, where the image names a machine type, a q35."""
    if not _both_say("mem_encryption", specs, properties, "FlavorImageConflict"):
        return
    firmware, machine = properties.get("hw_firmware_type"), properties.get("hw_machine_type")
    if firmware != "uefi":
        message = f"hw:mem_encryption is set, but image property hw_firmware_type is {firmware or 'unset'}"
        raise NumaRequestError("FlavorImageConflict", message, "set hw_firmware_type=uefi on the image")
    if machine is not None and "q35" not in machine:
        message = f"hw:mem_encryption is set, but image property hw_machine_type is {shown(machine)}"
        raise NumaRequestError("InvalidMachineType", message, "use a q35 machine type")


def _both_say(name: str, specs: Specs, properties: Properties, nova_type: str) -> bool:
    """A yes or no that flavor and image may both give, if they agree."""
    spec, of_image = specs.get(f"hw:{name}"), properties.get(f"hw_{name}")
    if spec is None:
        return bool(of_image)
    if of_image is not None and of_image != is_true(spec):
        message = f"extra spec hw:{name} is {spec!r}, image property hw_{name} is {of_image}"
        raise NumaRequestError(nova_type, message, "make the two agree, or set only one")
    return is_true(spec)


# --- nodes ----------------------------------------------------------------------------------------


def read_node_count(specs: Specs, properties: Properties) -> int | None:
    """How many NUMA nodes the guest is to have; None where nobody says."""
    spec = specs.get("hw:numa_nodes") or None
    of_image: int | None = properties.get("hw_numa_nodes")
    for value, where in ((spec, "extra spec hw:numa_nodes"), (of_image, "image property hw_numa_nodes")):
        if value is not None and integer_or(value, 0) < 1:
            message = f"{where}: {shown(value)} is no number of nodes"
            raise NumaRequestError("InvalidNUMANodesNumber", message, "write 1 or more")
    return _given_once(None if spec is None else int(spec), of_image, "numa_nodes")


def read_node_lists(
    specs: Specs, properties: Properties
) -> tuple[Sequence[frozenset[int]] | None, Sequence[int] | None]:
    """CPUs and memory (MiB) written down for each node: hw:numa_cpus.0, ... and hw:numa_mem.0, ..."""
    cpus = [read_cpu_list(text, f"extra spec {spec}") for spec, text in _numbered(specs, "hw:numa_cpus").items()]
    memory = [_memory_of(text, spec) for spec, text in _numbered(specs, "hw:numa_mem").items()]
    return (
        _given_once(cpus or None, properties.get("hw_numa_cpus"), "numa_cpus.0"),
        _given_once(memory or None, properties.get("hw_numa_mem"), "numa_mem.0"),
    )


def _given_once(of_flavor: Wish | None, of_image: Wish | None, name: str) -> Wish | None:
    if of_flavor is not None and of_image is not None:
        message = f"extra spec hw:{name} and image property hw_{name} are both given"
        raise NumaRequestError("ImageNUMATopologyForbidden", message, "give only one of the two")
    return of_image if of_flavor is None else of_flavor


def _numbered(specs: Specs, name: str) -> dict[str, str]:
    """The extra specs name.0, name.1, ... up to the first that is not there."""
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
