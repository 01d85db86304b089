# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.2 and 9, the modern column."""

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.disk import DiskFilter
from roost.testing import make_hosts, make_spec


def host_with(total_gb, free_mb, ratio, **more):
    return make_hosts(1, total_usable_disk_gb=total_gb, free_disk_mb=free_mb, disk_allocation_ratio=ratio, **more)


def sizes(root_gb, ephemeral_gb, swap_mb):
    return make_spec(root_gb=root_gb, ephemeral_gb=ephemeral_gb, swap=swap_mb)


@pytest.mark.parametrize(
    ("total_gb", "free_mb", "ratio", "asked", "passes"),
    [
        pytest.param(10, 3072, 1.0, (1, 1, 1024), True, id="exactly fits, swap counted"),
        pytest.param(10, 3071, 1.0, (1, 1, 1024), False, id="one MiB short"),
        pytest.param(10, 0, 1.5, (5, 0, 0), True, id="overcommitted: 15360 - 10240 = 5120"),
        pytest.param(10, 10240, 2.0, (15, 0, 0), False, id="more than the host has in all"),
        pytest.param(10, -1024, 1.0, (0, 0, 0), False, id="usable -1024 is less than nothing asked"),
        pytest.param(10, -1024, 1.5, (4, 0, 0), True, id="usable 4096"),
    ],
)
def test_worked_examples(total_gb, free_mb, ratio, asked, passes):
    assert DiskFilter().mask(host_with(total_gb, free_mb, ratio), sizes(*asked)).tolist() == [passes]


@pytest.mark.parametrize(("total_gb", "ratio", "ceiling_gb"), [(10, 1.0, 10.0), (10, 1.5, 15.0), (3, 0.5, 1.5)])
def test_the_limit_is_total_times_ratio_in_gb(total_gb, ratio, ceiling_gb):
    ceilings = DiskFilter().ceilings(host_with(total_gb, 10240, ratio), sizes(1, 0, 0))
    assert ceilings["disk_gb"].tolist() == [ceiling_gb]


@pytest.mark.parametrize(("swap_mb", "passes"), [(1, True), (2, False)])
def test_swap_is_counted_in_mib_and_not_rounded(swap_mb, passes):
    assert DiskFilter().mask(host_with(10, 1025, 1.0), sizes(1, 0, swap_mb)).tolist() == [passes]


def test_a_volume_booted_root_disk_is_counted_all_the_same():
    hosts = host_with(10, 1024, 1.0)
    assert DiskFilter().mask(hosts, make_spec(root_gb=2, is_bfv=True)).tolist() == [False]


def test_the_ratio_of_an_aggregate_is_not_its_business():
    hosts = host_with(10, 0, 1.0, aggregates=[[{"disk_allocation_ratio": "2"}]])
    assert DiskFilter().mask(hosts, sizes(1, 0, 0)).tolist() == [False]


def test_it_is_asked_for_every_instance():
    assert DiskFilter().run_filter_for_index(1)


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(DiskFilter())


@pytest.mark.parametrize(
    ("total_gb", "free_mb", "ratio", "asked", "reason"),
    [
        (10, 3071, 1.0, (1, 1, 1024), "3072 MiB of disk asked; 3071 left of 10240 x 1"),
        (10, 10240, 2.0, (15, 0, 0), "15360 MiB of disk asked; the host has 10240 in all"),
    ],
)
def test_the_reason_names_what_was_asked_and_what_was_there(total_gb, free_mb, ratio, asked, reason):
    (host,) = host_with(total_gb, free_mb, ratio)
    assert DiskFilter().reason(host, sizes(*asked)) == reason
