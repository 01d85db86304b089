# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.3 and 9, the modern column."""

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.ram import RamFilter
from roost.testing import make_hosts, make_spec


def host_with(total, free, ratio, **more):
    return make_hosts(1, total_usable_ram_mb=total, free_ram_mb=free, ram_allocation_ratio=ratio, **more)


@pytest.mark.parametrize(
    ("total", "free", "ratio", "asked", "passes"),
    [
        pytest.param(1024, 1024, 1.0, 1024, True, id="exactly fits"),
        pytest.param(1024, 1023, 1.0, 1024, False, id="one MiB short"),
        pytest.param(1024, -1024, 2.0, 1, False, id="usable 0"),
        pytest.param(1024, -512, 2.0, 512, True, id="usable 512"),
        pytest.param(1024, 1024, 2.0, 2048, False, id="more than the host has in all"),
    ],
)
def test_worked_examples(total, free, ratio, asked, passes):
    assert RamFilter().mask(host_with(total, free, ratio), make_spec(memory_mb=asked)).tolist() == [passes]


@pytest.mark.parametrize("values", [["1.5", "2.0"], ["XXX"]])
def test_the_ratios_of_aggregates_are_not_its_business(values):
    hosts = host_with(1024, 1023, 1.0, aggregates=[[{"ram_allocation_ratio": value} for value in values]])
    assert RamFilter().mask(hosts, make_spec(memory_mb=1024)).tolist() == [False]


@pytest.mark.parametrize(("ratio", "ceiling"), [(1.0, 1024.0), (1.5, 1536.0)])
def test_the_limit_is_total_times_ratio(ratio, ceiling):
    ceilings = RamFilter().ceilings(host_with(1024, 1024, ratio), make_spec(memory_mb=1024))
    assert ceilings["memory_mb"].tolist() == [ceiling]


def test_a_request_for_no_memory_is_refused_where_memory_is_overcommitted():
    hosts = make_hosts(total_usable_ram_mb=1024, free_ram_mb=[0, -1])
    assert RamFilter().mask(hosts, make_spec(memory_mb=0)).tolist() == [True, False]


def test_it_is_asked_for_every_instance():
    assert RamFilter().run_filter_for_index(1)


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(RamFilter())


@pytest.mark.parametrize(
    ("total", "free", "ratio", "asked", "reason"),
    [
        (1024, 1023, 1.0, 1024, "1024 MiB of memory asked; 1023 left of 1024 x 1"),
        (1024, 1024, 2.0, 2048, "2048 MiB of memory asked; the host has 1024 in all"),
    ],
)
def test_the_reason_names_what_was_asked_and_what_was_there(total, free, ratio, asked, reason):
    (host,) = host_with(total, free, ratio)
    assert RamFilter().reason(host, make_spec(memory_mb=asked)) == reason
