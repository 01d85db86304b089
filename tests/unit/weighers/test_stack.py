# SPDX-License-Identifier: Apache-2.0
"""StackWeigher: hosts in use before empty ones, the fullest first."""

import pytest
from hypothesis import given

from roost.scheduler.full_scan import weigh
from roost.testing import check_weigher, make_hosts, make_spec
from roost.testing.strategies.hosts import host_tables
from roost.testing.strategies.requests import specs
from roost.weighers.packing import StackWeigher

GIB = 1024
STACKING = StackWeigher(StackWeigher.Options(stack_weight_multiplier=1.0))


def hosts_of_64x256(vcpus_used, gib_used):
    return make_hosts(
        vcpus_total=64,
        vcpus_used=vcpus_used,
        total_usable_ram_mb=256 * GIB,
        free_ram_mb=[(256 - used) * GIB for used in gib_used],
        cpu_allocation_ratio=1.0,
    )


def test_the_example_of_the_docstring():
    hosts = hosts_of_64x256([0, 1, 48, 16], [0, 2, 64, 224])
    assert STACKING.weigh(hosts, make_spec()).tolist() == [0.0, 1.015625, 1.75, 1.875]


def test_a_host_that_is_hardly_in_use_is_far_above_an_empty_one():
    empty, hardly, full = weigh(hosts_of_64x256([0, 1, 64], [0, 2, 256]), [STACKING], make_spec()).weights
    assert empty == 0.0
    assert hardly > 0.5
    assert full == 1.0


def test_the_fullest_resource_counts_local_disk_too():
    hosts = make_hosts(
        vcpus_total=8,
        vcpus_used=2,
        cpu_allocation_ratio=1.0,
        total_usable_disk_gb=100,
        free_disk_mb=[100 * GIB, 40 * GIB],
    )
    assert STACKING.weigh(hosts, make_spec()).tolist() == [1.25, 1.6]


def test_the_request_does_not_matter():
    hosts = hosts_of_64x256([8, 16], [64, 32])
    small, large = make_spec(), make_spec(vcpus=16, memory_mb=16 * GIB, root_gb=50)
    assert STACKING.weigh(hosts, small).tolist() == STACKING.weigh(hosts, large).tolist()


def plain_number(host):
    """The rule for one host, step by step."""
    fullest = 0.0
    for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
        limit = getattr(host, f"limit:{name}")
        if limit > 0:
            fullest = max(fullest, getattr(host, f"allocated:{name}") / limit)
    return 1 + fullest if fullest > 0 else 0.0


@given(host_tables(), specs())
def test_columns_agree_with_a_plain_loop(table, spec):
    expected = [plain_number(host) for host in table.in_the_running()]
    assert STACKING.weigh(table.in_the_running(), spec).tolist() == pytest.approx(expected, abs=1e-9)


def test_it_keeps_the_contract_of_a_weigher():
    check_weigher(STACKING)
    check_weigher(StackWeigher())
