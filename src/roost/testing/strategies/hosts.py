# SPDX-License-Identifier: Apache-2.0
"""Strategies of hosts and tables in which the amounts, services and aggregates vary, or chosen columns alone.

`rarely` mixes rare values, such as invalid ones, into common ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from roost.hosts import HostRecord, HostTable, Instance
from roost.model import Aggregate, Service
from roost.testing.strategies.numa_pci import allocation_candidates, host_topologies, pci_pools

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
    """One host; free amounts may be negative or above the total. Its aggregates are drawn from `pool`."""
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
    """A table of `min_size` to `max_size` hosts that share three aggregates."""
    pool = [Aggregate(f"agg{number}", draw(METADATA), id=number) for number in range(1, 4)]
    count = draw(st.integers(min_size, max_size))
    return HostTable.of([draw(host_records(f"host{number}", pool)) for number in range(count)])


def rarely(odd: st.SearchStrategy[Any], else_: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values of `odd` about one time in ten, otherwise values of `else_`."""
    return st.sampled_from(range(10)).flatmap(lambda digit: odd if digit == 9 else else_)


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
"""Metadata keys that built-in filters read -> values, valid and invalid."""

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
TRIPLES = tuple(
    (architecture, hypervisor, mode)
    for architecture in ("x86_64", "aarch64", "i686")
    for hypervisor in ("kvm", "xen", "qemu")
    for mode in ("hvm", "xen")
)
UUIDS = ("u1", "u2", "u3", "u4", "u5")


def metadata(keys: Iterable[str]) -> st.SearchStrategy[dict[str, str]]:
    """Metadata of one aggregate: any of these keys, and the key `other`, each present or absent."""
    optional = {key: st.sampled_from(METADATA_VALUES[key]) for key in (*keys, "other")}
    return st.fixed_dictionaries({}, optional=optional)


_METRICS = st.sampled_from(["a", "b", "A", "cpu.frequency"]).map(lambda name: {"name": name, "value": 1})

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
    "metrics": rarely(st.none(), else_=st.lists(_METRICS, max_size=3).map(tuple)),
    "trust_level": st.sampled_from(["trusted", "untrusted", "unknown"]),
    "instances": st.dictionaries(st.sampled_from(UUIDS), st.sampled_from([3, 3, 4, None]), max_size=3).map(
        lambda flavor_ids: tuple(Instance(uuid, flavor_id=flavor_id) for uuid, flavor_id in flavor_ids.items())
    ),
    "pci_pools": pci_pools(),
    "numa": rarely(st.none(), else_=host_topologies()),
    "allocation_candidates": allocation_candidates(),
}
"""Field of a HostRecord -> strategy of its values."""

_SHARED = ("numa", "pci_pools", "allocation_candidates", "cpu_info", "supported_instances")
"""Columns with large values, of which a table has at most three different ones, as in real fleets."""


@st.composite
def tables_of(draw: Any, columns: Iterable[str] = (), keys: Iterable[str] = (), max_size: int = 5) -> HostTable:
    """A table of 1 to `max_size` hosts in which only these columns vary.

    With `keys`, hosts are also members of up to three shared aggregates whose metadata has these keys.
    """
    columns, keys = list(columns), list(keys)
    pool = [Aggregate(f"agg{number}", draw(metadata(keys)), id=number) for number in range(1, 4)] if keys else []
    memberships = (
        st.lists(st.sampled_from(pool), unique_by=lambda each: each.id, max_size=3).map(tuple) if pool else None
    )
    values = {
        name: st.sampled_from(draw(st.lists(COLUMNS[name], min_size=1, max_size=3)))
        if name in _SHARED
        else COLUMNS[name]
        for name in columns
    }
    if memberships is not None:
        values["aggregates"] = memberships
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=max_size))
    nodes = ("", "n1")
    return HostTable.of(
        HostRecord(host=f"host{at // 2}", node=f"{nodes[at % 2]}", **row) for at, row in enumerate(rows)
    )
