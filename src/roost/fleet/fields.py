# SPDX-License-Identifier: Apache-2.0
"""The fields of a host in a fleet file: one table that checks them, publishes their schema and documents them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from roost.fleet import field_parsers as takers
from roost.fleet import schema_parts as schema
from roost.model import checks

Taker = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Field:
    """How one field is taken from a file, its JSON schema, and what it means."""

    take: Taker
    schema: Mapping[str, Any]
    meaning: str


def _whole(meaning: str) -> Field:
    return Field(checks.whole_number, schema.AMOUNT, meaning)


def _free(meaning: str) -> Field:
    least = -checks.MOST
    return Field(partial(checks.whole_number, least=least), {**schema.AMOUNT, "minimum": least}, meaning)


def _ratio(meaning: str) -> Field:
    return Field(partial(checks.number, least=0, most=takers.LARGEST_RATIO), schema.RATIO, meaning)


def _name(meaning: str) -> Field:
    return Field(checks.name, schema.TEXT, meaning)


def _text(meaning: str) -> Field:
    return Field(checks.text, schema.TEXT, meaning)


def _or_unknown(field: Field, unknown: Any = None) -> Field:
    """The same, where null says that nobody knows."""

    def take(value: Any, name: str) -> Any:
        return unknown if value is None else field.take(value, name)

    return Field(take, {**field.schema, "type": [field.schema["type"], "null"]}, field.meaning)


HOST_FIELDS: dict[str, Field] = {
    "host": _name("service host name; node-[001-200] stands for 200 of them"),
    "node": _name("hypervisor node name; the host's own by default"),
    "uuid": _name("uuid of the node; made from the names by default"),
    "cell": _name("name of its cell; cell1 by default"),
    "total_usable_ram_mb": _whole("memory, MiB"),
    "free_ram_mb": _free("memory free, MiB; the total by default; may be negative"),
    "total_usable_disk_gb": _whole("local disk, GiB"),
    "free_disk_mb": _free("local disk free, MiB; the total by default; may be negative"),
    "vcpus_total": _whole("physical CPUs"),
    "vcpus_used": _whole("virtual CPUs given out"),
    "cpu_allocation_ratio": _ratio("virtual CPUs per physical one; 4.0 by default"),
    "ram_allocation_ratio": _ratio("overcommit of memory; 1.0 by default"),
    "disk_allocation_ratio": _ratio("overcommit of disk; 1.0 by default"),
    "reserved_vcpus": _whole("physical CPUs kept for the host"),
    "reserved_ram_mb": _whole("memory kept for the host, MiB"),
    "reserved_disk_gb": _whole("disk kept for the host, GiB"),
    "num_instances": _whole("instances on the host; as many as are listed by default"),
    "num_io_ops": _whole("I/O-heavy operations running"),
    "failed_builds": _whole("builds that failed in a row"),
    "hypervisor_type": _or_unknown(_text("QEMU by default; an ironic node is given out whole")),
    "hypervisor_version": _or_unknown(_whole("an integer: 8002000 is 8.2.0"), unknown=0),
    "host_ip": _or_unknown(_text("address of the host")),
    "supported_instances": Field(takers.take_triples, schema.TRIPLES, "list of [arch, hypervisor, mode]"),
    "cpu_info": Field(takers.take_cpu_info, {"type": ["object", "string", "null"]}, "what the agent says of the CPU"),
    "cpu_info_is_dict": Field(checks.flag, {"type": "boolean"}, "hand cpu_info to filters as a mapping, not as text"),
    "stats": Field(takers.take_stats, schema.STATS, "free-form figures of the agent"),
    "metrics": Field(takers.take_metrics, schema.METRICS, "list of {name, value}"),
    "service": Field(
        takers.take_service, schema.SERVICE, "{disabled, disabled_reason, forced_down, up or seconds_since_seen}"
    ),
    "aggregates": Field(
        takers.take_aggregates, schema.list_of(schema.AGGREGATE), "aggregates it is in, besides the file's own"
    ),
    "instances": Field(
        takers.take_instances,
        schema.INSTANCES,
        "uuids, or {uuid, project_id, flavor_id, image_props, resources}",
    ),
    "traits": Field(takers.take_traits, schema.TRAITS, "names of its traits"),
    "trust_level": _text("what an attestation service says of it: trusted, untrusted or unknown"),
    "resources": Field(
        takers.take_resources,
        schema.RESOURCES,
        "class -> {total, reserved, allocation_ratio, min_unit, max_unit, step_size}",
    ),
    "pci_pools": Field(takers.take_pci_pools, schema.PCI_POOLS, "list of {vendor_id, product_id, count, ...}"),
    "numa": Field(takers.take_numa, schema.NUMA, "{cells: [{id, cpuset, memory, ...}]}"),
    "allocation_candidates": Field(takers.take_records, schema.CANDIDATES, "list of {mappings}"),
}
