# SPDX-License-Identifier: Apache-2.0
"""A repeated request of a guest is a repeat, whether its host could give all that it asked for or not."""

import json
from dataclasses import replace

import pytest
from tests.flow.cloud import UUID, hosts_of

from roost import Flavor, RequestSpec
from roost.model.resources import move_of

ALIASES = [
    json.dumps({"name": name, "vendor_id": "10de", "product_id": product, "device_type": "type-PCI"})
    for name, product in (("gpu", "1eb8"), ("big", "20b0"))
]
CELL = {"id": 0, "cpuset": [], "pcpuset": [0], "memory": 16384, "mempages": [{"size_kb": 4, "total": 4194304}]}


def options(**more):
    return {"pci": {"alias": ALIASES}, "filter_scheduler": {"weight_classes": ["RAMWeigher"], **more}}


def asking_for(**specs):
    return RequestSpec(flavor=Flavor(2, 8192, root_gb=1, extra_specs=specs))


@pytest.mark.parametrize(
    "specs", [{"hw:cpu_policy": "dedicated"}, {"hw:numa_nodes": "1"}, {"pci_passthrough:alias": "gpu:1"}]
)
@pytest.mark.parametrize("more", [{}, {"numa": {"cells": [CELL]}}])
def test_without_the_filters_a_repeated_request_gets_the_same_host(make_cloud, specs, more):
    """It does not fit, and is placed all the same: nothing is booked, and the repeat must not move it."""
    hosts = {"a": more, "b": {"total_usable_ram_mb": 30000, **more}}
    cloud = make_cloud(hosts, options(enabled_filters=["ComputeFilter"]))
    schedulers = [cloud.manager(), cloud.manager()]
    for number in range(4):
        assert hosts_of(schedulers[number % 2].claims.select(asking_for(**specs), [UUID % 1])) == ["a"]
    assert cloud.held(UUID % 1, move_of(UUID % 1)) == {UUID % 1: ["a"]}


def pools(product):
    return [{"vendor_id": "10de", "product_id": product, "count": 2, "dev_type": "type-PCI"}]


def test_a_resize_to_as_many_devices_of_another_kind_is_no_repeat(make_cloud):
    hosts = {"a": {"pci_pools": pools("1eb8")}, "b": {"pci_pools": pools("20b0"), "total_usable_ram_mb": 30000}}
    loop = make_cloud(hosts, options()).manager().claims
    assert hosts_of(loop.select(asking_for(**{"pci_passthrough:alias": "gpu:1"}), [UUID % 1])) == ["a"]
    for _ in range(2):
        assert hosts_of(loop.select(asking_for(**{"pci_passthrough:alias": "big:1"}), [UUID % 1])) == ["b"]


@pytest.mark.parametrize("other", [{"hw:mem_page_size": "2048"}, {"hw:emulator_threads_policy": "isolate"}])
def test_a_resize_to_other_pages_or_emulator_threads_is_no_repeat(make_cloud, other):
    pages = [{"size_kb": 4, "total": 262144}, {"size_kb": 2048, "total": 8192}]
    cell = {**CELL, "pcpuset": [0, 1, 2, 3, 4, 5], "mempages": pages}
    cloud = make_cloud({"a": {"numa": {"cells": [cell]}}}, options())
    loop, spec = cloud.manager().claims, asking_for(**{"hw:cpu_policy": "dedicated", "hw:mem_page_size": "4"})
    spec = replace(spec, flavor=replace(spec.flavor, memory_mb=512))
    loop.select(spec, [UUID % 1])
    specs = {**spec.flavor.extra_specs, **other}
    loop.select(replace(spec, flavor=replace(spec.flavor, extra_specs=specs)), [UUID % 1])
    assert cloud.held(UUID % 1, move_of(UUID % 1)) == {UUID % 1: ["a"], move_of(UUID % 1): ["a"]}
