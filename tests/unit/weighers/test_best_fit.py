# SPDX-License-Identifier: Apache-2.0
"""BestFitWeigher: the least room left, over everything that is asked for."""

import pytest
from hypothesis import given

from roost.hosts.record import Inventory
from roost.scheduler.full_scan import weigh
from roost.testing import check_weigher, make_hosts, make_spec
from roost.testing.strategies.hosts import host_tables
from roost.testing.strategies.requests import specs
from roost.weighers.packing import BestFitWeigher

GIB = 1024
PACKING = BestFitWeigher(BestFitWeigher.Options(best_fit_weight_multiplier=1.0))


def numbers(hosts, **request):
    return PACKING.weigh(hosts, make_spec(**request)).tolist()


def test_the_example_of_the_docstring():
    hosts = make_hosts(
        host=["a", "b", "c"],
        vcpus_total=[64, 64, 16],
        vcpus_used=[32, 56, 4],
        total_usable_ram_mb=[128 * GIB, 128 * GIB, 64 * GIB],
        free_ram_mb=[64 * GIB, 96 * GIB, 32 * GIB],
        cpu_allocation_ratio=1.0,
    )
    assert numbers(hosts, vcpus=8, memory_mb=16 * GIB) == [0.625, 0.6875, 0.75]
    assert weigh(hosts, [PACKING], make_spec(vcpus=8, memory_mb=16 * GIB)).weights.tolist() == [0.0, 0.5, 1.0]


def test_what_is_not_asked_for_does_not_count():
    hosts = make_hosts(
        vcpus_total=8, cpu_allocation_ratio=1.0, total_usable_ram_mb=8 * GIB, total_usable_disk_gb=[10, 99]
    )
    assert numbers(hosts, vcpus=4, memory_mb=4 * GIB) == [0.5, 0.5]
    assert numbers(hosts, vcpus=4, memory_mb=4 * GIB, root_gb=10) == [
        pytest.approx(2 / 3),
        pytest.approx(0.367003367),
    ]


def test_a_custom_resource_class_counts_like_the_others():
    hosts = make_hosts(vcpus_total=8, cpu_allocation_ratio=1.0, resources=[{"CUSTOM_GPU": Inventory(4)}, {}])
    request = {"vcpus": 2, "memory_mb": 0, "extra_specs": {"resources:CUSTOM_GPU": "2"}}
    assert numbers(hosts, **request) == [(0.25 + 0.5) / 2, 0.25 / 2]  # who has none of it comes last


def test_a_class_that_no_host_has_counts_as_nothing_in_use():
    hosts = make_hosts(vcpus_total=8, cpu_allocation_ratio=1.0)
    assert numbers(hosts, vcpus=4, memory_mb=0, extra_specs={"resources:CUSTOM_GPU": "2"}) == [0.25]


def test_shares_are_of_what_may_be_given_out():
    hosts = make_hosts(vcpus_total=10, reserved_vcpus=2, cpu_allocation_ratio=[1.0, 2.0])
    assert numbers(hosts, vcpus=4, memory_mb=0) == [0.5, 0.25]


def test_hosts_that_only_rounding_tells_apart_get_the_same_number():
    assert 0.1 + 0.7 < 0.3 + 0.5
    hosts = make_hosts(
        vcpus_total=10, vcpus_used=[0, 2], total_usable_ram_mb=1000, free_ram_mb=[400, 600], cpu_allocation_ratio=1.0
    )
    assert numbers(hosts, vcpus=1, memory_mb=100) == [0.4, 0.4]


def test_a_request_that_asks_for_nothing_finds_all_hosts_alike():
    assert numbers(make_hosts(3), vcpus=0, memory_mb=0) == [0.0, 0.0, 0.0]


def plain_number(host, spec):
    """The rule as a loop over one host."""
    shares = []
    for name, amount in spec.amounts.items():
        limit = getattr(host, f"limit:{name}")
        shares.append((getattr(host, f"allocated:{name}") + amount) / limit if limit > 0 else 0.0)
    return sum(shares) / len(shares) if shares else 0.0


@given(host_tables(), specs())
def test_columns_agree_with_a_plain_loop(table, spec):
    expected = [plain_number(host, spec) for host in table.in_the_running()]
    assert PACKING.weigh(table.in_the_running(), spec).tolist() == pytest.approx(expected, abs=1e-9)


def test_it_keeps_the_contract_of_a_weigher():
    check_weigher(PACKING)
    check_weigher(BestFitWeigher())


def test_whatever_changes_a_custom_class_changes_a_column_that_it_reads():
    hosts = make_hosts(vcpus_total=8, resources={"CUSTOM_GPU": Inventory(4)})
    spec = make_spec(vcpus=0, memory_mb=0, extra_specs={"resources:CUSTOM_GPU": "1"}, instance_uuid="vm1")
    before = hosts.changes.version
    placed = hosts.consume(0, spec)
    assert hosts.changes.rows_since(hosts.changes.version - 1)[0] & BestFitWeigher.reads
    hosts.release(0, placed)
    assert hosts.changes.rows_since(hosts.changes.version - 1)[0] & BestFitWeigher.reads
    assert hosts.changes.version == before + 2
