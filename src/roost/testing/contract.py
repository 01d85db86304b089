# SPDX-License-Identifier: Apache-2.0
"""Tests of your own filters and weighers: checks of their contract, and host tables and requests to run them on.

`make_hosts` and `make_spec` take keyword arguments and have defaults for everything else. `check_filter` and
`check_weigher` raise AssertionError, with an explanation, where the contract is violated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from roost.filters.base import Filter
from roost.hosts import HostRecord, Hosts, HostTable, Instance
from roost.hosts.encoded import Array
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.model import Aggregate, Destination, Flavor, Image, RequestSpec, Retry, ServerGroup, Service
from roost.model.numa import derive_topology, topology_from_json
from roost.model.pci import pci_request_from_json
from roost.scheduler.checks import filter_checks
from roost.weighers.base import Weigher

_FLAVOR = {"vcpus": 1, "memory_mb": 512, "root_gb": 0, "ephemeral_gb": 0, "swap": 0}
_FLAVOR_FIELDS = (*_FLAVOR, "name", "id", "extra_specs")
_REQUEST_PARTS: dict[str, Any] = {"instance_group": ServerGroup, "retry": Retry, "requested_destination": Destination}


def make_hosts(count: int | None = None, **columns: Any) -> HostTable:
    """A host table. A list gives one value per host, any other value applies to all hosts.

    Hosts are named host1, host2, ... unless `host` is given. Aggregates may be given as their metadata, instances as
    uuids: `make_hosts(aggregates=[[{"availability_zone": "az1"}], []])`; services, instances, PCI pools and NUMA
    topologies as mappings, as in a fleet file. Without lists, there are `count` hosts (default: 1).
    """
    return HostTable.of(make_records(count, **columns))


def make_records(count: int | None = None, **columns: Any) -> list[HostRecord]:
    """Host records, with the arguments of `make_hosts`. Raises ValueError for lists of different lengths."""
    lengths = {len(values) for name, values in columns.items() if isinstance(values, list)}
    if len(lengths) > 1:
        raise ValueError(f"columns of different lengths: {sorted(lengths)}")
    total = lengths.pop() if lengths else (1 if count is None else count)
    columns.setdefault("host", [f"host{number}" for number in range(1, total + 1)])
    rows = [
        {name: values[at] if isinstance(values, list) else values for name, values in columns.items()}
        for at in range(total)
    ]
    return [HostRecord(**_convert_row(row)) for row in rows]


def _convert_row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _CONVERTERS[name](value) if name in _CONVERTERS else value for name, value in row.items()}


def _instance(each: Any) -> Instance:
    if isinstance(each, str):
        return Instance(each)
    return Instance(**each) if isinstance(each, Mapping) else each


def _aggregate(each: Aggregate | Mapping[str, str], number: int) -> Aggregate:
    return each if isinstance(each, Aggregate) else Aggregate(f"aggregate{number}", each, id=number)


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "aggregates": lambda found: tuple(_aggregate(each, at) for at, each in enumerate(found, start=1)),
    "allocation_candidates": tuple,
    "instances": lambda found: tuple(_instance(each) for each in found),
    "metrics": lambda found: None if found is None else tuple(found),
    "numa": lambda found: host_topology_from_json(found) if isinstance(found, Mapping) else found,
    "pci_pools": lambda found: pools_from_json(found) if isinstance(found, list) else found,
    "service": lambda found: Service(**found) if isinstance(found, Mapping) else found,
    "supported_instances": lambda found: tuple(tuple(each) for each in found),
    "traits": frozenset,
}
"""Column -> converter of a host's value from its JSON form to that of a HostRecord."""


def make_spec(image: Mapping[str, Any] | Image | None = None, **fields: Any) -> RequestSpec:
    """A request. Sizes (MiB, GiB) and extra_specs set its flavor, a mapping of properties its image.

    Group, retry record, destination, PCI requests and NUMA topology may be given as mappings. The default flavor has
    1 vCPU, 512 MiB and no disk.
    """
    sizes = {name: fields.pop(name) for name in _FLAVOR_FIELDS if name in fields}
    flavor = fields.pop("flavor", None) or Flavor(**(_FLAVOR | sizes))
    if isinstance(image, Mapping):
        image = Image(id="image1", properties=image)  # type: ignore[arg-type]
    return RequestSpec(flavor=flavor, image=image, **{name: _part(name, value) for name, value in fields.items()})


def _part(name: str, value: Any) -> Any:
    if name == "pci_requests":
        return tuple(pci_request_from_json(each) if isinstance(each, Mapping) else each for each in value)
    if not isinstance(value, Mapping) or name not in (*_REQUEST_PARTS, "numa_topology"):
        return value
    return topology_from_json(value) if name == "numa_topology" else _REQUEST_PARTS[name](**value)


def sample_hosts() -> HostTable:
    """A table of six hosts that covers most states: full, empty, down, disabled, in zones, NUMA, PCI."""
    return make_hosts(
        host=["a", "b", "c", "d", "e", "f"],
        cell=["cell1", "cell1", "cell1", "cell1", "cell2", "cell2"],
        total_usable_ram_mb=[8192, 8192, 65536, 65536, 1024, 8192],
        free_ram_mb=[8192, -512, 40000, 65536, 0, 4096],
        total_usable_disk_gb=[100, 100, 2000, 2000, 10, 0],
        free_disk_mb=[102400, 0, 1000000, 2048000, -1024, 0],
        vcpus_total=[8, 8, 64, 64, 1, 0],
        vcpus_used=[0, 32, 10, 0, 4, 0],
        num_instances=[0, 16, 5, 0, 2, 60],
        num_io_ops=[0, 9, 2, 0, 8, 1],
        failed_builds=[0, 3, 0, 1, 0, 0],
        service=[{}, {"up": False}, {"disabled": True}, {}, {"forced_down": True}, {}],
        hypervisor_type=["QEMU", "QEMU", "KVM", None, "QEMU", "QEMU"],
        hypervisor_version=[8002000, 6002001, 7000000, 0, 8002000, 8002000],
        host_ip=["10.4.7.9", "10.4.7.10", "10.4.8.9", "10.4.8.10", "fd00::5", "10.5.0.1"],
        supported_instances=[_KVM, _KVM, [*_KVM, ["aarch64", "qemu", "hvm"]], [], _KVM, _KVM],
        cpu_info=[_CPU, _CPU, '{"arch": "aarch64"}', None, "broken{", _CPU],
        stats=[{"gpu": "2"}, {}, {"gpu": "0"}, {}, {}, {"gpu": "x"}],
        metrics=[_METRICS, _METRICS, _METRICS[:1], _METRICS[:1], _METRICS, []],
        trust_level=["trusted", "trusted", "untrusted", "unknown", "trusted", "unknown"],
        instances=[
            [],
            [{"uuid": "u1", "flavor_id": 3, "image_props": {"os_distro": "debian"}}, {"uuid": "u2", "flavor_id": 4}],
            [{"uuid": "u3", "flavor_id": 3}],
            [],
            ["u4"],
            [],
        ],
        pci_pools=[[_GPU | {"numa_node": 0}], [_GPU | {"numa_node": 1}], [], [], [_GPU | {"count": 0}], []],
        numa=[_TWO_CELLS, _TWO_CELLS, None, _ONE_CELL, _ONE_CELL, None],
        aggregates=[
            [{"availability_zone": "az1"}],
            [{"availability_zone": "az1", "ssd": "true", "instance_type": "m1", "cpu_allocation_ratio": "8"}],
            [{"availability_zone": "az2"}, {"ram_weight_multiplier": "2.0"}, {"os_distro": "windows"}],
            [{"max_instances_per_host": "10", "disk_allocation_ratio": "0.5"}],
            [{"filter_tenant_id": "p1"}],
            [{"max_io_ops_per_host": "4", "ram_allocation_ratio": "1.5"}],
        ],
    )


_KVM = [["x86_64", "kvm", "hvm"], ["i686", "kvm", "hvm"]]
_CPU = '{"arch": "x86_64", "features": ["sse", "avx2"], "maxphysaddr": {"bits": 46}}'
_METRICS = [{"name": "cpu.frequency", "value": 2400}, {"name": "cpu.user.time", "value": 7}]
_GPU = {"vendor_id": "10de", "product_id": "1eb8", "count": 2}
_ONE_CELL = {"cells": [{"id": 0, "cpuset": [0, 1, 2, 3], "pcpuset": [0, 1, 2, 3], "memory": 4096}]}
_TWO_CELLS = {
    "cells": [
        {"id": 0, "cpuset": [0, 1], "pcpuset": [0, 1], "siblings": [[0, 1]], "memory": 4096},
        {"id": 1, "cpuset": [2, 3], "pcpuset": [2, 3], "siblings": [[2, 3]], "memory": 4096, "pinned_cpus": [2, 3]},
    ]
}


def sample_specs() -> list[RequestSpec]:
    """Requests that exercise every built-in filter and weigher."""
    return [
        make_spec(),
        make_spec(vcpus=4, memory_mb=4096, root_gb=50),
        make_spec(vcpus=8, memory_mb=8192, root_gb=100),
        make_spec(vcpus=128, memory_mb=10**6, root_gb=10**5),
        make_spec(availability_zone="az2", project_id="p2", id=3, name="m2"),
        make_spec(retry=None, extra_specs={"ssd": "true"}, image={"hw_architecture": "aarch64"}),
        make_spec(retry={"hosts": [("a", "a"), ("b", "n9")]}, extra_specs={"trust:trusted_host": "trusted"}),
        make_spec(
            extra_specs={"capabilities:cpu_info:arch": "x86_64", "hypervisor_type": "<or> QEMU <or> KVM"},
            image={"os_distro": "debian", "img_hv_type": "kvm", "img_hv_requested_version": ">=7"},
        ),
        make_spec(scheduler_hints={"different_host": ["u1", "u9"]}),
        make_spec(scheduler_hints={"same_host": ["u1", "u3"], "build_near_host_ip": "10.4.7.1", "cidr": "/22"}),
        make_spec(scheduler_hints={"query": '["and", [">=", "$free_ram_mb", 4096], ["not", "$service.disabled"]]'}),
        make_spec(instance_group={"policy": "affinity", "hosts": ["a", "c"], "members": ["u3"]}),
        make_spec(instance_group={"policy": "anti-affinity", "members": ["u1", "u3"]}, instance_uuid="u3"),
        make_spec(instance_group={"policy": "legacy", "hosts": ["a", "c"]}),
        make_spec(instance_group={"policy": "soft-affinity", "members": ["u1", "u2", "u3"]}),
        make_spec(instance_group={"policy": "soft-anti-affinity", "members": ["u1", "u2", "u3"]}),
        make_spec(requested_destination={"cell": "cell2", "allow_cross_cell_move": True}),
        _pinned_spec(),
    ]


def _pinned_spec() -> RequestSpec:
    """A request for two pinned CPUs on one NUMA node, with a PCI device of that node."""
    extra_specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}
    spec = make_spec(vcpus=2, memory_mb=1024, extra_specs=extra_specs)
    device = {"spec": [{"vendor_id": "10de", "product_id": "1eb8"}], "numa_policy": "required"}
    topology = derive_topology(spec.flavor, None)
    return make_spec(flavor=spec.flavor, numa_topology=topology, pci_requests=[device])


def check_filter(rule: Filter, hosts: HostTable | None = None, specs: list[RequestSpec] | None = None) -> None:
    """Check a filter on `hosts` and `specs` (default: samples); AssertionError says what violates the contract.

    The mask must have one boolean per host that does not depend on the other hosts or their order, every rejection a
    one-line reason, `reads` must name all columns that are read, and the table must stay unchanged.
    """
    assert type(rule).__doc__, f"{rule.name}: say in a docstring what it does"
    _check_options(rule)
    table = hosts if hosts is not None else sample_hosts()
    for spec in specs if specs is not None else sample_specs():
        before = _fingerprint(table)
        mask = rule.mask(table.in_the_running(), spec)
        assert mask.dtype == np.bool_, f"{rule.name}: the mask is {mask.dtype}, not bool"
        assert mask.shape == (len(table),), f"{rule.name}: {mask.shape} answers for {len(table)} hosts"
        assert rule.applies_to(spec) or mask.all(), f"{rule.name}: rejects although it does not apply"
        _check_independent(rule.name, mask, table, lambda part, spec=spec: rule.mask(part, spec))
        _check_one_by_one(rule, mask, table, spec)
        _check_reads(rule, rule.reads_for(spec), table, spec)
        _check_reasons(rule, mask, table, spec)
        for name, ceiling in rule.ceilings(table.in_the_running(), spec).items():
            assert len(ceiling) == len(table), f"{rule.name}: {len(ceiling)} ceilings {name} for {len(table)} hosts"
        assert _fingerprint(table) == before, f"{rule.name}: changed the hosts"


def check_weigher(rule: Weigher, hosts: HostTable | None = None, specs: list[RequestSpec] | None = None) -> None:
    """Check a weigher on `hosts` and `specs` (default: samples); AssertionError says what violates the contract.

    It must return one finite number per host that does not depend on the other hosts or their order, one multiplier
    or one per host, `reads` must name all columns that are read, and the table must stay unchanged.
    """
    assert type(rule).__doc__, f"{rule.name}: say in a docstring what it does, and what higher means"
    _check_options(rule)
    table = hosts if hosts is not None else sample_hosts()
    for spec in specs if specs is not None else sample_specs():
        before = _fingerprint(table)
        raw = np.asarray(rule.weigh(table.in_the_running(), spec), dtype=np.float64)
        assert raw.shape == (len(table),), f"{rule.name}: {raw.shape} numbers for {len(table)} hosts"
        assert np.isfinite(raw).all(), f"{rule.name}: {raw} are not all finite numbers"
        _check_independent(rule.name, raw, table, lambda part, spec=spec: rule.weigh(part, spec))
        _check_reader(rule, table, spec)
        _check_reads(rule, rule.reads, table, spec)
        multipliers = np.asarray(rule.multipliers(table.in_the_running()))
        assert multipliers.ndim == 0 or len(multipliers) == len(table), f"{rule.name}: odd multipliers {multipliers}"
        assert _fingerprint(table) == before, f"{rule.name}: changed the hosts"


def _check_options(rule: Filter | Weigher) -> None:
    options = rule.Options
    if options is not None:
        assert dataclasses.is_dataclass(options), f"{rule.name}: Options is no dataclass"


def _check_independent(name: str, answers: Array, table: HostTable, ask: object) -> None:
    assert callable(ask)
    backwards = np.arange(len(table))[::-1]
    reversed_answers = ask(table.in_the_running().take(backwards))
    assert np.array_equal(reversed_answers, answers[backwards]), f"{name}: the order of hosts changes its answers"
    for row in range(len(table)):
        alone = ask(Hosts(table, np.array([row]), {}))
        host = table.names[row][0]
        assert alone[0] == answers[row], f"{name}: host {host} gets another answer when it is alone"


def _check_one_by_one(rule: Filter, mask: Array, table: HostTable, spec: RequestSpec) -> None:
    """Check that the per-row check gives the answers of the mask: the scheduler uses it for changed hosts."""
    for check in filter_checks([rule], spec, index=0):
        passes = check.for_rows(table)
        for row, (host, _) in enumerate(table.names):
            is_same = passes(row) is (check.ask is None or bool(mask[row]))
            assert is_same, f"{rule.name}: host {host} gets another answer when it is asked alone"


def _check_reader(rule: Weigher, table: HostTable, spec: RequestSpec) -> None:
    """Check that `reader` gives bit for bit the numbers of `weigh`: the scheduler uses it for changed hosts."""
    numbers = rule.clamped(table.in_the_running(), spec)
    if not rule.applies_to(spec):
        assert not numbers.any(), f"{rule.name}: {numbers} although it does not apply"
        return
    read = rule.reader(table, spec)
    for row, (host, _) in enumerate(table.names):
        alone, among_all = float(read(row)), numbers.item(row)
        is_same = alone.hex() == among_all.hex()
        assert is_same, f"{rule.name}: `reader` gives {alone!r} for host {host}, `weigh` gives {among_all!r}"


class _RecordingColumns(dict[str, Any]):
    """Columns of a table that record in `read` which of them were accessed."""

    def __init__(self, columns: dict[str, Any]) -> None:
        super().__init__(columns)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


_CHANGES_WITH = {
    "hypervisor_version": "version",
    "cpu_allocation_ratio": "ratios",
    "ram_allocation_ratio": "ratios",
}
"""Column -> a column that changes whenever it does, and may stand for it in `reads`."""


def _check_reads(rule: Filter | Weigher, reads: frozenset[str], table: HostTable, spec: RequestSpec) -> None:
    """Check that `reads` names every column that is accessed: cached answers stay valid while those are unchanged.

    Empty means unknown: nothing is cached.
    """
    if not reads:
        return
    twin = table.copy()
    numbers, encoded = _RecordingColumns(twin.numbers), _RecordingColumns(twin.encoded)
    twin.numbers, twin.encoded = numbers, encoded
    ask = rule.mask if isinstance(rule, Filter) else rule.weigh
    ask(twin.in_the_running(), spec)
    accessed = numbers.read | encoded.read
    unnamed = sorted(name for name in accessed if name not in reads and _CHANGES_WITH.get(name) not in reads)
    assert not unnamed, f"{rule.name}: looks at {', '.join(unnamed)}, which its `reads` does not name"


def _check_reasons(rule: Filter, mask: Array, table: HostTable, spec: RequestSpec) -> None:
    for host in table.in_the_running().take(np.flatnonzero(~mask)):
        reason = rule.reason(host, spec)
        assert reason, f"{rule.name}: no reason for rejecting {host.host}"
        assert "\n" not in reason, f"{rule.name}: the reason is not one line: {reason!r}"


def _fingerprint(table: HostTable) -> tuple[object, ...]:
    numbers = (column.tobytes() for column in table.numbers.values())
    codes = (column.codes.tobytes() for column in table.encoded.values())
    return (table.changes.version, *numbers, *codes)
