# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.1 and 9, the modern column."""

import math

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.core import CoreFilter
from roost.testing import make_hosts, make_spec


def host_with(total, used, ratio, **more):
    return make_hosts(1, vcpus_total=total, vcpus_used=used, cpu_allocation_ratio=ratio, **more)


@pytest.mark.parametrize(
    ("total", "used", "ratio", "asked", "passes", "ceiling"),
    [
        pytest.param(4, 8, 2.0, 1, False, 8.0, id="full, and the limit is still written"),
        pytest.param(4, 7, 2.0, 1, True, 8.0, id="exactly fits"),
        pytest.param(1, 0, 16.0, 2, False, 16.0, id="no overcommit against itself"),
        pytest.param(0, 0, 16.0, 8, True, None, id="no CPU count: passes without a limit"),
        pytest.param(4, 0, 0.0, 1, False, None, id="ratio 0: nothing fits, no limit"),
    ],
)
def test_worked_examples(total, used, ratio, asked, passes, ceiling):
    hosts, spec = host_with(total, used, ratio), make_spec(vcpus=asked)
    assert CoreFilter().mask(hosts, spec).tolist() == [passes]
    (written,) = CoreFilter().ceilings(hosts, spec)["vcpu"].tolist()
    assert (None if math.isnan(written) else written) == ceiling


@pytest.mark.parametrize(("asked", "passes"), [(4, True), (5, False)])
def test_one_instance_may_take_all_physical_cpus_and_not_one_more(asked, passes):
    assert CoreFilter().mask(host_with(4, 0, 16.0), make_spec(vcpus=asked)).tolist() == [passes]


@pytest.mark.parametrize(("used", "passes"), [(5, True), (6, False)])
def test_a_ratio_with_a_fraction_is_not_rounded(used, passes):
    assert CoreFilter().mask(host_with(5, used, 1.3), make_spec(vcpus=1)).tolist() == [passes]  # 6.5 in all


def test_a_host_without_cpu_count_passes_even_with_cpus_used():
    assert CoreFilter().mask(host_with(0, 3, 4.0), make_spec(vcpus=1)).tolist() == [True]


def test_the_ratio_of_an_aggregate_is_not_its_business():
    hosts = host_with(4, 10, 16.0, aggregates=[[{"cpu_allocation_ratio": "2"}]])
    assert CoreFilter().mask(hosts, make_spec(vcpus=2)).tolist() == [True]


def test_each_host_has_its_own_ratio():
    hosts = make_hosts(vcpus_total=[4, 4], vcpus_used=[8, 8], cpu_allocation_ratio=[2.0, 4.0])
    assert CoreFilter().mask(hosts, make_spec(vcpus=1)).tolist() == [False, True]


def test_it_is_asked_for_every_instance():
    assert CoreFilter().run_filter_for_index(1)


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(CoreFilter())


@pytest.mark.parametrize(
    ("total", "used", "ratio", "asked", "reason"),
    [
        (4, 7, 2.0, 2, "2 CPUs asked; 1 left of 4 x 2"),
        (1, 0, 16.0, 2, "2 CPUs asked; the host has 1 in all"),
        (5, 6, 1.3, 1, "1 CPUs asked; 0.5 left of 5 x 1.3"),
    ],
)
def test_the_reason_names_what_was_asked_and_what_was_there(total, used, ratio, asked, reason):
    (host,) = host_with(total, used, ratio)
    assert CoreFilter().reason(host, make_spec(vcpus=asked)) == reason
