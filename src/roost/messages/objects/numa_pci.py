# SPDX-License-Identifier: Apache-2.0
"""Conversion of NUMA topologies and PCI devices, of instances and of hosts, from and to nova's objects.

Hosts report theirs with their compute nodes; they are only read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from roost.errors import FieldError
from roost.hosts.numa_cells import HostTopology, host_topology_from_json
from roost.hosts.pci import Pools, pools_from_json
from roost.messages.objects.envelope import (
    close_envelope,
    fields_to_send,
    is_envelope,
    open_list,
    open_record,
    store_unheld,
)
from roost.model.fields import AMOUNT, MAPPING, OPTIONAL_AMOUNT, OPTIONAL_TEXT, listed, make_record
from roost.model.image_property_values import parse_cpu_set
from roost.model.numa import InstanceCell, InstanceTopology, cpus_from_json, topology_from_json
from roost.model.pci import PciRequest, WantedProperty

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
    plain = [_plain_host_cell(each, f"{where}.cells[{at}]") for at, each in enumerate(cells)]
    return host_topology_from_json({"cells": plain}) if plain else None


def _plain_host_cell(value: Any, where: str) -> dict[str, Any]:
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


_PLAIN_CELL_FIELDS = ("id", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")
_OPTIONAL_CELL_FIELDS = ("cpu_policy", "cpu_thread_policy", "pagesize")
_WANTED = WantedProperty()
_TOPOLOGY_PARTS = ("sockets", "cores", "threads")


def topology_from_object(value: Any, where: str = "numa_topology") -> InstanceTopology | None:
    """The NUMA topology of an object or mapping, also of Juno's, with CPU lists as texts; None without cells."""
    if value is None or isinstance(value, InstanceTopology):
        return value
    data = open_record(value, "InstanceNUMATopology", where).data
    cells = [
        open_record(each, "InstanceNUMACell", f"{where}.cells[{at}]").data
        for at, each in enumerate(listed(data.get("cells"), f"{where}.cells"))
    ]
    if not cells:
        return None
    plain = [_plain_cell(each, f"{where}.cells[{at}]") for at, each in enumerate(cells)]
    policy = data.get("emulator_threads_policy")
    try:
        topology = topology_from_json({"cells": plain, "emulator_threads_policy": policy})
    except FieldError as error:
        inside = error.field.removeprefix("numa_topology")
        raise FieldError(f"{where}{inside}", error.problem, error.hint) from None
    fitted = tuple(
        _with_pins(cell, each, f"{where}.cells[{at}]")
        for at, (cell, each) in enumerate(zip(topology.cells, cells, strict=True))
    )
    return replace(topology, cells=fitted).received(data)


def _plain_cell(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The NUMA cell in the form of `topology_from_json`. Before Train dedicated CPUs were in `cpuset`."""
    cpus = data.get("cpuset", data.get("cpus"))
    shared = _cpus(cpus, f"{where}.cpuset")
    plain = {name: data[name] for name in _PLAIN_CELL_FIELDS if name in data}
    if "memory" not in plain and isinstance(data.get("mem"), Mapping):
        plain["memory"] = data["mem"].get("total")
    if "pcpuset" in data:
        return plain | {"cpuset": sorted(shared), "pcpuset": sorted(_cpus(data["pcpuset"], f"{where}.pcpuset"))}
    is_dedicated = data.get("cpu_policy") == "dedicated"
    return plain | {"pcpuset" if is_dedicated else "cpuset": sorted(shared)}


def _cpus(value: Any, where: str) -> frozenset[int]:
    if not isinstance(value, str):
        return cpus_from_json(listed(value, where), where)
    try:
        return parse_cpu_set(value)
    except FieldError as error:
        raise FieldError(where, error.problem, error.hint) from None


def _with_pins(cell: InstanceCell, data: Mapping[str, Any], where: str) -> InstanceCell:
    """The NUMA cell with the CPU pinning and reserved CPUs of an earlier placement."""
    pins = MAPPING.lenient(data.get("cpu_pinning_raw"), f"{where}.cpu_pinning_raw")
    at = f"{where}.cpu_pinning_raw"
    pairs = tuple(sorted((AMOUNT.lenient(guest, at), AMOUNT.lenient(host, at)) for guest, host in pins.items()))
    reserved = _cpus(data.get("cpuset_reserved"), f"{where}.cpuset_reserved")
    if pairs or reserved:
        cell = replace(cell, cpu_pinning=pairs, cpuset_reserved=reserved)
    return cell.received(data, _cpu_topology(data, f"{where}.cpu_topology"))


def _cpu_topology(data: Mapping[str, Any], where: str) -> dict[str, Any]:
    if data.get("cpu_topology") is None:
        return {"cpu_topology": None} if "cpu_topology" in data else {}
    parts = open_record(data["cpu_topology"], "VirtCPUTopology", where).data
    counts = {
        name: OPTIONAL_AMOUNT.lenient(parts[name], f"{where}.{name}") for name in _TOPOLOGY_PARTS if name in parts
    }
    return {"cpu_topology": close_envelope("VirtCPUTopology", counts)}


def topology_to_object(topology: InstanceTopology | None, instance_uuid: str | None) -> dict[str, Any] | None:
    """The InstanceNUMATopology object of a topology; None for None."""
    if topology is None:
        return None
    data: dict[str, Any] = {"cells": [numa_cell_to_object(cell) for cell in topology.cells]}
    data |= {"emulator_threads_policy": topology.emulator_threads_policy, "instance_uuid": instance_uuid}
    return close_envelope("InstanceNUMATopology", fields_to_send(topology, data))


def numa_cell_to_object(cell: InstanceCell) -> dict[str, Any]:
    """The InstanceNUMACell object of a NUMA cell."""
    held: dict[str, Any] = {name: getattr(cell, name) for name in ("id", "memory", *_OPTIONAL_CELL_FIELDS)}
    held |= {"cpuset": sorted(cell.cpuset), "pcpuset": sorted(cell.pcpuset)}
    held["cpu_pinning_raw"] = {str(guest): host for guest, host in cell.cpu_pinning} or None
    held["cpuset_reserved"] = sorted(cell.cpuset_reserved) or None
    defaults = dict.fromkeys((*_OPTIONAL_CELL_FIELDS, "cpu_pinning_raw", "cpuset_reserved")) | {"pcpuset": []}
    return close_envelope("InstanceNUMACell", fields_to_send(cell, held, defaults))


# --- PCI devices ----------------------------------------------------------------------------------


def pci_requests_from_object(value: Any, where: str = "pci_requests") -> tuple[PciRequest, ...]:
    """The PCI requests of an InstancePCIRequests object, a mapping with a list `requests`, or a plain list."""
    if value is None:
        return ()
    if is_envelope(value) or isinstance(value, Mapping):
        value, where = open_record(value, "InstancePCIRequests", where).data.get("requests"), f"{where}.requests"
    return tuple(_pci_request(each, f"{where}[{at}]") for at, each in enumerate(listed(value, where)))


def _pci_request(value: Any, where: str) -> PciRequest:
    if isinstance(value, PciRequest):
        return value
    data = open_record(value, "InstancePCIRequest", where).data
    names = ("alias_name", "request_id", "requester_id", "numa_policy")
    texts = {name: OPTIONAL_TEXT.lenient(data.get(name), f"{where}.{name}") for name in names}
    request = make_record(
        PciRequest,
        where,
        count=AMOUNT.lenient(data.get("count", 1), f"{where}.count"),
        spec=_alternatives(data.get("spec"), f"{where}.spec"),
        is_from_port=texts["alias_name"] is None,
        **texts,
    )
    return store_unheld(request, data, where)


def _alternatives(value: Any, where: str) -> list[dict[str, Any]]:
    """Properties of the wanted devices: texts, lists of texts, or None for a key that a device must not have."""
    return [
        {
            name: _WANTED.lenient(each, f"{where}[{at}].{name}")
            for name, each in MAPPING.lenient(wanted, where).items()
        }
        for at, wanted in enumerate(listed(value, where))
    ]


def pci_requests_to_object(requests: Sequence[PciRequest], instance_uuid: str | None) -> dict[str, Any]:
    """The InstancePCIRequests object of an instance's PCI requests."""
    data: dict[str, Any] = {"requests": [_pci_to_object(each) for each in requests]}
    return close_envelope("InstancePCIRequests", data | ({"instance_uuid": instance_uuid} if instance_uuid else {}))


def _pci_to_object(request: PciRequest) -> dict[str, Any]:
    names = ("count", "alias_name", "request_id", "requester_id", "numa_policy")
    held = {name: getattr(request, name) for name in names} | {"spec": plain_alternatives(request)}
    defaults = dict.fromkeys(names)
    return close_envelope("InstancePCIRequest", fields_to_send(request, held, defaults))


def plain_alternatives(request: PciRequest) -> list[dict[str, Any]]:
    """The alternatives of a PCI request (wanted device properties) as JSON data."""
    return [
        {name: list(each) if isinstance(each, tuple) else each for name, each in wanted.items()}
        for wanted in request.spec
    ]
