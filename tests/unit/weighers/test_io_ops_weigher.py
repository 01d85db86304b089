# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4 and the rows of 2.2 about IoOps."""

import pytest

from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.io_ops import IoOpsWeigher

KEY = "io_ops_weight_multiplier"


def weights(hosts, weigher=None):
    return weigh(hosts, [weigher or IoOpsWeigher()], make_spec()).weights.tolist()


@pytest.mark.parametrize(
    ("io_ops", "expected"),
    [
        pytest.param([3, 3], [-1.0, -1.0], id="equal and busy: -1 each"),
        pytest.param([0, 2, 4], [0.0, -0.5, -1.0], id="between 0 and the most"),
        pytest.param([2, 4], [-0.5, -1.0], id="the scale starts at 0, not at the least"),
        pytest.param([0, 0], [0.0, 0.0], id="nobody is busy"),
        pytest.param([-2, 4], [0.0, -1.0], id="negative counts as 0"),
    ],
)
def test_worked_examples(io_ops, expected):
    assert weights(make_hosts(num_io_ops=io_ops)) == expected


def test_the_raw_number_is_the_operations_running():
    assert IoOpsWeigher().weigh(make_hosts(num_io_ops=[7, 0]), make_spec()).tolist() == [7, 0]


def test_a_single_busy_host_is_not_weighed():
    assert weights(make_hosts(num_io_ops=[9])) == [0.0]


def test_a_positive_multiplier_prefers_busy_hosts():
    busy = IoOpsWeigher(IoOpsWeigher.Options(io_ops_weight_multiplier=2.0))
    assert weights(make_hosts(num_io_ops=[1, 4]), busy) == [0.5, 2.0]


def test_an_aggregate_overrides_the_multiplier_of_its_hosts():
    hosts = make_hosts(num_io_ops=[4, 4, 4], aggregates=[[{KEY: "-3"}], [{KEY: "bogus"}], []])
    assert weights(hosts) == [-3.0, -1.0, -1.0]


def test_the_smallest_of_several_aggregates_counts():
    hosts = make_hosts(num_io_ops=[4, 4], aggregates=[[{KEY: "2"}, {KEY: "-1.5"}], [{KEY: "2"}, {KEY: "10"}]])
    assert weights(hosts) == [-1.5, 2.0]


def test_the_multiplier_is_minus_1_unless_said_otherwise():
    assert IoOpsWeigher().multiplier() == -1.0


@pytest.mark.parametrize("section", ["DEFAULT", "filter_scheduler"])
def test_the_multiplier_is_read_from_either_section_that_nova_had_it_in(section):
    settings = read_options(explicit={section: {KEY: "0.5"}})
    assert IoOpsWeigher(settings.fill(IoOpsWeigher.Options)).multiplier() == 0.5
