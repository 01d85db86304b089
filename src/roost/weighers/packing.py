# SPDX-License-Identifier: Apache-2.0
"""Weighers by the shares of a host in use: balance CPUs and memory, leave least free, fill hosts in use first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.encoded import Array, FloatArray
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU
from roost.options.declare import option
from roost.weighers.base import Weigher

_DECIMALS = 9
"""Digits after the point to which shares are rounded."""


def used_share(hosts: Hosts, resource_class: str, more: int = 0) -> FloatArray:
    """Per host, the allocated share of a resource class if `more` were allocated; 0 for hosts that have none of it.

    The share is relative to the limit: (total - reserved) x allocation ratio.
    """
    shares = np.zeros(len(hosts))
    if f"limit:{resource_class}" not in hosts.table.numbers:
        return shares
    limits, allocated = hosts.column(f"limit:{resource_class}"), hosts.column(f"allocated:{resource_class}")
    np.divide(allocated + more, limits, out=shares, where=limits > 0)
    return shares


def round_shares(shares: FloatArray) -> FloatArray:
    """The shares without rounding errors, which min-max normalisation would amplify among equal hosts."""
    return shares.round(_DECIMALS)


class BalanceWeigher(Weigher):
    """How much closer the request brings the shares of CPUs and memory in use, -1 to 1; higher means closer.

    The imbalance of a host is the distance between the two shares; the number is the distance before minus the
    distance after the placement. A request for much memory is thus placed where memory is left over, one for many
    CPUs where CPUs are. The number does not depend on how full a host is: combine this weigher with BestFitWeigher or
    StackWeigher. Off by default.

    The distance after the placement alone would not be enough: an empty host is perfectly balanced and would always
    rank first.

    Example: a request for 8 vCPUs and 16 GiB, which are 12.5 % and 6.25 % of hosts with 64 vCPUs and 256 GiB.

    | host | in use | distance before | after | number |
    | --- | --- | --- | --- | --- |
    | a | nothing | 0 | 0.0625 | -0.0625 |
    | b | 32 vCPUs, 64 GiB: 50 % and 25 % | 0.25 | 0.3125 | -0.0625 |
    | c | 16 vCPUs, 192 GiB: 25 % and 75 % | 0.5 | 0.4375 | 0.0625: it is chosen |
    """

    multiplier_option = aggregate_key = "balance_weight_multiplier"
    reads = frozenset({"limit:VCPU", "limit:MEMORY_MB", "allocated:VCPU", "allocated:MEMORY_MB", "aggregates"})

    looks_at_size = True

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        balance_weight_multiplier: float = option(
            0.0, help="weight of balancing the use of CPUs and memory; positive balances, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The distance before minus the distance after the placement; 0 for a host without CPUs or without memory."""
        before = used_share(hosts, VCPU) - used_share(hosts, MEMORY_MB)
        vcpus, memory_mb = spec.amounts.get(VCPU, 0), spec.amounts.get(MEMORY_MB, 0)
        after = used_share(hosts, VCPU, vcpus) - used_share(hosts, MEMORY_MB, memory_mb)
        has_both = (hosts.column("limit:VCPU") > 0) & (hosts.column("limit:MEMORY_MB") > 0)
        return round_shares(np.where(has_both, np.abs(before) - np.abs(after), 0.0))


class BestFitWeigher(Weigher):
    """Share of the host in use after the placement, 0 to 1; higher means less is left. Off by default.

    It is the mean over the resource classes that the request asks for, custom classes included. Each is a share of
    what the host may allocate: (total - reserved) x allocation ratio. A negative multiplier of RAMWeigher prefers the
    host with the fewest free MiB. BestFitWeigher is relative: 8 GiB are much on a small host, little on a large one.

    Example: a request for 8 vCPUs and 16 GiB, ratios 1.0.

    | host | size | in use | in use with the request | number |
    | --- | --- | --- | --- | --- |
    | a | 64 vCPUs, 128 GiB | 32 vCPUs, 64 GiB | 62.5 % and 62.5 % | 0.625 |
    | b | 64 vCPUs, 128 GiB | 56 vCPUs, 32 GiB | 100 % and 37.5 % | 0.6875 |
    | c | 16 vCPUs, 64 GiB | 4 vCPUs, 32 GiB | 75 % and 75 % | 0.75: it is chosen |
    """

    multiplier_option = aggregate_key = "best_fit_weight_multiplier"
    # Columns of custom resource classes need not be listed: every change of one also notes `instances`.
    reads = frozenset(
        {
            *("limit:VCPU", "limit:MEMORY_MB", "limit:DISK_GB"),
            *("allocated:VCPU", "allocated:MEMORY_MB", "allocated:DISK_GB"),
            *("aggregates", "instances"),
        }
    )

    looks_at_size = True

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        best_fit_weight_multiplier: float = option(
            0.0, help="weight of leaving few free resources on the host; positive packs, negative spreads, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """The mean share in use with the request included."""
        total = np.zeros(len(hosts))
        for resource_class, amount in spec.amounts.items():
            total += used_share(hosts, resource_class, amount)
        return round_shares(total / max(1, len(spec.amounts)))


class StackWeigher(Weigher):
    """0 for an empty host, else 1 + the share in use of its fullest resource; higher means fuller.

    The resources are CPUs, memory and local disk, each as a share of what the host may allocate. The 1 matters in
    combination with other weighers: it separates hosts in use from empty ones by about half of the multiplier,
    however little they are used. Off by default; a positive multiplier leaves hosts empty that could be switched off,
    a negative one spreads over empty hosts first.

    Example: hosts with 64 vCPUs and 256 GiB, for any request.

    | host | in use | number |
    | --- | --- | --- |
    | a | nothing | 0 |
    | b | 1 vCPU, 2 GiB | 1.015625 |
    | c | 48 vCPUs, 64 GiB: 75 % and 25 % | 1.75 |
    | d | 16 vCPUs, 224 GiB: 25 % and 87.5 % | 1.875: it is chosen, if the request fits |
    """

    multiplier_option = aggregate_key = "stack_weight_multiplier"
    reads = frozenset(
        {
            *("limit:VCPU", "limit:MEMORY_MB", "limit:DISK_GB"),
            *("allocated:VCPU", "allocated:MEMORY_MB", "allocated:DISK_GB"),
            "aggregates",
        }
    )

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        stack_weight_multiplier: float = option(
            0.0, help="weight of hosts in use, fullest first; positive packs, negative spreads, 0 is off"
        )

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Per host, the largest of its shares in use, plus 1 if it is not 0."""
        fullest = np.zeros(len(hosts))
        for resource_class in (VCPU, MEMORY_MB, DISK_GB):
            np.maximum(fullest, used_share(hosts, resource_class), out=fullest)
        return round_shares((fullest > 0) + fullest)
