# SPDX-License-Identifier: Apache-2.0
"""Generates the hosts and requests that nova and Roost are compared on, in the conformance format.

tests/conformance/FORMAT.md describes the fields. Equal seeds give equal records.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from benchmarks.inputs import make_requests
from benchmarks.workload import Requests

SERVICE_DOWN_TIME = 50_000
"""Seconds; longer than any run, so that a host that is up at the start is up at the end."""

DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
FILTERS = {
    "default": DEFAULT_FILTERS,
    "14": (
        *DEFAULT_FILTERS,
        "AggregateInstanceExtraSpecsFilter",
        "AggregateMultiTenancyIsolation",
        "AggregateTypeAffinityFilter",
        "AggregateImagePropertiesIsolation",
        "NumInstancesFilter",
        "IoOpsFilter",
        "DifferentHostFilter",
        "SameHostFilter",
        "PciPassthroughFilter",
    ),
}
"""Name of a set -> enabled filters: the defaults of nova 34, and these with nine more."""

WEIGHERS = (
    "BuildFailureWeigher",
    "CPUWeigher",
    "CrossCellWeigher",
    "DiskWeigher",
    "HypervisorVersionWeigher",
    "ImagePropertiesWeigher",
    "IoOpsWeigher",
    "MetricsWeigher",
    "NumInstancesWeigher",
    "PCIWeigher",
    "RAMWeigher",
    "ServerGroupSoftAffinityWeigher",
    "ServerGroupSoftAntiAffinityWeigher",
)
"""All weighers of nova, in the order in which weights are summed: another order would change the last bits."""

_HYPERVISORS = (
    (60, "QEMU", 8002000, [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]),
    (20, "QEMU", 6002000, [["x86_64", "kvm", "hvm"]]),
    (8, "QEMU", 8002000, [["aarch64", "kvm", "hvm"]]),
    (7, "VMware vCenter Server", 7000003, [["x86_64", "vmware", "hvm"]]),
    (5, "ironic", 1, [["x86_64", "baremetal", "hvm"]]),
)
"""Share of the fleet, type, version, supported instances."""

_SOMETIMES = (
    (0.05, {"name": "tenant", "id": 12, "metadata": {"filter_tenant_id": "another-project"}}),
    (0.05, {"name": "windows", "id": 13, "metadata": {"os_distro": "windows"}}),
    (0.05, {"name": "large-only", "id": 14, "metadata": {"instance_type": "x1.large"}}),
    (0.10, {"name": "cpu-counts-twice", "id": 15, "metadata": {"cpu_weight_multiplier": "2.0"}}),
)
"""Aggregates with the probability that a host is a member."""


def make_hosts(count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """The hosts, sorted by name."""
    randomness = random.Random(seed)
    for number in range(count):
        yield {
            "host": f"cmp{number:06d}",
            "node": f"cmp{number:06d}",
            "host_ip": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            **_hypervisor(randomness),
            **_resources(randomness),
            "failed_builds": int(randomness.random() < 0.05),
            "service": {"disabled": randomness.random() < 0.03, "up": randomness.random() > 0.03},
            "aggregates": list(_aggregates(number, randomness)),
            "instances": [instance_uuid("1", number, at) for at in range(randomness.randint(0, 2))],
            **_devices(randomness),
        }


def _hypervisor(randomness: random.Random) -> dict[str, Any]:
    [(_, kind, version, supported)] = randomness.choices(_HYPERVISORS, [each[0] for each in _HYPERVISORS])
    return {"hypervisor_type": kind, "hypervisor_version": version, "supported_instances": supported}


def _resources(randomness: random.Random) -> dict[str, Any]:
    """Totals, ratios and free amounts; 15 % of the hosts are full."""
    memory_mb = randomness.choice([65536, 131072, 262144, 524288])
    cpus = randomness.choice([16, 32, 64, 128])
    disk_gb = randomness.choice([500, 1000, 4000])
    cpu_ratio = randomness.choice([4.0, 16.0])
    is_full = randomness.random() < 0.15
    return {
        "total_usable_ram_mb": memory_mb,
        "free_ram_mb": randomness.randint(0, 256 if is_full else memory_mb),
        "total_usable_disk_gb": disk_gb,
        "free_disk_mb": 1024 * (0 if is_full else randomness.randint(40, disk_gb)),
        "vcpus_total": cpus,
        "vcpus_used": int(cpus * cpu_ratio) if is_full else randomness.randint(0, cpus * 4),
        "cpu_allocation_ratio": cpu_ratio,
        "ram_allocation_ratio": randomness.choice([1.0, 1.5]),
        "disk_allocation_ratio": 1.0,
        "num_instances": 60 if is_full else randomness.randint(0, 52),
        "num_io_ops": randomness.choice([0, 0, 0, 1, 2, 5, 9]),
        "cpu_info": {
            "arch": "x86_64",
            "model": "Skylake",
            "topology": {"cores": cpus // 2, "threads": 2, "sockets": 1},
            "features": ["avx", "avx2", "vmx"],
        },
    }


def _aggregates(number: int, randomness: random.Random) -> Iterator[dict[str, Any]]:
    """The aggregates of a host: one of three zones, one of two disk types, and sometimes further ones."""
    zone = number % 3
    yield {"name": f"az{zone}", "id": 1 + zone, "metadata": {"availability_zone": f"az{zone}"}}
    has_ssd = randomness.random() < 0.7
    yield {"name": f"ssd-{has_ssd}", "id": 10 + has_ssd, "metadata": {"ssd": str(has_ssd).lower()}}
    for chance, aggregate in _SOMETIMES:
        if randomness.random() < chance:
            yield aggregate


def _devices(randomness: random.Random) -> dict[str, Any]:
    if randomness.random() >= 0.1:
        return {}
    pool = {"vendor_id": "8086", "product_id": "154c", "numa_node": None, "count": 8, "dev_type": "type-VF"}
    return {"pci_pools": [pool]}


def instance_uuid(kind: str, number: int, at: int = 0) -> str:
    """A reproducible uuid; kind `1` is for existing instances, kind `2` for instances to be placed."""
    return f"{number:08x}-000{kind}-4000-8000-{at:012x}"


def make_request_records(filters: str, count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Requests with sizes drawn from the trace, with properties that the enabled filters evaluate."""
    extra_specs = {"capabilities:hypervisor_type": "QEMU"}
    hints = {}
    if filters != "default":
        extra_specs["aggregate_instance_extra_specs:ssd"] = "true"
        hints["different_host"] = [instance_uuid("1", 4)]  # its host would do otherwise
    drawn = make_requests(Requests(count, "azure_v1_sizes.csv", root_gb=20), seed)
    return [
        {
            "instance_uuid": instance_uuid("2", number),
            "project_id": "a-project",
            "user_id": "a-user",
            "flavor": {
                "id": 1,
                "name": f"{spec.flavor.vcpus}x{spec.flavor.memory_mb}",
                "vcpus": spec.flavor.vcpus,
                "memory_mb": spec.flavor.memory_mb,
                "root_gb": spec.flavor.root_gb,
                "extra_specs": extra_specs,
            },
            "image": {
                "id": instance_uuid("3", 0),
                "properties": {"hw_architecture": "x86_64", "os_distro": "debian"},
            },
            "scheduler_hints": hints,
        }
        for number, spec in enumerate(drawn)
    ]
