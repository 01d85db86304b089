# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4: HypervisorVersion."""

from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.sources.fleet_file import Fleet
from roost.testing import make_hosts, make_spec
from roost.weighers.hypervisor_version import HypervisorVersionWeigher

KEY = "hypervisor_version_weight_multiplier"


def weights(hosts, **options):
    weigher = HypervisorVersionWeigher(HypervisorVersionWeigher.Options(**options))
    return weigh(hosts, [weigher], make_spec()).weights.tolist()


def test_newer_hypervisors_are_preferred():
    assert weights(make_hosts(hypervisor_version=[2012000, 6002000, 4007000])) == [0.0, 1.0, 0.5]


def test_a_negative_multiplier_prefers_older_ones():
    assert weights(make_hosts(hypervisor_version=[6, 8, 7]), **{KEY: -2.0}) == [0.0, -2.0, -1.0]


def test_equal_versions_make_no_difference():
    assert weights(make_hosts(hypervisor_version=[2012000, 2012000])) == [0.0, 0.0]


def test_a_version_that_nobody_knows_counts_as_0():
    unknown, known = {"host": "a", "hypervisor_version": None}, {"host": "b", "hypervisor_version": 2012000}
    hosts = Fleet.load({"hosts": [unknown, known, {"host": "c"}]}).table
    assert HypervisorVersionWeigher().weigh(hosts, make_spec()).tolist() == [0, 2012000, 0]


def test_an_aggregate_overrides_the_multiplier_of_its_hosts():
    hosts = make_hosts(hypervisor_version=[7, 7, 0], aggregates=[[{KEY: "-3"}, {KEY: "4"}], [{KEY: "x"}], []])
    assert weights(hosts) == [-3.0, 1.0, 0.0]


def test_the_multiplier_is_1_unless_said_otherwise():
    assert HypervisorVersionWeigher().multiplier() == 1.0


def test_the_multiplier_is_read_from_the_section_filter_scheduler():
    settings = read_options(explicit={"filter_scheduler": {KEY: "-1.5"}})
    assert HypervisorVersionWeigher(settings.fill(HypervisorVersionWeigher.Options)).multiplier() == -1.5
