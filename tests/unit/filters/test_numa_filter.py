# SPDX-License-Identifier: Apache-2.0
"""NUMATopologyFilter: spec/numa-pci.md 2 and spec/filters.md 2.5. How cells fit is tested in tests/unit/hosts."""

import random

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.numa import NUMATopologyFilter
from roost.hosts.numa_cells import OvercommitLimits, host_topology_from_json
from roost.hosts.pci import pools_from_json
from roost.model.numa import derive_topology
from roost.model.pci import PciRequest
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

DEDICATED = {"hw:cpu_policy": "dedicated"}
THREADED = [[0, 2], [1, 3]]
GPU = {"vendor_id": "10de", "product_id": "1eb8"}


def cell(number=0, **more):
    """4 CPUs for either use, 4096 MB."""
    cpus = list(range(4 * number, 4 * number + 4))
    return {"id": number, "cpuset": cpus, "pcpuset": cpus, "memory": 4096} | more


def topology(*cells):
    return host_topology_from_json({"cells": list(cells)})


def spec_for(extra_specs=None, image=None, derives=True, **fields):
    spec = make_spec(**({"vcpus": 2, "memory_mb": 1024} | fields), extra_specs=extra_specs or {}, image=image)
    if not derives:
        return spec
    found = derive_topology(spec.flavor, spec.image)
    return make_spec(flavor=spec.flavor, image=spec.image, numa_topology=found, **_rest(fields))


def _rest(fields):
    return {name: value for name, value in fields.items() if name not in ("vcpus", "memory_mb")}


def answer(spec, **columns):
    return NUMATopologyFilter().mask(make_hosts(**columns).in_the_running(), spec).tolist()


# --- 1: threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        pytest.param(topology(cell(siblings=THREADED)), True, id="two threads to a core"),
        pytest.param(topology(cell(siblings=[[0], [1], [2], [3]])), False, id="one thread to a core"),
        pytest.param(topology(cell()), False, id="no siblings known"),
        pytest.param(topology(cell(), cell(1, siblings=[[4, 5]])), True, id="threads in one of the cells"),
        pytest.param(None, True, id="no topology: nothing to check"),
    ],
)
@pytest.mark.parametrize(
    ("extra_specs", "image"),
    [
        ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}, None),
        ({}, {"hw_cpu_policy": "dedicated", "hw_cpu_thread_policy": "require"}),
        ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:cpu_thread_policy": "require"}, {"hw_cpu_policy": "dedicated"}),
    ],
)
def test_required_threads_are_checked_even_for_a_request_without_topology(host, passes, extra_specs, image):
    spec = spec_for(extra_specs, image, derives=False)
    assert NUMATopologyFilter().applies_to(spec)
    assert answer(spec, numa=[host]) == [passes]


@pytest.mark.parametrize(
    "extra_specs",
    [
        {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"},
        {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "require"},
        {"hw:cpu_thread_policy": "require"},
        {},
    ],
)
def test_threads_are_no_matter_unless_dedicated_cpus_require_them(extra_specs):
    spec = spec_for(extra_specs, derives=False)
    assert not NUMATopologyFilter().applies_to(spec)
    assert answer(spec, numa=[topology(cell())]) == [True]


# --- 2 to 5: the fit ---------------------------------------------------------------------------------


def test_a_request_without_topology_passes_everywhere():
    assert answer(spec_for(), numa=[None, topology(cell(memory=1))]) == [True, True]


def test_a_host_without_topology_takes_no_request_with_one():
    assert answer(spec_for({"hw:numa_nodes": "1"}), numa=[None, topology(cell())]) == [False, True]


@pytest.mark.parametrize(
    ("extra_specs", "host", "passes"),
    [
        ({"hw:numa_nodes": "2"}, topology(cell()), False),
        ({"hw:numa_nodes": "2"}, topology(cell(), cell(1)), True),
        (DEDICATED, topology(cell(pinned_cpus=[0, 1, 2])), False),
        (DEDICATED, topology(cell(pinned_cpus=[0, 1])), True),
        ({"hw:mem_page_size": "2048"}, topology(cell()), False),
        ({"hw:mem_page_size": "2048"}, topology(cell(mempages=[{"size_kb": 2048, "total": 512}])), True),
        ({"hw:mem_page_size": "2048"}, topology(cell(mempages=[{"size_kb": 2048, "total": 511}])), False),
    ],
)
def test_hosts_pass_where_the_cells_fit(extra_specs, host, passes):
    assert answer(spec_for(extra_specs), numa=[host]) == [passes]


def test_overcommit_goes_by_the_ratios_of_the_host():
    full = topology(cell(cpu_usage=4, memory_usage=4096))
    hosts = {
        "numa": [full] * 4,
        "cpu_allocation_ratio": [1.5, 1.4, 1.5, 16.0],
        "ram_allocation_ratio": [1.25, 1.25, 1.2, 2.0],
    }
    assert answer(spec_for({"hw:numa_nodes": "1"}), **hosts) == [True, False, False, True]


def place(table, spec, *filters):
    pipeline = Pipeline(filters or [NUMATopologyFilter()], [], checks_capacity=False)
    uuids = [f"u{number}" for number in range(spec.num_instances)]
    return pipeline.place(table, spec, uuids, randomness=random.Random(0), clock=lambda: 0)


def test_the_ratios_travel_with_the_selection_as_its_limits():
    table = make_hosts(1, numa=topology(cell()), cpu_allocation_ratio=2.0, ram_allocation_ratio=1.5)
    decision = place(table, spec_for({"hw:numa_nodes": "1"}))
    assert decision.selections[0].limits == {"numa_topology": OvercommitLimits(cpu_ratio=2.0, ram_ratio=1.5)}


@pytest.mark.parametrize("extra_specs", [{}, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}])
def test_no_limits_travel_with_a_request_without_topology(extra_specs):
    table = make_hosts(1, numa=topology(cell(siblings=THREADED)))
    assert place(table, spec_for(extra_specs, derives=False)).selections[0].limits == {}


def test_the_instances_of_one_request_do_not_get_the_same_cpus():
    table = make_hosts(host=["a", "b"], numa=topology(cell()))
    decision = place(table, spec_for(DEDICATED, num_instances=4))
    assert sorted(each.host for each in decision.selections) == ["a", "a", "b", "b"]


def test_asking_changes_neither_the_request_nor_the_host():
    spec, table = spec_for(DEDICATED), make_hosts(1, numa=topology(cell()))
    before = spec.numa_topology, table.encoded["numa"].at(0)
    answer(spec, numa=[topology(cell())])
    NUMATopologyFilter().mask(table.in_the_running(), spec)
    assert (spec.numa_topology, table.encoded["numa"].at(0)) == before


# --- devices near the cells, and allocation candidates (filters.md 2.5) -------------------------------


def pools(*nodes, **more):
    return pools_from_json([GPU | {"count": 1, "numa_node": node} | more for node in nodes])


@pytest.mark.parametrize(
    ("policy", "node", "passes"),
    [
        ("required", 0, True),
        ("required", 1, False),
        ("legacy", 1, False),
        ("legacy", None, True),
        ("preferred", 1, True),
    ],
)
def test_devices_must_be_as_near_as_their_policy_says(policy, node, passes):
    # Cell 1 is too full: the guest can only be on cell 0.
    host = topology(cell(), cell(1, cpu_usage=4, memory_usage=4096))
    request = PciRequest(1, [GPU], policy)
    spec = spec_for({"hw:numa_nodes": "1"}, pci_requests=(request,))
    hosts = {"numa": [host], "pci_pools": [pools(node)], "cpu_allocation_ratio": 1.0}
    assert answer(spec, **hosts) == [passes]


def two_candidates(*providers):
    return tuple({"mappings": {"gpu-0": [provider]}} for provider in providers)


def with_provider(node, provider):
    return GPU | {"count": 1, "numa_node": node, "rp_uuid": provider}


HALF_FULL = topology(cell(), cell(1, cpu_usage=4, memory_usage=4096))
NEAR_AND_FAR = pools_from_json([with_provider(0, "near"), with_provider(1, "far")])
ONE_GPU = PciRequest(1, [GPU], "required", request_id="gpu")


def narrowed(candidates, spec, rule=None, numa=HALF_FULL, devices=NEAR_AND_FAR):
    """Whether the host passes, and the providers of the candidates it has left."""
    table = make_hosts(1, numa=numa, pci_pools=devices, cpu_allocation_ratio=1.0, allocation_candidates=candidates)
    hosts = table.in_the_running()
    (passes,) = (rule or NUMATopologyFilter()).mask(hosts, spec).tolist()
    (host,) = hosts
    return passes, [each["mappings"]["gpu-0"][0] for each in host.allocation_candidates]


def test_candidates_that_do_not_fit_are_gone_and_the_others_keep_their_order():
    spec = spec_for({"hw:numa_nodes": "1"}, pci_requests=(ONE_GPU,))
    assert narrowed(two_candidates("far", "near"), spec) == (True, ["near"])
    assert narrowed(two_candidates("near", "far", "near"), spec) == (True, ["near", "near"])
    assert narrowed(two_candidates("far", "far"), spec) == (False, [])


def test_a_host_without_candidates_fails_whenever_there_is_something_to_check():
    assert narrowed((), spec_for({"hw:numa_nodes": "1"})) == (False, [])


def test_a_host_without_candidates_passes_where_there_is_nothing_to_check():
    assert narrowed((), spec_for()) == (True, [])
    threads = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}
    threaded = topology(cell(siblings=THREADED))
    assert narrowed((), spec_for(threads, derives=False), numa=threaded) == (True, [])


def test_hosts_alike_but_for_their_only_candidate_get_answers_of_their_own():
    spec = spec_for({"hw:numa_nodes": "1"}, pci_requests=(ONE_GPU,))
    candidates = [two_candidates("near"), two_candidates("far"), two_candidates("near")]
    hosts = {"numa": HALF_FULL, "pci_pools": NEAR_AND_FAR, "cpu_allocation_ratio": 1.0}
    assert answer(spec, allocation_candidates=candidates, **hosts) == [True, False, True]


# --- flags and reasons -------------------------------------------------------------------------------


def test_it_is_asked_for_every_instance_and_not_on_rebuild():
    assert NUMATopologyFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(NUMATopologyFilter())


@pytest.mark.parametrize(
    ("extra_specs", "host", "reason"),
    [
        (
            {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
            topology(cell()),
            "CPU threads required; the host's cores have one each",
        ),
        ({"hw:numa_nodes": "1"}, None, "a NUMA topology asked; the host reports none"),
        ({"hw:numa_nodes": "2"}, topology(cell()), "2 NUMA cells asked, the host has 1"),
        (
            DEDICATED,
            topology(cell(pinned_cpus=[0, 1, 2])),
            "no NUMA cell has 2 free dedicated CPUs; the most is 1",
        ),
    ],
)
def test_the_reason_names_the_obstacle(extra_specs, host, reason):
    (view,) = make_hosts(1, numa=host)
    assert NUMATopologyFilter().reason(view, spec_for(extra_specs)) == reason


def test_the_reason_says_when_only_the_devices_are_too_far():
    (host,) = make_hosts(1, numa=HALF_FULL, pci_pools=pools(1), cpu_allocation_ratio=1.0)
    spec = spec_for({"hw:numa_nodes": "1"}, pci_requests=(ONE_GPU,))
    assert "not near the devices" in NUMATopologyFilter().reason(host, spec)
