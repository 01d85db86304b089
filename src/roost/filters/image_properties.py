# SPDX-License-Identifier: Apache-2.0
"""The filter for hosts that can run the image: architecture, hypervisor type, VM mode, hypervisor version."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import name_of
from roost.model.image_property_values import ARCHITECTURES, parse_version_predicate, version_satisfies
from roost.model.remedy import Change, OptionChange, Remedy, RequestChange
from roost.model.request import RequestSpec
from roost.options.declare import option

_OF_TRIPLE = ("hw_architecture", "img_hv_type", "hw_vm_mode")
"""The image properties that are compared with the triples of a host, in their order."""
_DEMANDS = ("img_hv_requested_version", "hw_maxphysaddr_bits")
"""The image properties that are compared with the hypervisor version and the address width."""


class ImagePropertiesFilter(Filter):
    """Keep only hosts that support the image's architecture, hypervisor type and VM mode, and hypervisor version.

    Architecture, hypervisor type and VM mode must all be in one of the triples that the host advertises. Hypervisor
    version and address width are checked only if at least one of the three is requested.
    """

    run_filter_once_per_request = True
    runs_on_rebuild = True
    reads = frozenset({"supported_instances", "version", "cpu_info"})

    @dataclass(frozen=True)
    class Options:
        """The architecture of images that name none."""

        image_properties_default_architecture: str | None = option(
            None, choices=ARCHITECTURES, help="architecture of images that name none"
        )

    def wanted(self, spec: RequestSpec) -> list[str]:
        """The requested architecture, hypervisor type and VM mode; those that are not requested are left out."""
        properties: Mapping[str, Any] = spec.image.properties if spec.image else {}
        architecture = properties.get("hw_architecture") or self.options.image_properties_default_architecture
        named = (architecture, properties.get("img_hv_type"), properties.get("hw_vm_mode"))
        return [each for each in named if each]

    def applies_to(self, spec: RequestSpec) -> bool:
        """True if an architecture, hypervisor type or VM mode is requested."""
        return bool(self.wanted(spec))

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that advertise the requested triple and have the hypervisor version and address width."""
        wanted = set(self.wanted(spec))
        if not wanted:
            return np.ones(len(hosts), dtype=np.bool_)
        mask: BoolArray = hosts.per_value("supported_instances", lambda triples: _offers(triples, wanted))
        left = np.flatnonzero(mask)
        if len(left) and (_version(spec) or _bits(spec)):
            checked = ["version"] if _version(spec) else []
            checked += ["cpu_info"] if _bits(spec) else []
            mask[left] = hosts.take(left).per_combination(checked, lambda host: not _shortcoming(host, spec))
        return mask

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """What was requested, and what the host offers."""
        wanted = self.wanted(spec)
        if not _offers(host.supported_instances, set(wanted)):
            offered = "; ".join(" ".join(triple) for triple in host.supported_instances) or "nothing"
            return f"{' '.join(wanted)} asked; the host offers {offered}"
        return _shortcoming(host, spec)

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """An image that suits the host; None if the host does not say what it can run."""
        if not host.supported_instances:  # a fault of its agent: no image helps
            return None
        wanted, changes, texts = set(self.wanted(spec)), list[Change](), list[str]()
        if not _offers(host.supported_instances, wanted):
            offered = max(host.supported_instances, key=lambda triple: len(wanted & set(triple)))
            texts.append(f"for {' '.join(offered)}")
            changes += self._changes_to(offered, spec)
        if _shortcoming(host, spec):
            demands = [name for name in _DEMANDS if spec.image and name in spec.image.properties]
            texts.append(f"without {' and '.join(demands)} (or upgrade the hypervisor of {name_of(host)})")
            changes += [RequestChange(f"image.properties.{name}", None) for name in demands]
        return Remedy(f"use an image {', '.join(texts)}", tuple(changes))

    def _changes_to(self, offered: list[str], spec: RequestSpec) -> Iterator[Change]:
        named: Mapping[str, Any] = spec.image.properties if spec.image else {}
        for name, value in zip(_OF_TRIPLE, offered, strict=True):
            if named.get(name) and named[name] not in offered:
                yield RequestChange(f"image.properties.{name}", value)
        default = self.options.image_properties_default_architecture
        if default and not named.get("hw_architecture") and default not in offered:
            yield OptionChange("filter_scheduler", "image_properties_default_architecture", offered[0])


def _offers(triples: Any, wanted: set[str]) -> bool:
    return any(wanted <= set(triple) for triple in triples)


def _version(spec: RequestSpec) -> str | None:
    return spec.image.properties.get("img_hv_requested_version") if spec.image else None


def _bits(spec: RequestSpec) -> int | None:
    return spec.image.properties.get("hw_maxphysaddr_bits") if spec.image else None


def _shortcoming(host: HostView, spec: RequestSpec) -> str:
    """Why hypervisor version or address width do not suffice; empty if they do, or the host does not report them."""
    version, bits = _version(spec), _bits(spec)
    if version and host.hypervisor_version:
        numbers = version_parts(host.hypervisor_version)
        if not version_satisfies(numbers, parse_version_predicate(version)):
            return f"hypervisor version {version} asked; the host has {'.'.join(map(str, numbers))}"
    has_bits = _address_bits(host.cpu_info) if bits else None
    if bits and has_bits is not None and has_bits < bits:
        return f"{bits} address bits asked; the host has {has_bits}"
    return ""


def version_parts(version: int) -> tuple[int, ...]:
    """The parts of a version integer in base 1000: (6, 2, 1) for 6002001."""
    parts: list[int] = []
    while version:
        version, part = divmod(version, 1000)
        parts.insert(0, part)
    return tuple(parts)


def _address_bits(cpu_info: Any) -> int | None:
    try:
        info = json.loads(cpu_info) if isinstance(cpu_info, str) else cpu_info
        return int(info["maxphysaddr"]["bits"])
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):  # e.g. Infinity, or nested too deeply
        return None
