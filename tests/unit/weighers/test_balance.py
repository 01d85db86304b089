# SPDX-License-Identifier: Apache-2.0
"""BalanceWeigher: CPUs and memory are used up together."""

import pytest
from hypothesis import given

from roost.scheduler.full_scan import weigh
from roost.testing import check_weigher, make_hosts, make_spec
from roost.testing.strategies.hosts import host_tables
from roost.testing.strategies.requests import specs
from roost.weighers.packing import BalanceWeigher

GIB = 1024
EVENING = BalanceWeigher(BalanceWeigher.Options(balance_weight_multiplier=1.0))


def hosts_of_64x256(vcpus_used, gib_used):
    return make_hosts(
        vcpus_total=64,
        vcpus_used=vcpus_used,
        total_usable_ram_mb=256 * GIB,
        free_ram_mb=[(256 - used) * GIB for used in gib_used],
        cpu_allocation_ratio=1.0,
    )


def test_the_example_of_the_docstring():
    hosts = hosts_of_64x256([0, 32, 16], [0, 64, 192])
    spec = make_spec(vcpus=8, memory_mb=16 * GIB)
    assert EVENING.weigh(hosts, spec).tolist() == [-0.0625, -0.0625, 0.0625]
    assert weigh(hosts, [EVENING], spec).weights.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("vcpus", "gib", "expected"),
    [
        pytest.param(16, 16, [-0.1875, 0.1875], id="many CPUs go where CPUs are left over"),
        pytest.param(4, 64, [0.1875, -0.1875], id="much memory goes where memory is left over"),
        pytest.param(8, 32, [0.0, 0.0], id="a request in proportion to the hosts changes nothing"),
    ],
)
def test_a_request_goes_where_it_evens_out(vcpus, gib, expected):
    hosts = hosts_of_64x256([48, 16], [64, 192])
    assert EVENING.weigh(hosts, make_spec(vcpus=vcpus, memory_mb=gib * GIB)).tolist() == expected


def test_going_past_the_middle_counts_only_for_what_is_gained():
    hosts = hosts_of_64x256([0], [16])  # 6.25 % of memory ahead
    assert EVENING.weigh(hosts, make_spec(vcpus=8, memory_mb=0)).tolist() == [0.0]  # 6.25 % of CPUs ahead
    assert EVENING.weigh(hosts, make_spec(vcpus=12, memory_mb=0)).tolist() == [-0.0625]


def test_an_empty_host_is_no_better_than_one_that_is_used_in_proportion():
    hosts = hosts_of_64x256([0, 32], [0, 128])
    first, second = EVENING.weigh(hosts, make_spec(vcpus=8, memory_mb=16 * GIB))
    assert first == second


def test_where_all_hosts_are_alike_rounding_does_not_pick_one():
    used = list(range(0, 60, 7))
    hosts = make_hosts(
        vcpus_total=64,
        vcpus_used=used,
        total_usable_ram_mb=196608,
        free_ram_mb=[196608 - 1792 * each for each in used],
        cpu_allocation_ratio=1.0,
    )
    assert weigh(hosts, [EVENING], make_spec(vcpus=1, memory_mb=1792)).weights.tolist() == [0.0] * len(used)


def test_a_host_without_cpus_or_without_memory_is_never_out_of_balance():
    hosts = make_hosts(vcpus_total=[0, 8], total_usable_ram_mb=[8 * GIB, 0], free_ram_mb=[4 * GIB, 0])
    assert EVENING.weigh(hosts, make_spec(vcpus=1, memory_mb=GIB)).tolist() == [0.0, 0.0]


def plain_number(host, spec):
    """The rule for one host, step by step."""
    limits = [getattr(host, f"limit:{name}") for name in ("VCPU", "MEMORY_MB")]
    if min(limits) <= 0:
        return 0.0
    used = [getattr(host, f"allocated:{name}") for name in ("VCPU", "MEMORY_MB")]
    asked = [spec.amounts.get(name, 0) for name in ("VCPU", "MEMORY_MB")]
    before = used[0] / limits[0] - used[1] / limits[1]
    after = (used[0] + asked[0]) / limits[0] - (used[1] + asked[1]) / limits[1]
    return abs(before) - abs(after)


@given(host_tables(), specs())
def test_columns_agree_with_a_plain_loop(table, spec):
    expected = [plain_number(host, spec) for host in table.in_the_running()]
    assert EVENING.weigh(table.in_the_running(), spec).tolist() == pytest.approx(expected, abs=2e-9)


def test_it_keeps_the_contract_of_a_weigher():
    check_weigher(EVENING)
    check_weigher(BalanceWeigher())
