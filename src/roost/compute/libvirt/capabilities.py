# SPDX-License-Identifier: Apache-2.0
"""What libvirt's capabilities XML says of a host: processor, NUMA cells, and which kinds of guests it can run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as Xml

from roost.hosts.numa_cells import HostCell, HostTopology, PagePool

KIB_PER_MIB = 1024
_KIB_PER_UNIT = {"KiB": 1, "MiB": 1024, "GiB": 1024**2, "TiB": 1024**3, "b": 1 / 1024, "bytes": 1 / 1024}

_TRAITS_BY_FEATURE = """
avx=AVX avx2=AVX2 f16c=F16C fma=FMA3 fma4=FMA4 mmx=MMX sse=SSE sse2=SSE2 pni=SSE3 ssse3=SSSE3 sse4.1=SSE41
sse4.2=SSE42 sse4a=SSE4A xop=XOP 3dnow=3DNOW abm=ABM bmi1=BMI bmi2=BMI2 tbm=TBM aes=AESNI pclmuldq=CLMUL sha-ni=SHA
mpx=MPX sgx=SGX rtm=TSX hle=TSX pdpe1gb=PDPE1GB stibp=STIBP vmx=VMX vmx=INTEL_VMX svm=SVM svm=AMD_SVM
avx512f=AVX512F avx512cd=AVX512CD avx512pf=AVX512PF avx512er=AVX512ER avx512vl=AVX512VL avx512bw=AVX512BW
avx512dq=AVX512DQ avx512vnni=AVX512VNNI avx512vbmi=AVX512VBMI avx512ifma=AVX512IFMA avx512vbmi2=AVX512VBMI2
avx512bitalg=AVX512BITALG avx512-vpopcntdq=AVX512VPOPCNTDQ vaes=AVX512VAES gfni=AVX512GFNI
vpclmulqdq=AVX512VPCLMULQDQ amx-bf16=AMXBF16 amx-int8=AMXINT8 amx-tile=AMXTILE
ibpb=AMD_IBPB amd-no-ssb=AMD_NO_SSB amd-ssbd=AMD_SSBD virt-ssbd=AMD_VIRT_SSBD
md-clear=INTEL_MD_CLEAR pcid=INTEL_PCID spec-ctrl=INTEL_SPEC_CTRL ssbd=INTEL_SSBD
"""
"""libvirt's name of a feature of x86 processors = end of the trait's name in os-traits."""
_TRAITS = tuple(each.split("=") for each in _TRAITS_BY_FEATURE.split())


@dataclass(frozen=True)
class Capabilities:
    """A host as its daemon describes it."""

    host_uuid: str
    architecture: str
    cpu_xml: str
    """The element `cpu`, for libvirt's own comparisons of processors."""
    cpu_info: dict[str, Any]
    """nova's keys: arch, model, vendor, topology, features, and maxphysaddr where it is known."""
    supported_instances: tuple[tuple[str, str, str], ...]
    """(architecture, kind of domain, mode), such as ("x86_64", "kvm", "hvm")."""
    numa: HostTopology | None


def read_capabilities(text: str) -> Capabilities:
    """The capabilities of a host; ValueError where the XML names no architecture."""
    root = Xml.fromstring(text)  # noqa: S314 - from the local daemon
    cpu = root.find("host/cpu")
    architecture = root.findtext("host/cpu/arch")
    if cpu is None or not architecture:
        raise ValueError("the capabilities name no processor")
    numa = read_cells(root.find("host/topology/cells"))
    return Capabilities(
        host_uuid=root.findtext("host/uuid", ""),
        architecture=architecture,
        cpu_xml=Xml.tostring(cpu, encoding="unicode"),
        cpu_info=_cpu_info(cpu, numa),
        supported_instances=tuple(_supported_instances(root)),
        numa=numa,
    )


def _supported_instances(root: Xml.Element) -> Iterable[tuple[str, str, str]]:
    for guest in root.iterfind("guest"):
        arch = guest.find("arch")
        if arch is not None:
            kinds = dict.fromkeys(each.get("type", "") for each in arch.iterfind("domain"))
            yield from ((arch.get("name", ""), kind, guest.findtext("os_type", "")) for kind in kinds)


def _cpu_info(cpu: Xml.Element, numa: HostTopology | None) -> dict[str, Any]:
    found: dict[str, Any] = {name: cpu.findtext(name, "") for name in ("arch", "model", "vendor")}
    topology = cpu.find("topology")
    if topology is not None:
        counts = {name: int(topology.get(name, "1")) for name in ("sockets", "cores", "threads")}
        found["topology"] = {"cells": len(numa.cells) if numa else 1, **counts}
    bits = cpu.find("maxphysaddr")
    if bits is not None and bits.get("bits"):
        found["maxphysaddr"] = {"mode": bits.get("mode", ""), "bits": int(bits.get("bits", "0"))}
    return found | {"features": sorted(features_of(cpu))}


def features_of(cpu: Xml.Element) -> frozenset[str]:
    """Names of the features in an element `cpu`, without those that it says are disabled or forbidden."""
    refused = ("disable", "forbid")
    listed = (each for each in cpu.iterfind("feature") if each.get("policy") not in refused)
    return frozenset(each.get("name", "") for each in listed)


def traits_of(features: Iterable[str]) -> frozenset[str]:
    """The traits, by os-traits' names, of the features of an x86 processor, by libvirt's names."""
    found = frozenset(features)
    return frozenset(f"HW_CPU_X86_{ending}" for name, ending in _TRAITS if name in found)


def read_cells(cells: Xml.Element | None) -> HostTopology | None:
    """The NUMA cells; None where there are none, or where libvirt does not know the CPUs of one."""
    found = tuple(_read_cell(each) for each in cells.iterfind("cell")) if cells is not None else ()
    return HostTopology(found) if found and any(cell.cpuset for cell in found) else None


def _read_cell(cell: Xml.Element) -> HostCell:
    cpus = cell.findall("cpus/cpu")
    numbers = frozenset(int(each.get("id", "0")) for each in cpus)
    cores = {parse_cpus(each.get("siblings", each.get("id", "0"))) for each in cpus}
    sockets = {int(each.get("socket_id", "0")) for each in cpus}
    memory = cell.find("memory")
    return HostCell(
        id=int(cell.get("id", "0")),
        cpuset=numbers,
        pcpuset=numbers,
        memory=0 if memory is None else kib_of(memory) // KIB_PER_MIB,
        siblings=tuple(sorted((core for core in cores if len(core) > 1), key=sorted)),
        mempages=tuple(_read_pages(each) for each in cell.iterfind("pages")),
        socket=sockets.pop() if len(sockets) == 1 else None,
    )


def _read_pages(pages: Xml.Element) -> PagePool:
    size = int(int(pages.get("size", "4")) * _KIB_PER_UNIT.get(pages.get("unit", "KiB"), 1))
    return PagePool(size_kb=size, total=int(pages.text or 0))


def kib_of(amount: Xml.Element) -> int:
    """The KiB of an element with a number and a unit."""
    return int(int(amount.text or 0) * _KIB_PER_UNIT.get(amount.get("unit", "KiB"), 1))


def parse_cpus(text: str) -> frozenset[int]:
    """The CPUs of a list such as "0-3,8"."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)
