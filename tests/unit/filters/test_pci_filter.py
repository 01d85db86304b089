# SPDX-License-Identifier: Apache-2.0
"""PciPassthroughFilter: spec/numa-pci.md 5.6 and spec/filters.md 2.5. Pools are tested in tests/unit/hosts."""

import random

import pytest

from roost.errors import NoValidHost
from roost.filters.base import applies_to_rebuild
from roost.filters.numa import NUMATopologyFilter
from roost.filters.pci import PciPassthroughFilter
from roost.hosts.numa_cells import host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.model.numa import derive_topology
from roost.model.pci import PciRequest
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

GPU = {"vendor_id": "10de", "product_id": "1eb8"}
NIC = {"vendor_id": "8086", "product_id": "1528"}


def pool(kind, count, **more):
    return kind | {"count": count} | more


def table_of(*pools, **columns):
    return make_hosts(1, pci_pools=pools_from_json(list(pools)), **columns)


def answer(table, *requests, **fields):
    return PciPassthroughFilter().mask(table.in_the_running(), make_spec(pci_requests=requests, **fields)).tolist()


@pytest.mark.parametrize(
    ("pools", "requests", "passes"),
    [
        pytest.param([pool(GPU, 2)], [], True, id="nothing asked"),
        pytest.param([], [], True, id="nothing asked, nothing there"),
        pytest.param([], [PciRequest(1, [GPU])], False, id="no pools"),
        pytest.param([pool(GPU, 2)], [PciRequest(2, [GPU])], True, id="2 of 2"),
        pytest.param([pool(GPU, 2)], [PciRequest(3, [GPU])], False, id="3 of 2"),
        pytest.param([pool(GPU, 2)], [PciRequest(1, [GPU]), PciRequest(1, [GPU])], True, id="1 and 1 of 2"),
        pytest.param([pool(GPU, 2)], [PciRequest(2, [GPU]), PciRequest(1, [GPU])], False, id="2 and 1 of 2"),
        pytest.param([pool(GPU, 2), pool(NIC, 1)], [PciRequest(1, [GPU]), PciRequest(1, [NIC])], True, id="of each"),
        pytest.param([pool(GPU, 2)], [PciRequest(1, [NIC])], False, id="another device"),
        pytest.param([pool(GPU, 2)], [PciRequest(1, [NIC, GPU])], True, id="either device"),
        pytest.param([pool(GPU, 1, dev_type="type-PF")], [PciRequest(1, [GPU])], False, id="a PF only on demand"),
        pytest.param([], [PciRequest(0, [GPU])], False, id="not even none"),
    ],
)
def test_hosts_pass_that_have_the_devices_for_all_requests_together(pools, requests, passes):
    assert answer(table_of(*pools), *requests) == [passes]


@pytest.mark.parametrize("policy", ["required", "legacy", "preferred", "socket", None])
def test_on_which_node_a_device_is_does_not_matter_here(policy):
    topology = host_topology_from_json({"cells": [{"id": 0, "cpuset": [0, 1], "memory": 4096}]})
    spec = make_spec(extra_specs={"hw:numa_nodes": "1"})
    cells = derive_topology(spec.flavor, None)
    table = table_of(pool(GPU, 1, numa_node=1), numa=topology)
    assert answer(table, PciRequest(1, [GPU], policy), numa_topology=cells) == [True]


def test_devices_that_one_instance_of_a_request_takes_are_gone_for_the_next():
    table = make_hosts(host=["a", "b"], pci_pools=pools_from_json([pool(GPU, 1)]))
    pipeline = Pipeline([PciPassthroughFilter()], [], checks_capacity=False)

    def place(count):
        spec = make_spec(pci_requests=(PciRequest(1, [GPU]),), num_instances=count)
        uuids = [f"u{number}" for number in range(count)]
        decision = pipeline.place(table, spec, uuids, randomness=random.Random(0), clock=lambda: 0)
        return [each.host for each in decision.selections]

    with pytest.raises(NoValidHost):
        place(3)
    assert place(2) == ["a", "b"]


# --- allocation candidates (filters.md 2.5) ----------------------------------------------------------


def candidates(*providers):
    return tuple({"mappings": {"gpu-0": [provider]}} for provider in providers)


def providers_left(host):
    return [each["mappings"]["gpu-0"][0] for each in host.allocation_candidates]


ONE_GPU = PciRequest(1, [GPU], request_id="gpu")
OF_P1 = pool(GPU, 1, rp_uuid="p1")
OF_P2 = pool(GPU, 1, rp_uuid="p2")


@pytest.mark.parametrize(
    ("offered", "left"),
    [
        (["p1"], ["p1"]),
        (["p9"], []),
        (["p9", "p2", "p1"], ["p2", "p1"]),
        (["p9", "p8"], []),
        ([], []),
    ],
)
def test_candidates_that_do_not_fit_are_gone_and_the_others_keep_their_order(offered, left):
    hosts = table_of(OF_P1, OF_P2, allocation_candidates=candidates(*offered)).in_the_running()
    mask = PciPassthroughFilter().mask(hosts, make_spec(pci_requests=(ONE_GPU,)))
    assert mask.tolist() == [bool(left)]
    (host,) = hosts
    assert not left or providers_left(host) == left


def test_a_host_without_candidates_passes_where_nothing_is_asked():
    assert answer(table_of(OF_P1, allocation_candidates=())) == [True]


def test_hosts_alike_but_for_their_only_candidate_get_answers_of_their_own():
    table = make_hosts(
        pci_pools=pools_from_json([OF_P1]),
        allocation_candidates=[candidates("p1"), candidates("p9"), candidates("p1")],
    )
    assert answer(table, ONE_GPU) == [True, False, True]


def left_after(table, spec, *filters):
    """The providers of the host's candidates after each of the filters."""
    hosts, seen = table.in_the_running(), []
    for rule in filters:
        hosts = hosts.keep(rule.mask(hosts, spec))
        seen.append(providers_left(next(iter(hosts))))
    return seen


def test_what_one_filter_leaves_of_the_candidates_is_what_the_next_one_sees():
    """p1 has no device left, p3 is far from the only cell with room: of three candidates only p2 does for both."""
    cells = [
        {"id": 0, "cpuset": [0, 1], "pcpuset": [0, 1], "memory": 4096},
        {"id": 1, "cpuset": [2, 3], "pcpuset": [2, 3], "memory": 1},
    ]
    pools = [
        pool(GPU, 0, rp_uuid="p1", numa_node=0),
        pool(GPU, 1, rp_uuid="p2", numa_node=0),
        pool(GPU, 1, rp_uuid="p3", numa_node=1),
    ]
    table = table_of(
        *pools, numa=host_topology_from_json({"cells": cells}), allocation_candidates=candidates("p1", "p3", "p2")
    )
    flavor = make_spec(memory_mb=1024, extra_specs={"hw:numa_nodes": "1"}).flavor
    request = PciRequest(1, [GPU], "required", request_id="gpu")
    spec = make_spec(flavor=flavor, numa_topology=derive_topology(flavor, None), pci_requests=(request,))
    assert left_after(table, spec, PciPassthroughFilter(), NUMATopologyFilter()) == [["p3", "p2"], ["p2"]]
    assert left_after(table, spec, NUMATopologyFilter(), PciPassthroughFilter()) == [["p2"], ["p2"]]
    assert providers_left(next(iter(table.in_the_running()))) == ["p1", "p3", "p2"]  # the next request sees all again


def test_two_filters_that_leave_different_candidates_leave_no_host():
    """p1 has the device but too far away, p2 is near but has none: each filter alone lets one candidate pass."""
    cells = [{"id": 0, "cpuset": [0, 1], "memory": 4096}, {"id": 1, "cpuset": [2, 3], "memory": 1}]
    pools = [pool(GPU, 1, rp_uuid="p1", numa_node=1), pool(NIC, 1, rp_uuid="p2", numa_node=0)]
    table = table_of(
        *pools, numa=host_topology_from_json({"cells": cells}), allocation_candidates=candidates("p1", "p2")
    )
    flavor = make_spec(memory_mb=1024, extra_specs={"hw:numa_nodes": "1"}).flavor
    request = PciRequest(1, [GPU], "required", request_id="gpu")
    spec = make_spec(flavor=flavor, numa_topology=derive_topology(flavor, None), pci_requests=(request,))
    assert PciPassthroughFilter().mask(table.in_the_running(), spec).tolist() == [True]
    pipeline = Pipeline([PciPassthroughFilter(), NUMATopologyFilter()], [], checks_capacity=False)
    with pytest.raises(NoValidHost) as caught:
        pipeline.place(table, spec, ["u"], randomness=random.Random(0), clock=lambda: 0)
    assert caught.value.decision.rejected == {"NUMATopologyFilter": 1}


# --- flags and reasons -------------------------------------------------------------------------------


def test_without_requests_it_has_nothing_to_do():
    assert not PciPassthroughFilter().applies_to(make_spec())


def test_it_is_asked_for_every_instance_and_not_on_rebuild():
    assert PciPassthroughFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(PciPassthroughFilter())


def test_the_reason_names_the_devices_and_how_many_are_free():
    (host,) = table_of(pool(GPU, 2))
    spec = make_spec(pci_requests=(PciRequest(3, [GPU]),))
    assert PciPassthroughFilter().reason(host, spec) == "3 devices 10de:1eb8 asked; 2 free"


def test_the_reason_says_when_only_the_candidates_do_not_do():
    (host,) = table_of(OF_P1, allocation_candidates=candidates("p9"))
    spec = make_spec(pci_requests=(ONE_GPU,))
    assert PciPassthroughFilter().reason(host, spec) == "no allocation candidate provides the devices"
