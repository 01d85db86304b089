# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4.3: hosts with few free PCI devices are preferred."""

import pytest

from roost.errors import OptionError
from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.pci import PCIWeigher

KEY = "pci_weight_multiplier"
GPU = {"vendor_id": "10de", "product_id": "1eb8"}
NIC = {"vendor_id": "8086", "product_id": "154c"}
ONE_GPU = {"count": 1, "spec": [GPU]}


def free(*counts):
    """Pools of which each host has one, with so many devices; none where the count is None."""
    return make_hosts(pci_pools=[[] if count is None else [GPU | {"count": count}] for count in counts])


def raw(hosts, spec=None):
    return PCIWeigher().weigh(hosts, spec or make_spec()).tolist()


def weights(hosts, spec=None, **options):
    return weigh(hosts, [PCIWeigher(PCIWeigher.Options(**options))], spec or make_spec()).weights.tolist()


def test_the_worked_example():
    hosts = free(0, 4, 150)
    assert raw(hosts) == [100, 96, 1]
    assert weights(hosts) == [1.0, 95 / 99, 0.0]
    assert round(weights(hosts)[1], 4) == 0.9596


@pytest.mark.parametrize(("count", "expected"), [(None, 100), (0, 100), (1, 99), (98, 2), (99, 1), (100, 1)])
def test_at_99_free_devices_the_scale_ends(count, expected):
    assert raw(free(count)) == [expected]


def test_the_devices_of_all_pools_are_summed():
    hosts = make_hosts(pci_pools=[[GPU | {"count": 2}, NIC | {"count": 3, "numa_node": 1}], [NIC | {"count": 4}]])
    assert raw(hosts) == [95, 96]


def test_the_request_is_not_consulted():
    hosts = free(0, 4, 150)
    assert weights(hosts, make_spec(pci_requests=[ONE_GPU])) == weights(hosts, make_spec())


def test_equal_hosts_get_0():
    assert weights(free(4, 4)) == [0.0, 0.0]


def test_an_aggregate_overrides_the_multiplier_even_below_0():
    hosts = make_hosts(
        pci_pools=[[], [], [GPU | {"count": 9}]], aggregates=[[{KEY: "-2"}, {KEY: "3"}], [{KEY: "x"}], []]
    )
    assert weights(hosts) == [-2.0, 1.0, 0.0]


def test_the_multiplier_is_1_unless_said_otherwise():
    assert PCIWeigher().multiplier() == 1.0
    assert weights(free(0, 99), pci_weight_multiplier=2.5) == [2.5, 0.0]


def test_a_multiplier_of_0_may_be_configured():
    settings = read_options(explicit={"filter_scheduler": {KEY: "0"}})
    assert PCIWeigher(settings.fill(PCIWeigher.Options)).multiplier() == 0.0


def test_a_negative_multiplier_may_not_be_configured():
    with pytest.raises(OptionError, match=KEY):
        read_options(explicit={"filter_scheduler": {KEY: "-0.1"}})
