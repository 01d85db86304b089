# SPDX-License-Identifier: Apache-2.0
"""The fields of a host in a fleet file: the table behind the parser, the published schema and the reference page."""

from __future__ import annotations

from roost.fleet.reported_values import (
    ALLOCATIONS,
    INSTANCES,
    MIGRATIONS,
    TRIPLES,
    CpuInfo,
    FreeRecords,
    MetricList,
    Stats,
)
from roost.hosts.numa_cells import TOPOLOGY
from roost.hosts.pci import POOLS
from roost.hosts.record import INVENTORIES
from roost.model import Aggregate, Service
from roost.model.field_table import Field, FieldTable
from roost.model.fields import AMOUNT, FLAG, NAME, RATIO, TEXT, TRAITS, ListOf, PlainData, Record
from roost.model.kinds import MOST, OrNull, WholeNumber
from roost.model.uuids import NodeUuid

_ANY_WHOLE_NUMBER = WholeNumber(least=-MOST)


HOST_FIELDS: dict[str, Field] = {
    "host": Field(NAME, "service host name; node-[001-200] expands to 200 names"),
    "node": Field(NAME, "hypervisor node name; the host name by default"),
    "uuid": Field(NodeUuid(), "uuid of the node; derived from host and node name by default"),
    "cell": Field(NAME, "name of its nova cell; cell1 by default"),
    "total_usable_ram_mb": Field(AMOUNT, "memory, MiB"),
    "free_ram_mb": Field(_ANY_WHOLE_NUMBER, "free memory, MiB; the total by default; may be negative"),
    "total_usable_disk_gb": Field(AMOUNT, "local disk, GiB"),
    "free_disk_mb": Field(_ANY_WHOLE_NUMBER, "free local disk, MiB; the total by default; may be negative"),
    "disk_mb_used": Field(_ANY_WHOLE_NUMBER, "used local disk, MiB; by default all that is not free"),
    "vcpus_total": Field(AMOUNT, "physical CPUs"),
    "vcpus_used": Field(AMOUNT, "virtual CPUs allocated"),
    "cpu_allocation_ratio": Field(RATIO, "virtual CPUs per physical CPU; 4.0 by default"),
    "ram_allocation_ratio": Field(RATIO, "overcommit ratio of memory; 1.0 by default"),
    "disk_allocation_ratio": Field(RATIO, "overcommit ratio of disk; 1.0 by default"),
    "reserved_vcpus": Field(AMOUNT, "physical CPUs reserved for the host"),
    "reserved_ram_mb": Field(AMOUNT, "memory reserved for the host, MiB"),
    "reserved_disk_gb": Field(AMOUNT, "disk reserved for the host, GiB"),
    "num_instances": Field(AMOUNT, "instances on the host; by default the number in `instances`"),
    "num_io_ops": Field(AMOUNT, "I/O-heavy operations running"),
    "failed_builds": Field(AMOUNT, "consecutive failed builds"),
    "hypervisor_type": Field(OrNull(TEXT), "QEMU by default; an ironic node is allocated as a whole"),
    "hypervisor_version": Field(OrNull(AMOUNT, unset=0), "an integer: 8002000 is 8.2.0"),
    "host_ip": Field(OrNull(TEXT), "address of the host"),
    "supported_instances": Field(TRIPLES, "list of [arch, hypervisor, mode]"),
    "cpu_info": Field(CpuInfo(), "CPU description reported by the agent"),
    "cpu_info_is_dict": Field(FLAG, "pass cpu_info to filters as a mapping, not as text"),
    "stats": Field(Stats(), "free-form statistics of the agent"),
    "metrics": Field(OrNull(MetricList()), "list of {name, value}"),
    "service": Field(Record(Service), "{disabled, disabled_reason, forced_down, up or seconds_since_seen}"),
    "aggregates": Field(
        ListOf(Record(Aggregate), remedy="write [ ... ] or - entries"),
        "aggregates it is in, in addition to the section `aggregates`",
    ),
    "instances": Field(
        INSTANCES, "uuids, or {uuid, project_id, flavor_id or flavor, image_props, resources, created_at, ...}"
    ),
    "migrations": Field(
        MIGRATIONS, "what migrations hold there, beside the instances: list of {uuid, instance, resources}"
    ),
    "traits": Field(TRAITS, "trait names"),
    "trust_level": Field(TEXT, "result of the attestation service: trusted, untrusted or unknown"),
    "resources": Field(INVENTORIES, "class -> {total, reserved, allocation_ratio, min_unit, max_unit, step_size}"),
    "allocations": Field(ALLOCATIONS, "class -> amount allocated; by default all that is neither free nor reserved"),
    "pci_pools": Field(PlainData(then=POOLS), "list of {vendor_id, product_id, count, ...}"),
    "numa": Field(OrNull(TOPOLOGY), "{cells: [{id, cpuset, memory, ...}]}"),
    "allocation_candidates": Field(FreeRecords(), "list of {mappings}"),
}

HOST = FieldTable(
    HOST_FIELDS,
    required={"host": "every host has a name"},
    mismatch="is not a host",
    remedy="write host: NAME",
    unshared=("instances", "migrations"),
)
"""The kind of an entry of the section `hosts`."""
