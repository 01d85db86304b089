# SPDX-License-Identifier: Apache-2.0
"""The fields of a host in a fleet file: one table that parses them, publishes their schema and documents them."""

from __future__ import annotations

from roost.fleet.reported_values import INSTANCES, TRIPLES, CpuInfo, FreeRecords, Metrics, Stats
from roost.hosts.numa_cells import TOPOLOGY
from roost.hosts.pci import POOLS
from roost.hosts.record import INVENTORIES
from roost.model import Aggregate, Service
from roost.validation.containers import ListOf, PlainData
from roost.validation.field_table import Field, FieldTable
from roost.validation.kinds import MOST, OrNull, WholeNumber
from roost.validation.records import Record
from roost.validation.vocabulary import AMOUNT, FLAG, NAME, RATIO, TEXT, TRAITS

_ANY_WHOLE_NUMBER = WholeNumber(least=-MOST)


HOST_FIELDS: dict[str, Field] = {
    "host": Field(NAME, "service host name; node-[001-200] stands for 200 of them"),
    "node": Field(NAME, "hypervisor node name; the host's own by default"),
    "uuid": Field(NAME, "uuid of the node; made from the names by default"),
    "cell": Field(NAME, "name of its cell; cell1 by default"),
    "total_usable_ram_mb": Field(AMOUNT, "memory, MiB"),
    "free_ram_mb": Field(_ANY_WHOLE_NUMBER, "memory free, MiB; the total by default; may be negative"),
    "total_usable_disk_gb": Field(AMOUNT, "local disk, GiB"),
    "free_disk_mb": Field(_ANY_WHOLE_NUMBER, "local disk free, MiB; the total by default; may be negative"),
    "vcpus_total": Field(AMOUNT, "physical CPUs"),
    "vcpus_used": Field(AMOUNT, "virtual CPUs given out"),
    "cpu_allocation_ratio": Field(RATIO, "virtual CPUs per physical one; 4.0 by default"),
    "ram_allocation_ratio": Field(RATIO, "overcommit of memory; 1.0 by default"),
    "disk_allocation_ratio": Field(RATIO, "overcommit of disk; 1.0 by default"),
    "reserved_vcpus": Field(AMOUNT, "physical CPUs kept for the host"),
    "reserved_ram_mb": Field(AMOUNT, "memory kept for the host, MiB"),
    "reserved_disk_gb": Field(AMOUNT, "disk kept for the host, GiB"),
    "num_instances": Field(AMOUNT, "instances on the host; as many as are listed by default"),
    "num_io_ops": Field(AMOUNT, "I/O-heavy operations running"),
    "failed_builds": Field(AMOUNT, "builds that failed in a row"),
    "hypervisor_type": Field(OrNull(TEXT), "QEMU by default; an ironic node is given out whole"),
    "hypervisor_version": Field(OrNull(AMOUNT, unset=0), "an integer: 8002000 is 8.2.0"),
    "host_ip": Field(OrNull(TEXT), "address of the host"),
    "supported_instances": Field(TRIPLES, "list of [arch, hypervisor, mode]"),
    "cpu_info": Field(CpuInfo(), "what the agent says of the CPU"),
    "cpu_info_is_dict": Field(FLAG, "hand cpu_info to filters as a mapping, not as text"),
    "stats": Field(Stats(), "free-form figures of the agent"),
    "metrics": Field(OrNull(Metrics()), "list of {name, value}"),
    "service": Field(Record(Service), "{disabled, disabled_reason, forced_down, up or seconds_since_seen}"),
    "aggregates": Field(
        ListOf(Record(Aggregate), remedy="write [ ... ] or - entries"), "aggregates it is in, besides the file's own"
    ),
    "instances": Field(INSTANCES, "uuids, or {uuid, project_id, flavor_id, image_props, resources}"),
    "traits": Field(TRAITS, "names of its traits"),
    "trust_level": Field(TEXT, "what an attestation service says of it: trusted, untrusted or unknown"),
    "resources": Field(INVENTORIES, "class -> {total, reserved, allocation_ratio, min_unit, max_unit, step_size}"),
    "pci_pools": Field(PlainData(then=POOLS), "list of {vendor_id, product_id, count, ...}"),
    "numa": Field(OrNull(TOPOLOGY), "{cells: [{id, cpuset, memory, ...}]}"),
    "allocation_candidates": Field(FreeRecords(), "list of {mappings}"),
}

HOST = FieldTable(
    HOST_FIELDS,
    required={"host": "every host has a name"},
    mismatch="is not a host",
    remedy="write host: NAME",
    unshared=("instances",),
)
"""One entry of the section `hosts`."""
