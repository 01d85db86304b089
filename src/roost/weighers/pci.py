# SPDX-License-Identifier: Apache-2.0
"""Keep hosts with PCI devices for those who need them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roost.hosts import Hosts, HostTable, pci
from roost.hosts.arrays import Array
from roost.model.lazy import IdentityCache
from roost.model.request import RequestSpec
from roost.options import option
from roost.weighers.base import Weigher


class PCIWeigher(Weigher):
    """100 less the free PCI devices (99 at most); higher means fewer of them.

    The request is not looked at: hosts with few free devices always win, which keeps the others free and packs
    requests for devices.
    """

    multiplier_option = aggregate_key = "pci_weight_multiplier"
    reads = frozenset({"pci_pools"})

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        pci_weight_multiplier: float = option(1.0, min=0.0, help="weight of having few free PCI devices")

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """How few are free."""
        return hosts.per_value("pci_pools", _scarcity, np.float64)

    def reader(self, table: HostTable, spec: RequestSpec) -> Callable[[int], float]:
        """The same of one row."""
        pools_at, known = table.encoded["pci_pools"].at, IdentityCache[float]()
        return lambda row: known.get(pools := pools_at(row)) or known.put(pools, _scarcity(pools))


def _scarcity(pools: Any) -> float:
    return 100.0 - min(pci.free_devices(pools), 99)
