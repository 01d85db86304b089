# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4: BuildFailure, whose multiplier is turned round."""

import numpy as np
import pytest

from roost.plugins.registry import WEIGHERS
from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.build_failure import BuildFailureWeigher

KEY = "build_failure_weight_multiplier"


def weights(hosts, **options):
    weigher = BuildFailureWeigher(BuildFailureWeigher.Options(**options))
    return weigh(hosts, [weigher], make_spec()).weights.tolist()


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        pytest.param([0, 1, 4], [0.0, -250000.0, -1000000.0], id="the worked example"),
        pytest.param([3, 3], [0.0, 0.0], id="equal hosts get 0: the scale has no fixed end"),
        pytest.param([3, 5], [0.0, -1000000.0], id="the least failures are the start of the scale"),
        pytest.param([7], [0.0], id="a single host is not weighed"),
    ],
)
def test_failed_builds_count_against_a_host(failures, expected):
    assert weights(make_hosts(failed_builds=failures)) == expected


def test_the_raw_number_is_that_of_the_failed_builds():
    assert BuildFailureWeigher().weigh(make_hosts(failed_builds=[0, 4]), make_spec()).tolist() == [0, 4]


def test_the_agent_s_counter_is_used_where_no_other_is_given():
    assert weights(make_hosts(stats=[{"failed_builds": "2"}, {"failed_builds": "1"}])) == [-1000000.0, 0.0]


def test_one_failure_outdoes_everything_else_there_is():
    hosts = make_hosts(
        failed_builds=[1, 0],
        free_ram_mb=[10**6, 1],
        free_disk_mb=[9**9, 0],
        vcpus_total=[512, 1],
        num_io_ops=[0, 50],
    )
    total = weigh(hosts, [each() for each in WEIGHERS], make_spec()).weights
    assert np.argmax(total) == 1


def test_the_multiplier_is_turned_round_whatever_its_sign():
    assert weights(make_hosts(failed_builds=[0, 4]), **{KEY: 5.0}) == [0.0, -5.0]
    assert weights(make_hosts(failed_builds=[0, 4]), **{KEY: -5.0}) == [0.0, 5.0]


def test_the_multiplier_of_an_aggregate_is_turned_round_too():
    hosts = make_hosts(failed_builds=[4, 4, 4, 0], aggregates=[[{KEY: "2"}], [{KEY: "-3"}], [{KEY: "x"}], []])
    assert weights(hosts) == [-2.0, 3.0, -1000000.0, 0.0]


def test_the_smallest_of_several_aggregates_is_found_before_it_is_turned_round():
    hosts = make_hosts(failed_builds=[4, 0], aggregates=[[{KEY: "2"}, {KEY: "5"}], []])
    assert weights(hosts) == [-2.0, 0.0]


def test_the_multiplier_is_a_million_unless_said_otherwise():
    assert BuildFailureWeigher().multiplier() == 1000000.0


def test_the_multiplier_is_read_from_the_section_filter_scheduler():
    settings = read_options(explicit={"filter_scheduler": {KEY: "0"}})
    assert BuildFailureWeigher(settings.fill(BuildFailureWeigher.Options)).multiplier() == 0.0
