# SPDX-License-Identifier: Apache-2.0
"""The filter for extra specs that a host's attributes, or the stats that its agent reports, must satisfy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from roost.errors import RuleError
from roost.filters.base import Filter
from roost.filters.extra_specs_ops import match, numeric_comparison
from roost.hosts import Hosts, HostView
from roost.hosts.encoded import BoolArray
from roost.hosts.host_changes import plural
from roost.hosts.hosts import ATTRIBUTE_COLUMNS, ATTRIBUTES, attribute_of, columns_behind
from roost.model.kinds import shown
from roost.model.remedy import Remedy, RequestChange
from roost.model.request import RequestSpec

CAPABILITIES_SCOPE = "capabilities"


class ComputeCapabilitiesFilter(Filter):
    """Keep only hosts whose attributes satisfy the flavor's extra specs.

    Considered are extra specs in the scope `capabilities:`, and extra specs without a scope that name a host
    attribute or an entry of `stats`. Further colons select nested entries: `capabilities:cpu_info:topology:cores`.
    """

    applies_if = attrgetter("flavor.extra_specs")
    run_filter_once_per_request = True
    reads = ATTRIBUTE_COLUMNS

    def reads_for(self, spec: RequestSpec) -> frozenset[str]:
        """The columns of the attributes that the extra specs name, and `stats`; `reads` if one is unique per host."""
        columns = columns_behind(path[0] for path, _, _ in capability_requirements(spec))
        return self.reads if columns is None else frozenset({*columns, "stats"})

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """True for hosts that meet all requirements, checked in order: a host that fails one is not checked further.

        The next requirement might raise an error for it, which must not fail the request.
        """
        mask = np.ones(len(hosts), dtype=np.bool_)
        for path, requirement, is_scoped in capability_requirements(spec):
            left = np.flatnonzero(mask)
            if not len(left):
                break
            mask[left] = self._meets(hosts.take(left), path, requirement, is_scoped)
        return mask

    def _meets(self, hosts: Hosts, path: list[str], requirement: str, is_scoped: bool) -> BoolArray:
        column = ATTRIBUTES.get(path[0])
        if column and len(path) == 1 and column in hosts.table.numbers:
            comparison = numeric_comparison(requirement)
            if comparison:
                compare, number = comparison
                met: BoolArray = compare(hosts.column(column), number)
                return met
        columns = _columns_for(hosts, path[0])
        if columns is None:
            return np.array([meets(host, path, requirement, is_scoped) for host in hosts], dtype=np.bool_)
        return hosts.per_combination(columns, lambda host: meets(host, path, requirement, is_scoped))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The first requirement that is not met, and the value that the host has."""
        for path, requirement, is_scoped in capability_requirements(spec):
            if not meets(host, path, requirement, is_scoped):
                value = value_at(host, path)
                has = f"the host has {shown(value)}" if value is not None else "the host does not report it"
                return f"{':'.join(path)} {shown(requirement)} asked; {has}"
        return "its capabilities do not satisfy the extra specs"

    def remedy(self, host: HostView, spec: RequestSpec) -> Remedy | None:
        """A flavor without the extra specs that the host does not meet: an operator cannot change what it is."""
        extra_specs = spec.flavor.extra_specs.items()
        found = {key: each for key, text in extra_specs if (each := capability_requirement(key, text))}
        unmet = [key for key, each in found.items() if not _surely_meets(host, *each)]
        text = f"ask for a flavor without {plural('the extra spec', unmet)}"
        return Remedy(text, tuple(RequestChange(f"flavor.extra_specs.{key}", None) for key in unmet))


def _columns_for(hosts: Hosts, name: str) -> list[str] | None:
    """The columns on which the value of a name depends; None if it is unique per host.

    `stats` is among them if the name is no attribute, or the attribute is None on some host.
    """
    columns = columns_behind([name])
    if columns is None:
        return None
    encoded = [hosts.table.encoded[column] for column in columns if column in hosts.table.encoded]
    has_none = any(value is None for column in encoded for value in column.values)
    return [*columns, "stats"] if has_none or not columns else columns


def capability_requirements(spec: RequestSpec) -> Iterator[tuple[list[str], str, bool]]:
    """(path, requirement, is_scoped) for each extra spec that this filter considers.

    The path starts with the name of an attribute or of an entry of `stats`; `is_scoped`: it was in `capabilities:`.
    """
    for key, requirement in spec.flavor.extra_specs.items():
        if found := capability_requirement(key, requirement):
            yield found


def capability_requirement(key: str, requirement: str) -> tuple[list[str], str, bool] | None:
    """(path, requirement, is_scoped) for one extra spec; None where it is not about capabilities."""
    if key == "hw:maxphysaddr_bits":
        return ["cpu_info", "maxphysaddr", "bits"], f">= {requirement}", True
    parts = key.split(":")
    if len(parts) == 1:
        return parts, requirement, False
    return (parts[1:], requirement, True) if parts[0] == CAPABILITIES_SCOPE else None


def meets(host: HostView, path: list[str], requirement: str, is_scoped: bool) -> bool:
    """Whether a host meets a requirement. An unscoped one is ignored if the host has nothing of that name."""
    if not is_scoped and path[0] not in ATTRIBUTES and path[0] not in host.stats:
        return True
    value = value_at(host, path)
    return value is not None and match(str(value), requirement)


def _surely_meets(host: HostView, path: list[str], requirement: str, is_scoped: bool) -> bool:
    """Whether a host meets a requirement; one that cannot be evaluated on the host is not met."""
    try:
        return meets(host, path, requirement, is_scoped)
    except RuleError:
        return False


def value_at(host: HostView, path: list[str]) -> Any:
    """The value at a path below the host's attributes, or else its stats; None if the path does not exist.

    A text on the way is parsed as JSON.
    """
    value = attribute_of(host, path[0])
    if value is None:
        value = host.stats.get(path[0])
    for part in path[1:]:
        if isinstance(value, str):
            value = _parsed(value)
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
