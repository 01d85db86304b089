# SPDX-License-Identifier: Apache-2.0
"""A host's NUMA topology and PCI pools in nova's objects."""

import pytest

from roost.errors import FieldError
from roost.hosts.numa_cells import HostTopology, PagePool
from roost.messages.objects.envelope import close_envelope, close_list
from roost.messages.objects.numa_pci import host_topology_from_object, pools_from_object

CELL = {
    "id": 1,
    "cpuset": [0, 1],
    "pcpuset": [2, 3],
    "memory": 4096,
    "cpu_usage": 1,
    "memory_usage": 512,
    "pinned_cpus": [2],
    "siblings": [[0, 1], [2, 3]],
    "socket": 0,
}


def topology(**cell):
    return close_envelope("NUMATopology", {"cells": [close_envelope("NUMACell", CELL | cell)]})


def test_a_topology_has_usage_pages_and_networks():
    pages = close_envelope("NUMAPagesTopology", {"size_kb": 4, "total": 100, "used": 7, "reserved": 2})
    networks = close_envelope("NetworkMetadata", {"physnets": ["left"], "tunneled": True})
    found = host_topology_from_object(topology(mempages=[pages], network_metadata=networks))
    (cell,) = found.cells
    assert (cell.id, cell.memory, cell.memory_usage, cell.cpu_usage, cell.socket) == (1, 4096, 512, 1, 0)
    assert (cell.cpuset, cell.pcpuset, cell.pinned_cpus) == ({0, 1}, {2, 3}, {2})
    assert cell.mempages == (PagePool(4, 100, 7, 2),)
    assert (cell.physnets, cell.tunneled) == ({"left"}, True)


def test_before_train_dedicated_cpus_were_those_of_the_cell():
    old = close_envelope("NUMACell", {name: each for name, each in CELL.items() if name != "pcpuset"}, "1.4")
    (cell,) = host_topology_from_object(close_envelope("NUMATopology", {"cells": [old]})).cells
    assert cell.pcpuset == cell.cpuset == {0, 1}


@pytest.mark.parametrize("value", [None, close_envelope("NUMATopology", {"cells": []})])
def test_no_cells_is_no_topology(value):
    assert host_topology_from_object(value) is None


@pytest.mark.parametrize(
    "value", [topology(memory="much"), topology(cpuset=[-1]), close_envelope("NUMATopology", {}, "2.0")]
)
def test_a_topology_that_is_not_understood_is_refused(value):
    with pytest.raises(FieldError):
        host_topology_from_object(value)


def test_tags_of_a_pool_are_its_properties():
    tags = {"dev_type": "type-PCI", "address": "0000:01:00.0"}
    data = {"vendor_id": "8086", "product_id": "1572", "numa_node": 1, "count": 3, "tags": tags}
    (pool,) = pools_from_object(close_list("PciDevicePoolList", [close_envelope("PciDevicePool", data)]))
    assert pool.to_dict() == {key: each for key, each in data.items() if key != "tags"} | tags


def test_no_pools_is_an_empty_list():
    assert pools_from_object(None) == pools_from_object(close_list("PciDevicePoolList", [])) == ()


def test_topologies_are_equal_if_their_objects_are():
    assert isinstance(host_topology_from_object(topology()), HostTopology)
    assert host_topology_from_object(topology()) == host_topology_from_object(topology())
