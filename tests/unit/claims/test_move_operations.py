# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.claims.units import APART, TOGETHER, claim, node, unit_of_work, used

from roost.claims.move_operations import FinishMove, StartMove, UndoMove
from roost.claims.operations import ClaimAll
from roost.errors import AlreadyClaimed, ClaimRejected, UnknownName


def moving(*nodes, groups=(), group=None, target=2, vcpus=2):
    work = unit_of_work(*nodes, groups=groups)
    ClaimAll((claim("vm", 1, 2, group=group),)).apply(work)
    StartMove("move", claim("vm", target, vcpus, group=group)).apply(work)
    return work


def test_source_and_target_are_held_until_the_move_is_finished():
    work = moving(node(1), node(2))
    assert (used(work, 1), used(work, 2)) == (2, 2)
    assert FinishMove("move").apply(work)
    assert (used(work, 1), used(work, 2)) == (0, 2)
    assert work.consumers["vm"].allocations == {2: {"VCPU": 2}}
    assert not FinishMove("move").apply(work)


def test_a_move_that_is_undone_leaves_the_instance_where_it_was():
    work = moving(node(1), node(2))
    assert UndoMove("move", "vm").apply(work)
    assert (used(work, 1), used(work, 2)) == (2, 0)
    assert work.consumers["vm"].allocations == {1: {"VCPU": 2}}
    assert work.consumers["vm"].kind == "instance"
    assert not UndoMove("move", "vm").apply(work)


def test_a_resize_on_its_host_holds_both_sizes():
    work = moving(node(1, vcpus=6), target=1, vcpus=4)
    assert used(work, 1) == 6
    FinishMove("move").apply(work)
    assert used(work, 1) == 4


def test_a_target_that_refuses_leaves_everything_as_it_was():
    work = unit_of_work(node(1), node(2, vcpus=1))
    ClaimAll((claim("vm", 1, 2),)).apply(work)
    with pytest.raises(ClaimRejected):
        StartMove("move", claim("vm", 2, 2)).apply(work)
    assert (used(work, 1), used(work, 2)) == (2, 0)
    assert work.consumer_with_allocations("move") is None
    assert work.consumers["vm"].allocations == {1: {"VCPU": 2}}


def test_a_move_that_is_started_twice_is_started_once():
    work = moving(node(1), node(2))
    StartMove("move", claim("vm", 2, 2)).apply(work)
    assert (used(work, 1), used(work, 2)) == (2, 2)
    with pytest.raises(AlreadyClaimed):
        StartMove("move", claim("vm", 2, 3)).apply(work)


def test_an_instance_without_allocations_cannot_move():
    with pytest.raises(UnknownName, match="instance vm holds nothing"):
        StartMove("move", claim("vm", 2)).apply(unit_of_work(node(1), node(2)))


def test_a_member_that_moves_keeps_its_slot_on_the_source_until_it_is_finished():
    work = moving(node(1), node(2), groups=[APART], group=APART)
    for number in (1, 2):
        with pytest.raises(ClaimRejected):
            ClaimAll((claim("other", number, group=APART),)).apply(work)
    FinishMove("move").apply(work)
    ClaimAll((claim("other", 1, group=APART),)).apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "other", ("h2", 0): "vm"}


def test_a_member_that_stays_on_its_host_keeps_its_slot():
    work = moving(node(1, vcpus=6), groups=[APART], group=APART, target=1, vcpus=3)
    assert work.groups["apart"].slots == {("h1", 0): "vm"}
    UndoMove("move", "vm").apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "vm"}


def test_the_slot_comes_back_with_the_instance():
    work = moving(node(1), node(2), groups=[APART], group=APART)
    UndoMove("move", "vm").apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "vm"}


def test_an_affinity_group_follows_its_only_member_and_no_other():
    work = moving(node(1), node(2), groups=[TOGETHER], group=TOGETHER)
    assert work.groups["together"].host == "h2"
    UndoMove("move", "vm").apply(work)
    assert work.groups["together"].host == "h1"
    ClaimAll((claim("second", 1, group=TOGETHER),)).apply(work)
    with pytest.raises(ClaimRejected, match="is on host h1"):
        StartMove("move", claim("vm", 2, 2, group=TOGETHER)).apply(work)
    assert work.groups["together"].host == "h1"
