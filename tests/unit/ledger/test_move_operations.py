# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.ledger.units import APART, TOGETHER, claim, node, unit_of_work, used

from roost.errors import AlreadyClaimed, ClaimRejected, UnknownName
from roost.ledger.operations import (
    ClaimAll,
    ClaimAndMove,
    FinishMove,
    Holding,
    Release,
    ReleaseOn,
    RestartMove,
    RetargetMove,
    StartMove,
    UndoMove,
)


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


def test_the_uuid_of_an_instance_is_no_migration_whose_move_could_end():
    work = moving(node(1), node(2))
    ClaimAll((claim("other", 2, 2),)).apply(work)
    for instance in ("vm", "other"):
        assert not FinishMove(instance).apply(work)
        assert not UndoMove(instance, "vm").apply(work)
    assert (used(work, 1), used(work, 2)) == (2, 4)
    assert work.consumers["vm"].allocations == {2: {"VCPU": 2}}


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


# --- another target ---


def held(work, *consumers):
    """Consumer -> node id -> vCPUs."""
    found = {each: work.consumer_with_allocations(each) for each in consumers}
    return {
        name: {number: amounts["VCPU"] for number, amounts in each.allocations.items()}
        for name, each in found.items()
        if each
    }


def three(groups=(), group=None):
    return moving(node(1), node(2), node(3), groups=groups, group=group)


def test_another_target_releases_the_first_and_keeps_the_source():
    work = three()
    assert RetargetMove("move", claim("vm", 3, 1)).apply(work)
    assert held(work, "vm", "move") == {"vm": {3: 1}, "move": {1: 2}}
    assert used(work, 2) == 0
    assert not RetargetMove("move", claim("vm", 3, 1)).apply(work), "it was done before"


def test_another_target_that_refuses_leaves_the_first():
    work = moving(node(1), node(2), node(3, vcpus=1))
    with pytest.raises(ClaimRejected):
        RetargetMove("move", claim("vm", 3, 2)).apply(work)
    assert held(work, "vm", "move") == {"vm": {2: 2}, "move": {1: 2}}


def test_without_a_move_there_is_no_other_target():
    work = unit_of_work(node(1), node(2))
    ClaimAll((claim("vm", 1, 2),)).apply(work)
    with pytest.raises(UnknownName, match="no move of instance vm is under way"):
        RetargetMove("move", claim("vm", 2, 2)).apply(work)


def seen_now(work):
    parts = held(work, "vm", "move")
    return Holding(*({f"n{at}": {"VCPU": n} for at, n in parts.get(each, {}).items()} for each in ("vm", "move")))


def test_a_second_move_of_an_instance_that_has_arrived_releases_the_first_source():
    work = three()
    assert RestartMove("move", claim("vm", 3, 1), seen_now(work)).apply(work)
    assert held(work, "vm", "move") == {"vm": {3: 1}, "move": {2: 2}}


def test_where_it_is_not_known_which_host_was_left_both_stay_held():
    work = three()
    assert StartMove("move", claim("vm", 3, 1), seen_now(work)).apply(work)
    assert held(work, "vm", "move") == {"vm": {3: 1}, "move": {1: 2, 2: 2}}
    assert UndoMove("move", "vm").apply(work)
    assert held(work, "vm", "move") == {"vm": {1: 2, 2: 2}}
    assert work.nodes["n1"].free == work.nodes["n2"].free
    Release(("vm",)).apply(work)
    assert [each.free for each in work.nodes.values()] == [node(1).free] * 3


@pytest.mark.parametrize(("first", "second", "kept"), [(1, 3, 3), (3, 1, 3), (2, 2, 2)])
def test_of_two_sizes_on_one_node_the_larger_stays_held(first, second, kept):
    work = unit_of_work(node(1, vcpus=8), node(2))
    ClaimAll((claim("vm", 1, first),)).apply(work)
    StartMove("move", claim("vm", 1, second, MEMORY_MB=64)).apply(work)
    seen = Holding({"n1": {"VCPU": second, "MEMORY_MB": 64}}, {"n1": {"VCPU": first}})
    StartMove("move", claim("vm", 2, 1), seen).apply(work)
    assert held(work, "vm", "move") == {"vm": {2: 1}, "move": {1: kept}}
    assert used(work, 1) == kept


@pytest.mark.parametrize("kind", [StartMove, RestartMove, RetargetMove])
def test_a_decision_on_what_is_not_held_any_more_changes_nothing(kind):
    work = three()
    old = Holding({"n1": {"VCPU": 2}}, {})
    with pytest.raises(AlreadyClaimed, match="consumer vm holds resources on h2, h1 already"):
        kind("move", claim("vm", 3, 1), old).apply(work)
    assert held(work, "vm", "move") == {"vm": {2: 2}, "move": {1: 2}}
    Release(("vm", "move")).apply(work)
    with pytest.raises(AlreadyClaimed, match="consumer vm holds nothing any more"):
        kind("move", claim("vm", 3, 1), old).apply(work)


def test_claims_and_moves_are_made_together_or_not_at_all():
    work = unit_of_work(node(1), node(2), node(3, vcpus=1))
    ClaimAll((claim("vm", 1, 2),)).apply(work)
    move = StartMove("move", claim("vm", 2, 2), Holding({"n1": {"VCPU": 2}}, {}))
    with pytest.raises(ClaimRejected) as caught:
        ClaimAndMove(ClaimAll((claim("new", 3, 2),)), (move,)).apply(work)
    assert [refusal.host for refusal in caught.value.refusals] == ["h3"]
    assert held(work, "vm", "move", "new") == {"vm": {1: 2}}
    ClaimAndMove(ClaimAll((claim("new", 3, 1),)), (move,)).apply(work)
    assert held(work, "vm", "move", "new") == {"vm": {2: 2}, "move": {1: 2}, "new": {3: 1}}


def test_a_move_to_other_nodes_than_these_is_not_undone():
    work = three()
    assert not UndoMove("move", "vm", frozenset({"n3"})).apply(work)
    assert held(work, "vm", "move") == {"vm": {2: 2}, "move": {1: 2}}
    assert UndoMove("move", "vm", frozenset({"n2", "n3"})).apply(work)
    assert held(work, "vm", "move") == {"vm": {1: 2}}


def test_a_move_from_other_nodes_than_these_is_neither_undone_nor_finished():
    """A late message about the move before must not end this one."""
    work, elsewhere = three(), frozenset({"n3"})
    assert not UndoMove("move", "vm", None, elsewhere).apply(work)
    assert not FinishMove("move", elsewhere).apply(work)
    assert held(work, "vm", "move") == {"vm": {2: 2}, "move": {1: 2}}
    assert FinishMove("move", frozenset({"n1"})).apply(work)


# --- a host that is left ---


def test_what_is_left_is_the_source_and_never_the_target_of_a_move():
    work = three()
    leave = ReleaseOn(("vm", "move"), frozenset({"n1", "n2"}))
    assert leave.apply(work) == 1
    assert held(work, "vm", "move") == {"vm": {2: 2}}
    assert leave.apply(work) == 1, "without a move it has left its host"
    assert leave.apply(work) == 0


def test_slots_on_a_host_that_is_left_are_free_and_others_stay():
    work = three(groups=[APART], group=APART)
    StartMove("move", claim("vm", 3, 1, group=APART), seen_now(work)).apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "move", ("h2", 0): "move", ("h3", 0): "vm"}
    assert ReleaseOn(("vm", "move"), frozenset({"n1"})).apply(work) == 1
    assert work.groups["apart"].slots == {("h2", 0): "move", ("h3", 0): "vm"}


def test_an_affinity_group_whose_member_leaves_one_of_two_hosts_is_bound_to_the_other():
    work = three(groups=[TOGETHER], group=TOGETHER)
    StartMove("move", claim("vm", 3, 1, group=TOGETHER), seen_now(work)).apply(work)
    UndoMove("move", "vm").apply(work)
    with pytest.raises(ClaimRejected, match="is moving from"):
        ClaimAll((claim("second", 2, 1, group=TOGETHER),)).apply(work)
    ReleaseOn(("vm",), frozenset({"n1"})).apply(work)
    assert (work.groups["together"].host, work.groups["together"].slots) == ("h2", {})
    ClaimAll((claim("second", 2, 1, group=TOGETHER),)).apply(work)
