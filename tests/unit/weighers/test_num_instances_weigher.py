# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4: NumInstances."""

import pytest

from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.num_instances import NumInstancesWeigher

KEY = "num_instances_weight_multiplier"


def weights(hosts, multiplier):
    weigher = NumInstancesWeigher(NumInstancesWeigher.Options(num_instances_weight_multiplier=multiplier))
    return weigh(hosts, [weigher], make_spec()).weights.tolist()


def test_it_is_off_unless_said_otherwise():
    assert NumInstancesWeigher().multiplier() == 0.0
    assert weights(make_hosts(num_instances=[0, 5, 10]), multiplier=0.0) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("multiplier", "expected"),
    [
        pytest.param(1.0, [0.0, 0.25, 1.0], id="positive packs"),
        pytest.param(-2.0, [0.0, -0.5, -2.0], id="negative spreads"),
    ],
)
def test_hosts_are_weighed_between_the_fewest_and_the_most_instances(multiplier, expected):
    assert weights(make_hosts(num_instances=[2, 4, 10]), multiplier) == expected


def test_equal_hosts_get_0_because_the_scale_has_no_fixed_end():
    assert weights(make_hosts(num_instances=[5, 5]), multiplier=1.0) == [0.0, 0.0]


def test_the_number_is_that_of_the_instances_listed_where_no_other_is_reported():
    hosts = make_hosts(instances=[["i1", "i2"], []])
    assert NumInstancesWeigher().weigh(hosts, make_spec()).tolist() == [2, 0]


def test_an_aggregate_alone_switches_it_on_for_its_hosts():
    hosts = make_hosts(num_instances=[10, 10, 0], aggregates=[[{KEY: "-1"}], [{KEY: "many"}], [{KEY: "5"}]])
    assert weights(hosts, multiplier=0.0) == [-1.0, 0.0, 0.0]


def test_the_multiplier_is_read_from_the_section_filter_scheduler():
    settings = read_options(explicit={"filter_scheduler": {KEY: "-1.5"}})
    assert NumInstancesWeigher(settings.fill(NumInstancesWeigher.Options)).multiplier() == -1.5
