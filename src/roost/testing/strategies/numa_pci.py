# SPDX-License-Identifier: Apache-2.0
"""Strategies of NUMA topologies and PCI devices: of hosts, and of requests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from roost.hosts.numa_cells import HostTopology, host_topology_from_json
from roost.hosts.pci import Pool, pools_from_json
from roost.model import Flavor, Image, RequestSpec
from roost.model.cpu_policy import NumaRequestError
from roost.model.numa import derive_topology
from roost.model.pci import PCI_POLICIES, PciRequest

DEVICES = ({"vendor_id": "10de", "product_id": "1eb8"}, {"vendor_id": "8086", "product_id": "154C"})
PROVIDERS = ("p1", "p2", "p3")


@st.composite
def host_topologies(draw: Any) -> HostTopology:
    """The NUMA topology of a host: one to three NUMA cells, with or without SMT.

    Shared and dedicated CPUs are the same set (the legacy style) or disjoint.
    """
    style, threads = draw(st.sampled_from(["legacy", "split"])), draw(st.booleans())
    cells = []
    for number in range(draw(st.integers(1, 3))):
        cpus = range(10 * number, 10 * number + draw(st.sampled_from([2, 4])))
        dedicated = cpus if style == "legacy" else cpus[: len(cpus) // 2]
        shared = cpus if style == "legacy" else cpus[len(cpus) // 2 :]
        half = len(dedicated) // 2
        pairs = [[dedicated[at], dedicated[at + half]] for at in range(half)]
        cores = pairs if threads and half else [[cpu] for cpu in dedicated]
        cells.append(
            {
                "id": number,
                "cpuset": list(shared),
                "pcpuset": list(dedicated),
                "siblings": draw(st.sampled_from([cores, cores, []])),
                "pinned_cpus": draw(st.sampled_from([[], [], list(dedicated[:1]), list(dedicated[half:])])),
                "memory": draw(st.sampled_from([512, 1024, 4096])),
                "cpu_usage": draw(st.integers(0, 5)),
                "memory_usage": draw(st.sampled_from([0, 0, 256, 1024])),
                "mempages": draw(st.sampled_from(_PAGES)),
                "socket": draw(st.sampled_from([None, 0, 1])),
            }
        )
    return host_topology_from_json({"cells": cells})


_PAGES: tuple[list[dict[str, int]], ...] = (
    [],
    [{"size_kb": 4, "total": 262144}],
    [{"size_kb": 4, "total": 131072, "used": 100000}, {"size_kb": 2048, "total": 256, "used": 128}],
    [{"size_kb": 2048, "total": 512, "reserved": 256}, {"size_kb": 4, "total": 65536}],
)


@st.composite
def pci_pools(draw: Any) -> tuple[Pool, ...]:
    """Pools of free PCI devices; with resource providers, one pool per provider."""
    providers = draw(st.sampled_from([(), PROVIDERS]))
    pools = []
    for number in range(draw(st.integers(0, 3))):
        pool = dict(draw(st.sampled_from(DEVICES))) | {"count": draw(st.integers(0, 3))}
        pool["numa_node"] = draw(st.sampled_from([None, 0, 1]))
        tags = {
            "dev_type": st.sampled_from(["type-PCI", "type-PF", "type-VF", "vdpa"]),
            "physical_network": st.sampled_from(["physnet1", "PhysNet1"]),
            "remote_managed": st.sampled_from(["true", "false"]),
            "live_migratable": st.sampled_from(["true", "false"]),
        }
        pool |= draw(st.fixed_dictionaries({}, optional=tags))
        if providers:
            pool["rp_uuid"] = providers[number]
        pools.append(pool)
    return pools_from_json(pools)


@st.composite
def allocation_candidates(draw: Any) -> tuple[dict[str, Any], ...]:
    """Half the time one candidate without mappings; else up to three, with providers for the requests r1 and r2."""
    if draw(st.booleans()):
        return ({"mappings": {}},)
    groups = st.fixed_dictionaries(
        {}, optional={group: st.sampled_from([[each] for each in PROVIDERS]) for group in ("r1-0", "r1-1", "r2-0")}
    )
    return tuple({"mappings": each} for each in draw(st.lists(groups, max_size=3)))


_NODES = st.sampled_from(["1", "2", "3"])
_PAGE_SIZES = st.sampled_from(["small", "large", "any", "2048", "4", "1048576"])
_SHARED_CPUS = st.fixed_dictionaries({"hw:numa_nodes": _NODES}, optional={"hw:mem_page_size": _PAGE_SIZES})
_DEDICATED_CPUS = st.fixed_dictionaries(
    {"hw:cpu_policy": st.just("dedicated")},
    optional={
        "hw:numa_nodes": _NODES,
        "hw:cpu_thread_policy": st.sampled_from(["prefer", "require", "isolate"]),
        "hw:mem_page_size": _PAGE_SIZES,
        "hw:emulator_threads_policy": st.sampled_from(["share", "isolate"]),
    },
)
_MIXED_CPUS = st.fixed_dictionaries(
    {"hw:cpu_policy": st.just("mixed"), "hw:cpu_dedicated_mask": st.sampled_from(["^0", "1", "0"])},
    optional={"hw:numa_nodes": _NODES, "hw:cpu_thread_policy": st.sampled_from(["prefer", "require", "isolate"])},
)
_UNEVEN = {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0", "hw:numa_mem.0": "256"}
_NO_TOPOLOGY = st.sampled_from([{}, {"hw:cpu_thread_policy": "require"}, {"hw:cpu_policy": "shared"}])

NUMA_EXTRA_SPECS: st.SearchStrategy[dict[str, str]] = st.one_of(
    _SHARED_CPUS, _DEDICATED_CPUS, _MIXED_CPUS, st.just(_UNEVEN), _NO_TOPOLOGY
)
"""Extra specs of which most request a NUMA topology."""

PCI_REQUESTS: st.SearchStrategy[tuple[PciRequest, ...]] = st.lists(
    st.builds(
        PciRequest,
        count=st.sampled_from([0, 1, 1, 2]),
        spec=st.lists(
            st.one_of(
                st.sampled_from(DEVICES),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "vendor_id": st.sampled_from(["10DE", "8086"]),
                        "dev_type": st.sampled_from(["type-PF", "type-VF", "vdpa"]),
                        "physical_network": st.just("physnet1"),
                        "remote_managed": st.sampled_from(["true", "false"]),
                        "live_migratable": st.sampled_from(["true", "false"]),
                        "resource_class": st.just("CUSTOM_GPU"),
                    },
                ),
            ),
            max_size=2,
        ),
        numa_policy=st.sampled_from([None, *PCI_POLICIES]),
        request_id=st.sampled_from([None, "r1", "r2"]),
    ),
    max_size=2,
).map(tuple)


@st.composite
def numa_specs(draw: Any) -> RequestSpec:
    """A request with the NUMA topology derived from its extra specs, if they request one, and PCI requests."""
    extra = draw(NUMA_EXTRA_SPECS)
    nodes = int(extra.get("hw:numa_nodes", 1))
    vcpus = nodes * draw(st.sampled_from([1, 2, 3]))
    memory_mb = nodes * draw(st.sampled_from([128, 256, 512, 768, 1024, 1025]))
    if "hw:numa_cpus.0" in extra:
        extra = extra | {"hw:numa_cpus.1": f"1-{vcpus - 1}", "hw:numa_mem.1": str(max(0, memory_mb - 256))}
    flavor = Flavor(vcpus, memory_mb, extra_specs=extra)
    image = draw(st.sampled_from([None, {}, {"hw_cpu_thread_policy": "require"}, {"hw_cpu_policy": "dedicated"}]))
    image = None if image is None else Image(properties=image)
    try:
        topology = derive_topology(flavor, image)
    except NumaRequestError:
        topology = None
    return RequestSpec(flavor=flavor, image=image, numa_topology=topology, pci_requests=draw(PCI_REQUESTS))
