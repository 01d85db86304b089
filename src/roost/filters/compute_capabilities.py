# SPDX-License-Identifier: Apache-2.0
"""Extra specs that the host itself must satisfy: its attributes and what its agent reports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.filters.extra_specs_ops import match, numeric_comparison
from roost.hosts import Hosts, HostView
from roost.hosts.arrays import BoolArray
from roost.hosts.attributes import ATTRIBUTES, COLUMNS, attribute_of, columns_behind
from roost.model.request import RequestSpec
from roost.validation.display import shown

SCOPE = "capabilities"


class ComputeCapabilitiesFilter(Filter):
    """Keep only hosts whose attributes satisfy the flavor's extra specs.

    Extra specs in the scope `capabilities:` count, and those without a scope that name a host attribute or an entry
    of `stats`. Further colons lead inside: `capabilities:cpu_info:topology:cores`.
    """

    run_filter_once_per_request = True
    reads = COLUMNS

    def applies_to(self, spec: RequestSpec) -> bool:
        """The flavor asks for something."""
        return bool(spec.flavor.extra_specs)

    def reads_for(self, spec: RequestSpec) -> frozenset[str]:
        """What is behind the attributes that are asked about, and the agent's stats."""
        columns = columns_behind(path[0] for path, _, _ in requirements(spec))
        return self.reads if columns is None else frozenset({*columns, "stats"})

    def mask(self, hosts: Hosts, spec: RequestSpec) -> BoolArray:
        """Every requirement is met. A host that fails one is not asked for the next: that might be an error."""
        mask = np.ones(len(hosts), dtype=np.bool_)
        for path, requirement, is_scoped in requirements(spec):
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
        columns = _columns_of(hosts, path[0])
        if columns is None:
            return np.array([meets(host, path, requirement, is_scoped) for host in hosts], dtype=np.bool_)
        return hosts.per_combination(columns, lambda host: meets(host, path, requirement, is_scoped))

    def reason(self, host: HostView, spec: RequestSpec) -> str:
        """The first requirement that is not met, and what the host has."""
        for path, requirement, is_scoped in requirements(spec):
            if not meets(host, path, requirement, is_scoped):
                value = look_up(host, path)
                has = f"the host has {shown(value)}" if value is not None else "the host does not report it"
                return f"{':'.join(path)} {shown(requirement)} asked; {has}"
        return "its capabilities do not satisfy the extra specs"


def _columns_of(hosts: Hosts, name: str) -> list[str] | None:
    """What an answer depends on: the attribute, and where that may be None (or is none) the agent's stats."""
    columns = columns_behind([name])
    if columns is None:
        return None
    encoded = [hosts.table.encoded[column] for column in columns if column in hosts.table.encoded]
    has_none = any(value is None for column in encoded for value in column.values)
    return [*columns, "stats"] if has_none or not columns else columns


def requirements(spec: RequestSpec) -> Iterator[tuple[list[str], str, bool]]:
    """Path inside the host, what is required there, and whether the extra spec was in our scope."""
    for key, requirement in spec.flavor.extra_specs.items():
        if key == "hw:maxphysaddr_bits":
            yield ["cpu_info", "maxphysaddr", "bits"], f">= {requirement}", True
            continue
        parts = key.split(":")
        if len(parts) == 1:
            yield parts, requirement, False
        elif parts[0] == SCOPE:
            yield parts[1:], requirement, True


def meets(host: HostView, path: list[str], requirement: str, is_scoped: bool) -> bool:
    """Whether one host meets one requirement. Without a scope, a name that means nothing to the host is no matter."""
    if not is_scoped and path[0] not in ATTRIBUTES and path[0] not in host.stats:
        return True
    value = look_up(host, path)
    return value is not None and match(str(value), requirement)


def look_up(host: HostView, path: list[str]) -> Any:
    """Follow a path from the host: attributes, else its stats; text on the way is JSON. None where it ends early."""
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
