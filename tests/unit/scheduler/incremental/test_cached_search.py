# SPDX-License-Identifier: Apache-2.0
"""Placing from the cache compared with a full scan, in named situations and in random ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.incremental.compared import GPU, Compared, by, fleet, of_group, report

from roost.filters.compute import ComputeFilter
from roost.filters.core import CoreFilter
from roost.filters.io_ops import IoOpsFilter
from roost.filters.server_group import ServerGroupAntiAffinityFilter
from roost.hosts import Inventory
from roost.hosts.table import ChangeLog
from roost.scheduler.incremental import request_class
from roost.testing import make_spec
from roost.weighers.cpu import CPUWeigher
from roost.weighers.io_ops import IoOpsWeigher
from roost.weighers.num_instances import NumInstancesWeigher
from roost.weighers.packing import BestFitWeigher
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher


def test_room_for_the_sizes_seen_before_is_not_room_for_a_larger_one():
    compared = Compared(fleet(2, free_ram_mb=[1000, 900]), [], [RAMWeigher()])
    for number in range(3):
        assert compared.place_and_release(make_spec(memory_mb=100), f"i{number}") == ["h000"]
    assert compared.place(make_spec(memory_mb=5000), "j1") == []
    report(compared.table, 0, free_ram_mb=9000)
    assert compared.place(make_spec(memory_mb=5000), "j1") == ["h000"]


def test_a_new_resource_class_and_its_portions_are_followed():
    compared = Compared(fleet(2), [], [RAMWeigher()])
    one, two = (make_spec(extra_specs={f"resources:{GPU}": amount}) for amount in ("1", "2"))
    assert compared.place(one, "i0") == []
    for row, free_ram_mb in enumerate([9000, 1000]):
        report(compared.table, row, resources={GPU: Inventory(8)}, free_ram_mb=free_ram_mb)
    assert [compared.place(spec, f"i{at}") for at, spec in enumerate([one, two, one, two])] == [["h000"]] * 4
    report(compared.table, 0, resources={GPU: Inventory(8, step_size=2)}, free_ram_mb=9000)
    assert [compared.place(spec, f"j{at}") for at, spec in enumerate([one, two])] == [["h001"], ["h000"]]


def test_where_memory_is_given_out_in_portions_room_for_much_is_not_room_for_less():
    coarse, fine = ({"MEMORY_MB": Inventory(65536, min_unit=least)} for least in (2048, 1))
    compared = Compared(fleet(2, resources=[coarse, fine], free_ram_mb=[9000, 5000]), [], [RAMWeigher()])
    much, less = make_spec(memory_mb=4096), make_spec(memory_mb=1024)
    for number in range(3):
        assert compared.place_and_release(much, f"i{number}") == ["h000"]
        assert compared.place_and_release(less, f"j{number}") == ["h001"]
        report(compared.table, 0, resources=coarse, free_ram_mb=9000 + number)
    report(compared.table, 0, resources=fine, free_ram_mb=9000)
    assert compared.place_and_release(less, "k") == ["h000"]


@pytest.mark.parametrize("holds", [0, 5], ids=["no change", "five changes"])
def test_changes_that_the_log_does_not_hold_are_followed(holds):
    compared = Compared(fleet(10), [ComputeFilter()], [RAMWeigher()])
    compared.table.changes = ChangeLog(keep=holds)
    for number in range(3):
        compared.place(make_spec(memory_mb=1000), *(f"i{number}-{at}" for at in range(4)))
        for row in range(9):
            report(compared.table, row, free_ram_mb=5000 + 100 * row)
        assert compared.place(make_spec(memory_mb=1000), f"j{number}") == ["h009"]


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("instances", [1, 3])
@pytest.mark.parametrize("other", [NumInstancesWeigher, BestFitWeigher], ids=["", "with a weigher of sizes"])
def test_nearly_full_hosts_are_packed(instances, other):
    nearly_full = [600 + 10 * row for row in range(20)] + [20000, 30000, 20000, 40000]
    weighers = [by(RAMWeigher, -1.0), by(other, 0.3)]
    compared = Compared(fleet(24, free_ram_mb=nearly_full), [ComputeFilter()], weighers)
    for number in range(10):
        for size in (100, 4000, 9000):
            compared.place(make_spec(memory_mb=size), *(f"i{number}-{size}-{at}" for at in range(instances)))
        report(compared.table, number * 7 % 24, free_ram_mb=500 + 2500 * (number % 3))


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_more_changes_than_a_family_notes_for_its_classes_are_followed(most, monkeypatch):
    """Every host has room for one instance, and the fullest hosts are the best."""
    monkeypatch.setattr(request_class, "_MOST_NOTED", most)
    compared = Compared(fleet(12, total_usable_ram_mb=4096), [ComputeFilter()], [by(RAMWeigher, -1.0)])
    for number in range(4):
        uuids = [f"i{number}-{at}" for at in range(3)]
        assert len(compared.place(make_spec(memory_mb=2100 + number % 2), *uuids)) == 3


@pytest.mark.parametrize("policy", ["anti-affinity", "soft-affinity", "soft-anti-affinity"])
@pytest.mark.parametrize("others", [[], [by(BestFitWeigher, 0.001)]], ids=["", "with a weigher of sizes"])
def test_groups_follow_members_that_join_and_leave(policy, others):
    weighers = [ServerGroupSoftAffinityWeigher(), ServerGroupSoftAntiAffinityWeigher(), *others]
    table = fleet(4, instances=[["u1"], ["u2"], ["u3", "u4"], []])
    compared = Compared(table, [ServerGroupAntiAffinityFilter()], weighers)
    rounds = ["", "1", "1", "12", "23", "34", "", "3", "41", "123", "2"]
    for at, numbers in enumerate(rounds):
        compared.place_and_release(of_group(policy, *(f"u{number}" for number in numbers)), f"i{at}")
        table.changes.note(at % 4, frozenset({"num_io_ops"}))


def test_instances_keep_apart_as_their_group_grows_and_one_that_runs_may_stay():
    compared = Compared(fleet(4), [ServerGroupAntiAffinityFilter()], [RAMWeigher()])
    spec = of_group("anti-affinity", "a", "b", "c", "d")
    assert compared.place(spec, "a", "b") == ["h000", "h001"]
    assert compared.place(spec, "c", "d") == ["h002", "h003"]
    assert [compared.place(spec, uuid) for uuid in ("e", "d", "e")] == [[], ["h003"], []]


REPORTS = st.fixed_dictionaries(
    {
        "free_ram_mb": st.sampled_from([-1, 600, 5000, 65536]),
        "num_io_ops": st.sampled_from([0, 9]),
        "service": st.sampled_from([{}, {}, {"up": False}]),
        "aggregates": st.sampled_from([[], [], [], [{"ram_weight_multiplier": "-2"}]]),
    }
)
SIZES = st.sampled_from([(512, 1), (4000, 1), (20000, 2), (512, 3), (1000, 2)])
"""MiB and number of instances."""
STEPS = st.one_of(
    st.tuples(st.just("place"), SIZES, st.sampled_from([None, "az1"])),
    st.tuples(st.just("release"), st.integers(0, 50), st.none()),
    st.tuples(st.just("report"), st.integers(0, 11), REPORTS),
)


@pytest.mark.usefixtures("holds_few")
@pytest.mark.parametrize("multiplier", [1.0, -1.0])
@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=14))
def test_whatever_happens_the_answers_are_those_of_a_full_scan(multiplier, steps):
    table = fleet(12, free_ram_mb=[1000 + 900 * (row % 7) for row in range(12)])
    weighers = [by(RAMWeigher, multiplier), by(NumInstancesWeigher, -0.25)]
    compared = Compared(table, [ComputeFilter(), IoOpsFilter(), CoreFilter()], weighers)
    placed = []
    for number, (kind, what, more) in enumerate(steps):
        if kind == "place":
            spec = make_spec(memory_mb=what[0], availability_zone=more)
            uuids = [f"i{number}-{at}" for at in range(what[1])]
            compared.place(spec, *uuids)
            placed += [(row, spec.for_instance(uuid)) for uuid in uuids for row in table.rows_of_instance(uuid)]
        elif kind == "release" and placed:
            table.release(*placed.pop(what % len(placed)))
        elif kind == "report":
            report(table, what, **more)
            placed = [each for each in placed if each[0] != what]


@pytest.mark.parametrize("uuids", [["a"], ["a", "b"]])
@pytest.mark.parametrize("multiplier", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("affected", [1, 3, 4])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_weights_that_are_not_finite_are_answered_as_by_a_full_scan(affected, multiplier, uuids):
    aggregates = [[{"ram_weight_multiplier": multiplier}] if row < affected else [] for row in range(4)]
    table = fleet(4, free_ram_mb=[9000, 8000, 7000, 6000], aggregates=aggregates)
    compared = Compared(table, [], [RAMWeigher()])
    for number in range(3):
        assert compared.place(make_spec(memory_mb=100), *(f"{uuid}{number}" for uuid in uuids))
    spec = make_spec(memory_mb=100, ignore_hosts=["h003"])
    assert compared.place(spec, "last")


@given(
    hosts=st.lists(
        st.tuples(st.sampled_from([4, 8, 16, 64]), st.integers(4, 40), st.integers(0, 5)), min_size=3, max_size=9
    ),
    count=st.integers(2, 6),
    policy=st.sampled_from(["anti-affinity", "soft-anti-affinity"]),
)
def test_alternates_of_several_members_of_a_group_are_those_of_a_full_scan(hosts, count, policy):
    """The extremes among which alternates are weighed include the host of the last member."""
    ram, vcpus, io_ops = zip(*hosts, strict=True)
    gib = [1024 * each for each in ram]
    table = fleet(
        len(hosts), total_usable_ram_mb=gib, free_ram_mb=gib, vcpus_total=list(vcpus), num_io_ops=list(io_ops)
    )
    compared = Compared(table, [ServerGroupAntiAffinityFilter()], [RAMWeigher(), CPUWeigher(), IoOpsWeigher()])
    uuids = [f"i{number}" for number in range(count)]
    compared.place(of_group(policy, *uuids), *uuids)
