# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from roost.testing import make_hosts

FOUR = make_hosts(
    host=["a", "b", "c", "d"],
    free_ram_mb=[1, 2, 3, 4],
    hypervisor_type=["QEMU", "Xen", "QEMU", "Xen"],
    aggregates=[[{"max": "10"}, {"max": "9"}], [{"max": "x"}, {"max": "1"}], [{"other": "1,2"}], []],
    instances=[["i1", "i2"], ["i3"], [], []],
)


def names(hosts):
    return [each.host for each in hosts]


def test_everybody_is_in_the_running_at_the_start():
    assert names(FOUR.in_the_running()) == ["a", "b", "c", "d"]


def test_keep_leaves_those_where_the_mask_is_true_in_their_order():
    kept = FOUR.in_the_running().keep(np.array([True, False, False, True]))
    assert (names(kept), len(kept)) == (["a", "d"], 2)


def test_keep_works_on_what_was_kept_before():
    kept = FOUR.in_the_running().keep(np.array([False, True, True, True])).keep(np.array([True, False, True]))
    assert names(kept) == ["b", "d"]


def test_keeping_all_changes_nothing():
    hosts = FOUR.in_the_running()
    assert hosts.keep(np.ones(4, dtype=bool)) is hosts


def test_keeping_nobody_leaves_nobody():
    assert len(FOUR.in_the_running().keep(np.zeros(4, dtype=bool))) == 0


def test_take_puts_hosts_into_an_order():
    assert names(FOUR.in_the_running().take([3, 0])) == ["d", "a"]


def test_hosts_that_were_taken_read_columns_as_they_are_by_then():
    table = make_hosts(host=["a", "b", "c"], free_ram_mb=[1, 2, 3])
    hosts = table.in_the_running().keep(np.array([True, True, False]))
    assert hosts.free_ram_mb.tolist() == [1, 2]
    table.writable_column("free_ram_mb")[0] = 7
    assert hosts.take(np.array([0, 1])).free_ram_mb.tolist() == [7, 2]


def test_positions_are_those_of_the_hosts_in_the_running():
    hosts = FOUR.in_the_running().take([3, 2, 1])
    assert names(hosts.take([0, 2])) == ["d", "b"]
    assert (hosts.row_at(0), FOUR.in_the_running().row_at(2)) == (3, 2)


def test_a_column_has_one_number_per_host_in_the_running():
    assert FOUR.in_the_running().take([3, 0]).free_ram_mb.tolist() == [4.0, 1.0]


def test_a_rule_is_asked_once_per_distinct_value_in_the_running():
    asked = []
    hosts = FOUR.in_the_running().take([2, 0])
    mask = hosts.per_value("hypervisor_type", lambda value: asked.append(value) or value == "QEMU")
    assert (mask.tolist(), asked) == ([True, True], ["QEMU"])


def test_answers_of_a_rule_are_spread_to_the_hosts_in_their_order():
    lengths = FOUR.in_the_running().take([1, 0]).per_value("hypervisor_type", len, dtype=int)
    assert lengths.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("key", "default", "expected"),
    [
        ("max", 8, [9, 8, 8, 8]),
        ("other", 8, [8, 8, 8, 8]),
    ],
)
def test_aggregate_min_is_the_smallest_number_or_the_default(key, default, expected):
    assert np.broadcast_to(FOUR.aggregate_min(key, default), 4).tolist() == expected


def test_aggregate_min_of_a_key_that_no_aggregate_has_is_the_default_itself():
    assert FOUR.aggregate_min("nosuch", 8) == 8


def test_aggregate_values_are_split_at_commas():
    assert FOUR.aggregate_values("other") == [set(), set(), {"1", "2"}, set()]


def test_instances_are_counted_per_host_in_the_running():
    hosts = FOUR.in_the_running().take([1, 0, 3])
    assert hosts.count_instances(["i1", "i2", "i3", "i9"]).tolist() == [1, 2, 0]


def test_an_instance_named_twice_counts_once():
    assert FOUR.count_instances(["i1", "i1"]).tolist() == [1, 0, 0, 0]


def test_no_instances_are_on_no_host():
    assert FOUR.count_instances([]).tolist() == [0, 0, 0, 0]


def test_aggregate_min_may_fall_back_to_a_column():
    assert FOUR.in_the_running().aggregate_min("max", default=FOUR.free_ram_mb).tolist() == [9, 2, 3, 4]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_rule_is_asked_about_the_first_host_of_each_combination(count):
    kinds = [f"kind {row % count}" for row in range(200)]
    table = make_hosts(host=[f"h{row:03}" for row in range(200)], hypervisor_type=kinds)
    hosts, asked = table.in_the_running().take(np.arange(199, 9, -1)), []

    def rule(host):
        asked.append(host.host)
        return int(host.hypervisor_type.removeprefix("kind "))

    answers = hosts.per_combination(["hypervisor_type"], rule, np.int64)
    assert answers.tolist() == [row % count for row in range(199, 9, -1)]
    assert sorted(asked) == sorted(names(hosts)[:count])
