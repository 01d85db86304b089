# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4: RAM, CPU and disk; 2.2 and 3 with them."""

import pytest

from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.testing import make_hosts, make_spec
from roost.weighers.cpu import CPUWeigher
from roost.weighers.disk import DiskWeigher
from roost.weighers.ram import RAMWeigher

ALL_THREE = [RAMWeigher, CPUWeigher, DiskWeigher]


def weights(hosts, *weighers):
    return weigh(hosts, weighers, make_spec()).weights.tolist()


@pytest.mark.parametrize(
    ("free_mb", "expected"),
    [
        pytest.param([512, 2048, 8192], [0.0625, 0.25, 1.0], id="between 0 and the most"),
        pytest.param([2048, 2048, 2048], [1.0, 1.0, 1.0], id="all equal: 1, not 0"),
        pytest.param([0, 0], [0.0, 0.0], id="all at 0"),
        pytest.param([-512, -1], [0.0, 0.0], id="all negative"),
        pytest.param([-512, 2048, 8192], [0.0, 0.25, 1.0], id="negative counts as 0"),
    ],
)
def test_worked_examples_of_free_memory(free_mb, expected):
    assert weights(make_hosts(free_ram_mb=free_mb), RAMWeigher()) == expected


@pytest.mark.parametrize(
    ("free_mb", "expected"),
    [
        ([512, 2048, 8192], [0.0625, 0.25, 1.0]),
        ([2048, 2048], [1.0, 1.0]),
        ([-512, 2048, 8192], [0.0, 0.25, 1.0]),
    ],
)
def test_free_disk_is_weighed_by_the_same_rule(free_mb, expected):
    assert weights(make_hosts(free_disk_mb=free_mb), DiskWeigher()) == expected


def test_free_cpus_are_total_times_ratio_less_used():
    hosts = make_hosts(vcpus_total=[4, 8], cpu_allocation_ratio=[16.0, 1.5], vcpus_used=[32, 4])
    assert CPUWeigher().weigh(hosts, make_spec()).tolist() == [32.0, 8.0]


def test_more_cpus_used_than_there_are_count_as_none_free():
    hosts = make_hosts(vcpus_total=2, cpu_allocation_ratio=1.0, vcpus_used=[3, 1, 0])
    assert weights(hosts, CPUWeigher()) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("plugin", "option"),
    [
        (RAMWeigher, "ram_weight_multiplier"),
        (CPUWeigher, "cpu_weight_multiplier"),
        (DiskWeigher, "disk_weight_multiplier"),
    ],
)
def test_a_negative_multiplier_packs(plugin, option):
    hosts = make_hosts(
        free_ram_mb=[1024, 4096], free_disk_mb=[1024, 4096], vcpus_total=[1, 4], cpu_allocation_ratio=1.0
    )
    packing = plugin(plugin.Options(**{option: -2.0}))
    assert weights(hosts, packing) == [-0.5, -2.0]


@pytest.mark.parametrize("plugin", ALL_THREE)
def test_the_multiplier_is_1_unless_said_otherwise(plugin):
    assert plugin().multiplier() == 1.0


@pytest.mark.parametrize(
    ("plugin", "key"),
    [
        (RAMWeigher, "ram_weight_multiplier"),
        (CPUWeigher, "cpu_weight_multiplier"),
        (DiskWeigher, "disk_weight_multiplier"),
    ],
)
def test_an_aggregate_overrides_the_multiplier_under_the_name_of_the_option(plugin, key):
    hosts = make_hosts(aggregates=[[{key: "3"}], []])
    assert plugin().multipliers(hosts).tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    ("plugin", "section", "option"),
    [
        (RAMWeigher, "DEFAULT", "ram_weight_multiplier"),
        (RAMWeigher, "filter_scheduler", "ram_weight_multiplier"),
        (DiskWeigher, "DEFAULT", "disk_weight_multiplier"),
        (DiskWeigher, "filter_scheduler", "disk_weight_multiplier"),
        (CPUWeigher, "filter_scheduler", "cpu_weight_multiplier"),
    ],
)
def test_the_multiplier_is_read_from_either_section_that_nova_had_it_in(plugin, section, option):
    settings = read_options(explicit={section: {option: "-1.5"}})
    assert plugin(settings.fill(plugin.Options)).multiplier() == -1.5
