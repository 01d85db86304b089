# SPDX-License-Identifier: Apache-2.0
"""Conversion of a host's NUMA topology and PCI pools from nova's objects, as compute nodes report them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.hosts.numa_cells import HostTopology, host_topology_from_json
from roost.hosts.pci import Pools, pools_from_json
from roost.model.fields import MAPPING, listed
from roost.wire.envelope import open_list, open_record

_CELL_FIELDS = (
    *("id", "memory", "cpuset", "pcpuset", "pinned_cpus"),
    *("cpu_usage", "memory_usage", "siblings", "socket"),
)
_POOL_FIELDS = ("vendor_id", "product_id", "count", "numa_node")
_PAGE_FIELDS = ("size_kb", "total", "used", "reserved")


def host_topology_from_object(value: Any) -> HostTopology | None:
    """The topology of a NUMATopology object or of a plain mapping; None for null and for one without cells."""
    if value is None:
        return None
    where = "numa_topology"
    cells = listed(open_record(value, "NUMATopology", where).data.get("cells"), f"{where}.cells")
    plain = [_plain_cell(each, f"{where}.cells[{at}]") for at, each in enumerate(cells)]
    return host_topology_from_json({"cells": plain}) if plain else None


def _plain_cell(value: Any, where: str) -> dict[str, Any]:
    """A NUMACell in the form of `host_topology_from_json`. Before Train dedicated CPUs were in `cpuset`."""
    data = open_record(value, "NUMACell", where).data
    plain = _chosen(data, _CELL_FIELDS)
    plain.setdefault("pcpuset", plain.get("cpuset"))
    pages = enumerate(listed(data.get("mempages"), f"{where}.mempages"))
    plain["mempages"] = [
        _chosen(open_record(each, "NUMAPagesTopology", f"{where}.mempages[{at}]").data, _PAGE_FIELDS)
        for at, each in pages
    ]
    if (network := data.get("network_metadata")) is not None:
        networks = open_record(network, "NetworkMetadata", f"{where}.network_metadata").data
        plain |= _chosen(networks, ("physnets", "tunneled"))
    return plain


def pools_from_object(value: Any) -> Pools:
    """The pools of a PciDevicePoolList object or of a plain list; null is none. Tags become properties."""
    entries = open_list(value, "PciDevicePoolList", "pci_stats")
    return pools_from_json([_plain_pool(each, f"pci_stats[{at}]") for at, each in enumerate(entries)])


def _plain_pool(value: Any, where: str) -> dict[str, Any]:
    data = open_record(value, "PciDevicePool", where).data
    return {**MAPPING.lenient(data.get("tags"), f"{where}.tags"), **_chosen(data, _POOL_FIELDS)}


def _chosen(data: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}
