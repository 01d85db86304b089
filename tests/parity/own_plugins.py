# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers such as other people write them, in every shape that is allowed, and the same as plain loops.

None of them says which columns it reads: whoever keeps answers must not keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from roost.filters.base import Filter, HostFilter
from roost.hosts import Hosts
from roost.model import RequestSpec
from roost.weighers.base import HostWeigher, Weigher


class NotTooManyFailuresFilter(Filter):
    """Looks at a column and does not say so."""

    def mask(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.failed_builds < 3

    def reason(self, host: Any, spec: RequestSpec) -> str:
        return f"{host.failed_builds} failures"


class EvenInstancesFilter(HostFilter):
    """One host at a time; tells whoever builds there what it saw."""

    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        host_state.limits["seen_ram_mb"] = host_state.free_ram_mb
        return host_state.num_instances % 2 == 0 or host_state.free_ram_mb > 1024


class FullerHalfOutFilter(HostFilter):
    """All hosts together: what it says of one depends on who else is in the running."""

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> list[Any]:
        hosts = list(filter_obj_list)
        middle = sorted(host.free_ram_mb for host in hosts)[len(hosts) // 2]
        return [host for host in hosts if host.free_ram_mb >= middle]


class CappedFailuresWeigher(Weigher):
    """A column that it does not name, on a scale with two fixed ends."""

    minval, maxval = 0.0, 2.0

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Any:
        return hosts.failed_builds * 0.7

    def multiplier(self) -> float:
        return -1.25


class CrowdWeigher(HostWeigher):
    """One host at a time, with a multiplier of its own for each."""

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return len(host_state.instances) + 0.1 * host_state.num_io_ops

    def weight_multiplier(self, host_state: Any) -> float:
        return 0.5 if host_state.num_instances % 3 else -0.25


def _fuller_half_out(hosts: list[Any], spec: RequestSpec) -> list[bool]:
    middle = sorted(host.seen.free_ram_mb for host in hosts)[len(hosts) // 2]
    return [host.seen.free_ram_mb >= middle for host in hosts]


FILTERS = (NotTooManyFailuresFilter, EvenInstancesFilter, FullerHalfOutFilter)
WEIGHERS = (CappedFailuresWeigher, CrowdWeigher)

FILTER_LOOPS: dict[str, Any] = {
    "NotTooManyFailuresFilter": lambda hosts, spec: [host.plain.failed_builds < 3 for host in hosts],
    "EvenInstancesFilter": lambda hosts, spec: [
        host.plain.num_instances % 2 == 0 or host.plain.free_ram_mb > 1024 for host in hosts
    ],
    "FullerHalfOutFilter": _fuller_half_out,
}
"""Name -> the answers for all hosts that are left."""

WEIGHER_LOOPS: dict[str, Any] = {
    "CappedFailuresWeigher": (lambda host: host.failed_builds * 0.7, lambda host: -1.25),
    "CrowdWeigher": (
        lambda host: len(host.instances) + 0.1 * host.num_io_ops,
        lambda host: 0.5 if host.num_instances % 3 else -0.25,
    ),
}
"""Name -> raw number and multiplier of one host."""
