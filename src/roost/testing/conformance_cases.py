# SPDX-License-Identifier: Apache-2.0
"""Parses the hosts and the request of a conformance case, with the defaults of the conformance format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roost.hosts import HostRecord, HostTable
from roost.hosts.arrays import RowArray
from roost.model import RequestSpec
from roost.model.json_records import request_from_json
from roost.model.numa import derive_topology
from roost.sources.fields import HOST_FIELDS

_DEFAULTS: dict[str, Any] = {
    "free_ram_mb": 0,
    "free_disk_mb": 0,
    "vcpus_used": 0,
    "cpu_allocation_ratio": 16.0,
    "ram_allocation_ratio": 1.5,
    "disk_allocation_ratio": 1.0,
    "host_ip": "10.0.0.1",
}
_COUNTERS = {"num_instances": "num_instances", "num_io_ops": "io_workload", "failed_builds": "failed_builds"}
_REQUEST_NAMES = {"group": "instance_group"}


def build_table(hosts: Sequence[Mapping[str, Any]], service_down_time: int) -> tuple[HostTable, RowArray]:
    """The table of a case, and its rows in the order in which the case lists the hosts."""
    records = [build_record(host) for host in hosts]
    table = HostTable.of(records)
    up = [record.service.is_up(service_down_time) for record in records]
    rows = np.array([table.find_row((record.host, record.nodename)) for record in records], dtype=np.intp)
    table.writable_column("is_up")[rows] = up
    table.writable_column("is_bare_metal")[:] = False  # today's nova uses resource classes for bare metal
    return table, rows


def build_record(host: Mapping[str, Any]) -> HostRecord:
    """The record of one host. Counters that are not given are read from `stats`, as in nova, else 0."""
    values = dict(_DEFAULTS)
    for name, value in host.items():
        if value is None and name not in ("metrics", "cpu_info", "numa", "host_ip", "hypervisor_type"):
            continue
        values[name] = None if value is None else HOST_FIELDS[name].kind.strict(value, name)
    values.pop("cpu_info_is_dict", None)
    for counter, stat in _COUNTERS.items():
        values.setdefault(counter, int(values.get("stats", {}).get(stat, 0)))
    return HostRecord(**values)


def build_request(request: Mapping[str, Any]) -> RequestSpec:
    """The request of a case. Fields with other names in the format are renamed, null fields take their defaults."""
    plain = {_REQUEST_NAMES.get(name, name): value for name, value in request.items() if value is not None}
    plain.pop("instance_uuids", None)
    is_derived = plain.get("numa_topology") == "auto" and plain.pop("numa_topology")
    spec = request_from_json(plain)
    if is_derived:
        return replace(spec, numa_topology=derive_topology(spec.flavor, spec.image))
    return spec
