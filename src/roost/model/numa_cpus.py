# SPDX-License-Identifier: Apache-2.0
"""CPU settings of flavor and image: shared or dedicated, which CPUs, thread and emulator policy, real-time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from roost.errors import nearest
from roost.model.numa_extra_specs import (
    NumaRequestError,
    Properties,
    Specs,
    all_cpus,
    integer_or,
    is_true,
    read_cpu_list,
)
from roost.validation.display import shown

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
