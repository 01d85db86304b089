# SPDX-License-Identifier: Apache-2.0
"""Generated tables and requests, for hypothesis (which plugin authors install themselves)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from roost.hosts import HostRecord, HostTable, Instance
from roost.hosts.numa import HostTopology, host_topology_from_json
from roost.hosts.pci import Pool, pools_from_json
from roost.model import Aggregate, Flavor, Image, RequestSpec, Retry, ServerGroup, Service
from roost.model.group import GROUP_POLICIES
from roost.model.numa import NumaRequestError, derive_topology
from roost.model.pci import PCI_POLICIES, PciRequest

ZONES = ("az1", "az2", "nova", "")
RATIOS = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 16.0])
METADATA = st.dictionaries(
    st.sampled_from(["availability_zone", "ssd", "ram_weight_multiplier", "cpu_weight_multiplier", "other"]),
    st.sampled_from(["az1", "az1,az2", "az2 , nova", "true", "2", "-1.5", "bogus", ""]),
    max_size=3,
)
SERVICES = st.builds(
    Service,
    disabled=st.booleans(),
    forced_down=st.booleans(),
    up=st.sampled_from([None, True, False]),
    seconds_since_seen=st.sampled_from([None, 0.0, 60.0, 61.0, -61.0]),
)


@st.composite
def host_records(draw: Any, name: str = "host", pool: list[Aggregate] | None = None) -> HostRecord:
    """One host; free amounts may be negative and above the total."""
    ram_mb, disk_gb = draw(st.integers(0, 4096)), draw(st.integers(0, 50))
    aggregates = pool if pool is not None else [Aggregate("a", draw(METADATA), id=1)]
    return HostRecord(
        host=name,
        node=draw(st.sampled_from(["", "n1", "n2"])),
        total_usable_ram_mb=ram_mb,
        free_ram_mb=draw(st.integers(-1024, 4096)),
        total_usable_disk_gb=disk_gb,
        free_disk_mb=draw(st.integers(-2048, 51200)),
        vcpus_total=draw(st.integers(0, 8)),
        vcpus_used=draw(st.integers(0, 20)),
        cpu_allocation_ratio=draw(RATIOS),
        ram_allocation_ratio=draw(RATIOS),
        disk_allocation_ratio=draw(RATIOS),
        num_instances=draw(st.integers(0, 60)),
        num_io_ops=draw(st.integers(0, 10)),
        service=draw(SERVICES),
        aggregates=tuple(draw(st.lists(st.sampled_from(aggregates), unique_by=lambda each: each.id, max_size=3))),
    )


@st.composite
def host_tables(draw: Any, min_size: int = 1, max_size: int = 8) -> HostTable:
    """A table; hosts share a few aggregates, as they do in life."""
    pool = [Aggregate(f"agg{number}", draw(METADATA), id=number) for number in range(1, 4)]
    count = draw(st.integers(min_size, max_size))
    return HostTable.of([draw(host_records(f"host{number}", pool)) for number in range(count)])


@st.composite
def specs(draw: Any, max_instances: int = 1) -> RequestSpec:
    """A request of a size that some generated hosts can take."""
    tried = st.tuples(st.sampled_from(["host0", "host1", "host9"]), st.sampled_from(["n1", "n2", "host0"]))
    return RequestSpec(
        flavor=Flavor(
            vcpus=draw(st.integers(1, 8)),
            memory_mb=draw(st.integers(0, 2048)),
            root_gb=draw(st.integers(0, 20)),
            ephemeral_gb=draw(st.integers(0, 5)),
            swap=draw(st.sampled_from([0, 1, 512, 1024, 1500])),
        ),
        num_instances=draw(st.integers(1, max_instances)),
        availability_zone=draw(st.sampled_from([None, *ZONES])),
        retry=draw(st.one_of(st.none(), st.builds(Retry, hosts=st.lists(tried, max_size=3)))),
    )


# --- tables with just the columns that a rule reads ------------------------------------------------

METADATA_VALUES: dict[str, list[str]] = {
    "availability_zone": ["az1", "az1,az2", "nova", ""],
    "cpu_allocation_ratio": ["1", "2.0", " 3 ", "16", "1e1", "0", "-1", "x", "1,2", "nan", "inf", ""],
    "ram_allocation_ratio": ["0.5", "1.0", "1.5", "2", "XXX", "1,5", "nan", "inf", "-inf"],
    "disk_allocation_ratio": ["0.5", "1.0", "1.5", "2", "many", "1_0", "inf"],
    "max_io_ops_per_host": ["0", "5", "9", "10", " 8 ", "+7", "-1", "XX", "9,10", "7.5", "", "9" * 30],
    "max_instances_per_host": ["1", "2", "10", "50", "x", "2,10", "٣"],
    "filter_tenant_id": ["p1", "p2", "p2, p1", "", " p1 "],
    "filter_tenant_id2": ["p1", "p3"],
    "filter_tenant_idX": ["p9"],
    "instance_type": ["m1", "m2, m1", "m2", "", "M1"],
    "os_distro": ["windows", "linux", "linux, windows", "Windows", ""],
    "hw_architecture": ["x86_64", "amd64", "aarch64"],
    "architecture": ["amd64"],
    "hw_boot_menu": ["true", "True", "False"],
    "hw_cpu_cores": ["4", "8", "4, 8"],
    "ssd": ["true", "false, true", "a,b", "", "a"],
    "n": ["1", "7", "1,7", "x", "nan", ""],
    "b:c": ["1", "2"],
    "other": ["1", "x"],
}
"""Metadata keys that some filter reads -> values, good and bad."""

CPU_INFO = (
    '{"arch": "x86_64", "features": ["sse", "avx2"], "topology": {"cores": 8}, "maxphysaddr": {"bits": 46}}',
    '{"arch": "aarch64", "maxphysaddr": {"bits": 39.5}}',
    '{"maxphysaddr": {"bits": "wide"}}',
    '{"maxphysaddr": {"bits": Infinity}}',
    '{"maxphysaddr": 46}',
    "bad{",
    "",
    "[]",
    '"x86_64"',
    None,
)
ADDRESSES = ("10.4.7.9", "10.4.7.200", "10.4.8.1", "fd00::5", "fd00::6:1")
DEVICES = ({"vendor_id": "10de", "product_id": "1eb8"}, {"vendor_id": "8086", "product_id": "154C"})
PROVIDERS = ("p1", "p2", "p3")
TRIPLES = tuple(
    (architecture, hypervisor, mode)
    for architecture in ("x86_64", "aarch64", "i686")
    for hypervisor in ("kvm", "xen", "qemu")
    for mode in ("hvm", "xen")
)
UUIDS = ("u1", "u2", "u3", "u4", "u5")


def rarely(odd: st.SearchStrategy[Any], else_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The first, one time in ten or so."""
    return st.sampled_from(range(10)).flatmap(lambda dice: odd if dice == 9 else else_)


def metadata(keys: Iterable[str]) -> st.SearchStrategy[dict[str, str]]:
    """Metadata of one aggregate, with some of these keys and sometimes another."""
    one = {key: st.sampled_from(METADATA_VALUES[key]) for key in (*keys, "other")}
    return st.fixed_dictionaries({}, optional=one)


@st.composite
def host_topologies(draw: Any) -> HostTopology:
    """The NUMA cells of a host: one to three, in the old style or the new, with threads or without."""
    style, threads = draw(st.sampled_from(["legacy", "split"])), draw(st.booleans())
    cells = []
    for number in range(draw(st.integers(1, 3))):
        cpus = range(10 * number, 10 * number + draw(st.sampled_from([2, 4])))
        own = cpus if style == "legacy" else cpus[: len(cpus) // 2]
        shared = cpus if style == "legacy" else cpus[len(cpus) // 2 :]
        half = len(own) // 2
        cores = [[own[at], own[at + half]] for at in range(half)] if threads and half else [[cpu] for cpu in own]
        cells.append(
            {
                "id": number,
                "cpuset": list(shared),
                "pcpuset": list(own),
                "siblings": draw(st.sampled_from([cores, cores, []])),
                "pinned_cpus": draw(st.sampled_from([[], [], list(own[:1]), list(own[half:])])),
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
    """Free devices; each provider has one pool."""
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
    """Mostly one that says nothing; else some that name a provider for each device of the requests r1 and r2."""
    if draw(st.booleans()):
        return ({"mappings": {}},)
    groups = st.fixed_dictionaries(
        {}, optional={group: st.sampled_from([[each] for each in PROVIDERS]) for group in ("r1-0", "r1-1", "r2-0")}
    )
    return tuple({"mappings": each} for each in draw(st.lists(groups, max_size=3)))


_NAMED = st.sampled_from(["a", "b", "A", "cpu.frequency"]).map(lambda name: {"name": name, "value": 1})

COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "total_usable_ram_mb": st.integers(0, 4096),
    "free_ram_mb": st.sampled_from([-1, 0, 512, 1023, 1024, 2048]) | st.integers(-1024, 4096),
    "total_usable_disk_gb": st.integers(0, 20),
    "free_disk_mb": st.sampled_from([-1024, 0, 1, 1024, 2048, 3071, 3072, 20480]),
    "vcpus_total": st.integers(0, 8),
    "vcpus_used": st.sampled_from([0, 0, 1, 2, 3, 4, 7, 8, 16, 20]),
    "cpu_allocation_ratio": RATIOS,
    "ram_allocation_ratio": RATIOS,
    "disk_allocation_ratio": RATIOS,
    "num_instances": st.sampled_from([0, 1, 2, 9, 10, 49, 50, 60]),
    "num_io_ops": st.integers(0, 11),
    "service": SERVICES,
    "hypervisor_type": st.sampled_from([None, "QEMU", "KVM", "ironic", ""]),
    "hypervisor_version": st.sampled_from([0, 7, 6002, 6002000, 6002001, 7000000]),
    "host_ip": rarely(st.sampled_from([None, "junk"]), else_=st.sampled_from(ADDRESSES)),
    "supported_instances": st.lists(st.sampled_from(TRIPLES), max_size=3).map(tuple),
    "cpu_info": st.sampled_from([*CPU_INFO, {"arch": "x86_64", "maxphysaddr": {"bits": 52}}]),
    "stats": st.sampled_from(
        [{}, {"opt": 2}, {"opt": "x"}, {"gpu": "1", "opt": "0"}, {"a": {"b": 3}}, {"a": '{"b": 3}'}, {"a": None}]
    ),
    "metrics": rarely(st.none(), else_=st.lists(_NAMED, max_size=3).map(tuple)),
    "trust_level": st.sampled_from(["trusted", "untrusted", "unknown"]),
    "instances": st.dictionaries(st.sampled_from(UUIDS), st.sampled_from([3, 3, 4, None]), max_size=3).map(
        lambda held: tuple(Instance(uuid, flavor_id=flavor_id) for uuid, flavor_id in held.items())
    ),
    "pci_pools": pci_pools(),
    "numa": rarely(st.none(), else_=host_topologies()),
    "allocation_candidates": allocation_candidates(),
}
"""Field of a HostRecord -> values of it."""

_SHARED = ("numa", "pci_pools", "allocation_candidates", "cpu_info", "supported_instances")


@st.composite
def tables_of(draw: Any, columns: Iterable[str] = (), keys: Iterable[str] = (), max_size: int = 5) -> HostTable:
    """A table in which only these columns vary, and aggregates with these metadata keys where there are some.

    As in life hosts share a few aggregates and a few states of what is large.
    """
    columns, keys = list(columns), list(keys)
    pool = [Aggregate(f"agg{number}", draw(metadata(keys)), id=number) for number in range(1, 4)] if keys else []
    in_some = st.lists(st.sampled_from(pool), unique_by=lambda each: each.id, max_size=3).map(tuple) if pool else None
    values = {
        name: st.sampled_from(draw(st.lists(COLUMNS[name], min_size=1, max_size=3)))
        if name in _SHARED
        else COLUMNS[name]
        for name in columns
    }
    if in_some is not None:
        values["aggregates"] = in_some
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=max_size))
    nodes = ("", "n1")
    return HostTable.of(
        HostRecord(host=f"host{at // 2}", node=f"{nodes[at % 2]}", **row) for at, row in enumerate(rows)
    )


# --- requests ----------------------------------------------------------------------------------------

_OPERATORS = "= == != >= <= s== s!= s< s<= s> s>= <in> <all-in> <or> > < <range-in>".split()
_OPERANDS = ["1", "4", "7", "5.0", "true", "a", "x", "QEMU", "nan", "1e3", "<or>", "avx", "3", "52", "0"]


def requirements() -> st.SearchStrategy[str]:
    """Requirements of extra specs: operators with few and many operands, plain texts, blanks."""
    worded = st.tuples(st.sampled_from(_OPERATORS), st.lists(st.sampled_from(_OPERANDS), max_size=3))
    return st.one_of(
        worded.map(lambda words: " ".join([words[0], *words[1]])),
        st.sampled_from([*_OPERANDS, "", " ", " 7 ", "a,b", "False", "0", "1.5", "['sse', 'avx2']"]),
        st.text(max_size=4),
    )


def extra_specs(keys: Sequence[str]) -> st.SearchStrategy[dict[str, str]]:
    """Extra specs under some of these keys, in any order."""
    return st.dictionaries(st.sampled_from(keys), requirements(), max_size=3)


REFERENCES = (
    "$free_ram_mb $hypervisor_type $stats.opt $stats.a.b $stats.gpu $service.disabled $service.nosuch $nosuch $ $host"
    " $nodename $host_ip $num_io_ops $free_ram_mb.x $hypervisor_type.x $stats $supported_instances $numa_topology"
).split()
_QUERY_LEAVES = st.one_of(
    st.sampled_from(REFERENCES),
    st.sampled_from([0, 1, 512, 2.0, True, False, None, "", "QEMU", "KVM", "512", "host0", {}, {"a": 1}, -1]),
)
_QUERY_OPERATORS = st.sampled_from(["and", "or", "not", "=", "<", ">", "<=", ">=", "in"])
_ODD_OPERATORS: st.SearchStrategy[Any] = st.sampled_from(["!=", "AND", 1, None, True, {}, "$host"])


def _calls(arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    operators = rarely(_ODD_OPERATORS, else_=_QUERY_OPERATORS)
    return st.tuples(operators, st.lists(arguments, max_size=4)).map(lambda call: [call[0], *call[1]])


QUERIES: st.SearchStrategy[str] = rarely(
    st.sampled_from(
        ["", "[]", "{}", '""', "null", "0", "5", "true", "nonsense", '"abc"', "[", "NaN", '["and"', "[[]]"]
    ),
    else_=_calls(st.recursive(_QUERY_LEAVES, _calls, max_leaves=6)).map(json.dumps),
)
"""Texts for the hint `query`, most of them good."""

IMAGE_PROPERTIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "hw_architecture": st.sampled_from(["x86_64", "AMD64", "i386", "aarch64"]),
        "architecture": st.sampled_from(["amd64", "aarch64"]),
        "img_hv_type": st.sampled_from(["kvm", "KVM", "xapi", "qemu"]),
        "hw_vm_mode": st.sampled_from(["hvm", "xen", "pv", "hv"]),
        "img_hv_requested_version": st.sampled_from([">=6.0,<6.2", "<=6.2", "> 6", "==6.2.0", "!=7", ">=6.2.1, < 8"]),
        "hw_maxphysaddr_bits": st.sampled_from([0, 39, 40, 46, "52"]),
        "os_distro": st.sampled_from(["windows", "linux", ""]),
        "hw_boot_menu": st.sampled_from(["true", "false", "no"]),
        "hw_cpu_cores": st.sampled_from(["4", 8, 0]),
        "hw_cpu_policy": st.sampled_from(["dedicated", "shared"]),
        "hw_cpu_thread_policy": st.sampled_from(["require", "prefer"]),
        "other": st.sampled_from(["1", "2"]),
    },
)

GROUPS: st.SearchStrategy[ServerGroup | None] = rarely(
    st.none(),
    else_=st.builds(
        ServerGroup,
        policy=st.sampled_from(GROUP_POLICIES),
        members=st.lists(st.sampled_from(UUIDS), unique=True, max_size=4),
        hosts=st.lists(st.sampled_from(["host0", "host1", "HOST0", "elsewhere"]), unique=True, max_size=2),
        rules=st.sampled_from([{}, {}, {"max_server_per_host": 2}, {"max_server_per_host": "3"}]),
    ),
)


def hints(name: str, texts: Sequence[str]) -> st.SearchStrategy[dict[str, list[str]]]:
    """No hint, or one with none to three of these texts."""
    return st.one_of(st.just({}), st.lists(st.sampled_from(texts), max_size=3).map(lambda found: {name: found}))


_NODES = st.sampled_from(["1", "2", "3"])
_PAGE_SIZES = st.sampled_from(["small", "large", "any", "2048", "4", "1048576"])
_SHARED_CPUS = st.fixed_dictionaries({"hw:numa_nodes": _NODES}, optional={"hw:mem_page_size": _PAGE_SIZES})
_OWN_CPUS = st.fixed_dictionaries(
    {"hw:cpu_policy": st.just("dedicated")},
    optional={
        "hw:numa_nodes": _NODES,
        "hw:cpu_thread_policy": st.sampled_from(["prefer", "require", "isolate"]),
        "hw:mem_page_size": _PAGE_SIZES,
        "hw:emulator_threads_policy": st.sampled_from(["share", "isolate"]),
    },
)
_SOME_OWN_CPUS = st.fixed_dictionaries(
    {"hw:cpu_policy": st.just("mixed"), "hw:cpu_dedicated_mask": st.sampled_from(["^0", "1", "0"])},
    optional={"hw:numa_nodes": _NODES, "hw:cpu_thread_policy": st.sampled_from(["prefer", "require", "isolate"])},
)
_UNEVEN = {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0", "hw:numa_mem.0": "256"}
_NO_TOPOLOGY = st.sampled_from([{}, {"hw:cpu_thread_policy": "require"}, {"hw:cpu_policy": "shared"}])

NUMA_EXTRA_SPECS: st.SearchStrategy[dict[str, str]] = st.one_of(
    _SHARED_CPUS, _OWN_CPUS, _SOME_OWN_CPUS, st.just(_UNEVEN), _NO_TOPOLOGY
)
"""Extra specs that mostly stand for a NUMA topology."""

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
    """A request with the topology that its extra specs stand for, where they stand for one, and PCI devices."""
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
