# SPDX-License-Identifier: Apache-2.0
"""The weigher that reserves hosts with PCI devices for requests that need them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roost.hosts import Hosts, HostTable, pci
from roost.hosts.encoded import Array
from roost.model.kinds import IdentityCache
from roost.model.request import RequestSpec
from roost.options.declare import option
from roost.weighers.base import Weigher


class PCIWeigher(Weigher):
    """100 minus the number of free PCI devices, of which at most 99 count; higher means fewer free devices.

    The number does not depend on the request: hosts with few free devices always rank first. This reserves hosts with
    many devices, and packs requests for devices.
    """

    multiplier_option = aggregate_key = "pci_weight_multiplier"
    reads = frozenset({"pci_pools"})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        pci_weight_multiplier: float = option(1.0, min=0.0, help="weight of having few free PCI devices")

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Per host, 100 minus the number of free devices, at least 1."""
        return hosts.per_value("pci_pools", _scarcity, np.float64)

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """A function of a row: 100 minus its number of free devices, at least 1."""
        pools_at, cache = table.encoded["pci_pools"].at, IdentityCache[float]()
        return lambda row: cache.get(pools := pools_at(row)) or cache.put(pools, _scarcity(pools))


def _scarcity(pools: Any) -> float:
    return 100.0 - min(pci.free_devices(pools), 99) if pools else 100.0
