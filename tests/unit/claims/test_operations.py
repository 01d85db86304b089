# SPDX-License-Identifier: Apache-2.0
"""The sums of the ledger, without a database."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.claims.claim import Claim, StrictGroup, Use
from roost.claims.operations import ClaimAll, FinishMove, Release, StartMove, UndoMove
from roost.claims.unit_of_work import Consumer, Group, Node, UnitOfWork
from roost.errors import AlreadyClaimed, ClaimRejected, UnknownName
from roost.hosts.capacity import ClassCapacity

APART = StrictGroup("apart", "anti-affinity")
TOGETHER = StrictGroup("together", "affinity")


def room(limit, used=0, **parts):
    return ClassCapacity(
        **{"allocated": used, "limit": limit, "max_unit": limit, "min_unit": 1, "step_size": 1} | parts
    )


def node(number, host=None, vcpus=4, is_bare_metal=False, **rooms):
    rooms = {"VCPU": room(vcpus), "MEMORY_MB": room(4096)} | rooms
    return Node(number, f"n{number}", host or f"h{number}", f"h{number}", is_bare_metal, Use(4096, 100, vcpus), rooms)


def books(*nodes, groups=()):
    return UnitOfWork(
        nodes, [], [Group(at + 1, each.uuid, each.policy, each.max_server_per_host) for at, each in enumerate(groups)]
    )


def claim(consumer, number, vcpus=1, group=None, **amounts):
    return Claim(consumer, f"n{number}", {"VCPU": vcpus} | amounts, Use(512, 10, vcpus), group=group)


def used(ledger, number, name="VCPU"):
    return ledger.nodes[f"n{number}"].rooms[name].allocated


def test_a_claim_takes_and_a_release_gives_back():
    ledger = books(node(1))
    ClaimAll((claim("a", 1, 3, MEMORY_MB=1000),)).apply(ledger)
    assert (used(ledger, 1), used(ledger, 1, "MEMORY_MB")) == (3, 1000)
    assert ledger.nodes["n1"].free == Use(3584, 90, 1)
    assert Release(("a", "stranger")).apply(ledger) == 1
    assert (used(ledger, 1), used(ledger, 1, "MEMORY_MB")) == (0, 0)
    assert ledger.nodes["n1"].free == Use(4096, 100, 4)


@pytest.mark.parametrize(
    ("amounts", "why"),
    [
        ({"VCPU": 5}, "5 vcpu asked; 4 of 4 left"),
        ({"MEMORY_MB": 4097}, "4097 MiB ram asked; 4096 of 4096 left"),
        ({"CUSTOM_GOLD": 1}, "1 CUSTOM_GOLD asked; the host has none"),
        ({"CUSTOM_STEPS": 5}, "5 CUSTOM_STEPS asked; one instance may take 4 at most"),
        ({"CUSTOM_STEPS": 1}, "1 CUSTOM_STEPS asked; one instance must take 2 at least"),
        ({"CUSTOM_STEPS": 3}, "3 CUSTOM_STEPS asked; it is given out in steps of 2"),
    ],
)
def test_a_refusal_says_what_is_lacking(amounts, why):
    ledger = books(node(1, CUSTOM_STEPS=room(10, max_unit=4, min_unit=2, step_size=2)))
    with pytest.raises(ClaimRejected) as caught:
        ClaimAll((Claim("a", "n1", amounts),)).apply(ledger)
    assert caught.value.refusals == (("h1", "h1", why),)


def test_the_last_unit_can_be_claimed_and_nothing_after_it():
    ledger = books(node(1))
    ClaimAll((claim("a", 1, 3), claim("b", 1, 1))).apply(ledger)
    with pytest.raises(ClaimRejected):
        ClaimAll((claim("c", 1, 1),)).apply(ledger)


def test_all_of_a_request_or_nothing_and_every_refusal_is_named():
    ledger = books(node(1), node(2), node(3, vcpus=1))
    before = [each.rooms for each in ledger.nodes.values()]
    with pytest.raises(ClaimRejected) as caught:
        ClaimAll((claim("a", 1, 4), claim("b", 2, 5), claim("c", 3, 2))).apply(ledger)
    assert [refusal.host for refusal in caught.value.refusals] == ["h2", "h3"]
    assert [each.rooms for each in ledger.nodes.values()] == before
    assert ledger.consumer("a") is None


def test_a_claim_that_is_repeated_changes_nothing():
    ledger = books(node(1))
    for _ in range(3):
        ClaimAll((claim("a", 1, 4),)).apply(ledger)
    assert used(ledger, 1) == 4


@pytest.mark.parametrize("other", [claim("a", 2, 1), claim("a", 1, 2)])
def test_a_claim_for_somebody_who_holds_something_else_is_an_error(other):
    ledger = books(node(1), node(2))
    ClaimAll((claim("a", 1, 1),)).apply(ledger)
    with pytest.raises(AlreadyClaimed, match="consumer a holds resources on h1 already"):
        ClaimAll((claim("b", 1, 1), other)).apply(ledger)
    assert (used(ledger, 1), used(ledger, 2)) == (1, 0)


def test_a_node_nobody_knows():
    with pytest.raises(UnknownName, match="there is no node n9"):
        ClaimAll((claim("a", 9),)).apply(books(node(1)))


def test_a_bare_metal_node_goes_as_a_whole_and_once():
    ledger = books(node(1, is_bare_metal=True, CUSTOM_BAREMETAL=room(1)))
    ClaimAll((Claim("a", "n1", {"CUSTOM_BAREMETAL": 1}),)).apply(ledger)
    assert ledger.consumers["a"].held == {1: {"VCPU": 4, "MEMORY_MB": 4096, "CUSTOM_BAREMETAL": 1}}
    assert ledger.nodes["n1"].free == Use(0, 0, 0)
    with pytest.raises(ClaimRejected, match="host h1: the node is taken"):
        ClaimAll((Claim("b", "n1", {"CUSTOM_BAREMETAL": 1}),)).apply(ledger)
    Release(("a",)).apply(ledger)
    assert ledger.nodes["n1"].free == Use(4096, 100, 4)
    assert used(ledger, 1) == 0


# --- groups ---


def test_anti_affinity_gives_a_host_to_one_member():
    ledger = books(node(1), node(2), groups=[APART])
    ClaimAll((claim("a", 1, group=APART),)).apply(ledger)
    with pytest.raises(ClaimRejected, match="1 members of the anti-affinity group apart are there; 1 may be"):
        ClaimAll((claim("b", 1, group=APART),)).apply(ledger)
    ClaimAll((claim("b", 2, group=APART),)).apply(ledger)
    Release(("a",)).apply(ledger)
    ClaimAll((claim("c", 1, group=APART),)).apply(ledger)
    assert ledger.groups["apart"].slots == {("h1", 0): "c", ("h2", 0): "b"}


def test_anti_affinity_is_about_hosts_not_nodes():
    ledger = books(node(1, host="rack"), node(2, host="rack"), groups=[APART])
    with pytest.raises(ClaimRejected):
        ClaimAll((claim("a", 1, group=APART), claim("b", 2, group=APART))).apply(ledger)
    assert ledger.groups["apart"].slots == {}


def test_max_server_per_host_is_a_number_of_slots_that_are_used_again():
    two = APART._replace(max_server_per_host=2)
    ledger = books(node(1), groups=[two])
    ClaimAll((claim("a", 1, group=two), claim("b", 1, group=two))).apply(ledger)
    with pytest.raises(ClaimRejected, match="2 may be"):
        ClaimAll((claim("c", 1, group=two),)).apply(ledger)
    Release(("a",)).apply(ledger)
    ClaimAll((claim("c", 1, group=two),)).apply(ledger)
    assert ledger.groups["apart"].slots == {("h1", 0): "c", ("h1", 1): "b"}


def test_affinity_binds_all_to_the_host_of_the_first_until_the_last_has_left():
    ledger = books(node(1), node(2), groups=[TOGETHER])
    ClaimAll((claim("a", 1, group=TOGETHER),)).apply(ledger)
    with pytest.raises(ClaimRejected, match="the affinity group together is on host h1"):
        ClaimAll((claim("b", 2, group=TOGETHER),)).apply(ledger)
    ClaimAll((claim("b", 1, group=TOGETHER),)).apply(ledger)
    Release(("a",)).apply(ledger)
    assert ledger.groups["together"].host == "h1"
    Release(("b",)).apply(ledger)
    assert ledger.groups["together"].host is None
    ClaimAll((claim("c", 2, group=TOGETHER),)).apply(ledger)
    assert ledger.groups["together"].host == "h2"


def test_members_that_somebody_else_put_there_count():
    two = APART._replace(max_server_per_host=2)
    ledger = books(node(1), groups=[two])
    for guest in ("x", "y", "x"):
        ledger.adopt(ledger.groups["apart"], "h1", guest)
    assert ledger.groups["apart"].slots == {("h1", 0): "x", ("h1", 1): "y"}
    with pytest.raises(ClaimRejected, match="2 members of the anti-affinity group apart are there; 2 may be"):
        ClaimAll((claim("a", 1, group=two),)).apply(ledger)


def test_an_affinity_group_is_where_somebody_else_put_it():
    ledger = books(node(1), node(2), groups=[TOGETHER])
    ledger.adopt(ledger.groups["together"], "h2", "x")
    with pytest.raises(ClaimRejected, match="is on host h2"):
        ClaimAll((claim("a", 1, group=TOGETHER),)).apply(ledger)
    ClaimAll((claim("a", 2, group=TOGETHER),)).apply(ledger)


# --- moves ---


def moving(*nodes, groups=(), group=None, target=2, vcpus=2):
    ledger = books(*nodes, groups=groups)
    ClaimAll((claim("vm", 1, 2, group=group),)).apply(ledger)
    StartMove("move", claim("vm", target, vcpus, group=group)).apply(ledger)
    return ledger


def test_source_and_target_are_held_until_the_move_is_finished():
    ledger = moving(node(1), node(2))
    assert (used(ledger, 1), used(ledger, 2)) == (2, 2)
    assert FinishMove("move").apply(ledger)
    assert (used(ledger, 1), used(ledger, 2)) == (0, 2)
    assert ledger.consumers["vm"].held == {2: {"VCPU": 2}}
    assert not FinishMove("move").apply(ledger)


def test_a_move_that_is_undone_leaves_the_instance_where_it_was():
    ledger = moving(node(1), node(2))
    assert UndoMove("move", "vm").apply(ledger)
    assert (used(ledger, 1), used(ledger, 2)) == (2, 0)
    assert ledger.consumers["vm"].held == {1: {"VCPU": 2}}
    assert ledger.consumers["vm"].kind == "instance"
    assert not UndoMove("move", "vm").apply(ledger)


def test_a_resize_on_its_host_holds_both_sizes():
    ledger = moving(node(1, vcpus=6), target=1, vcpus=4)
    assert used(ledger, 1) == 6
    FinishMove("move").apply(ledger)
    assert used(ledger, 1) == 4


def test_a_target_that_refuses_leaves_everything_as_it_was():
    ledger = books(node(1), node(2, vcpus=1))
    ClaimAll((claim("vm", 1, 2),)).apply(ledger)
    with pytest.raises(ClaimRejected):
        StartMove("move", claim("vm", 2, 2)).apply(ledger)
    assert (used(ledger, 1), used(ledger, 2)) == (2, 0)
    assert ledger.consumer("move") is None
    assert ledger.consumers["vm"].held == {1: {"VCPU": 2}}


def test_a_move_that_is_started_twice_is_started_once():
    ledger = moving(node(1), node(2))
    StartMove("move", claim("vm", 2, 2)).apply(ledger)
    assert (used(ledger, 1), used(ledger, 2)) == (2, 2)
    with pytest.raises(AlreadyClaimed):
        StartMove("move", claim("vm", 2, 3)).apply(ledger)


def test_who_holds_nothing_cannot_move():
    with pytest.raises(UnknownName, match="instance vm holds nothing"):
        StartMove("move", claim("vm", 2)).apply(books(node(1), node(2)))


def test_a_member_that_moves_keeps_its_slot_on_the_source_until_it_is_finished():
    ledger = moving(node(1), node(2), groups=[APART], group=APART)
    for number in (1, 2):
        with pytest.raises(ClaimRejected):
            ClaimAll((claim("other", number, group=APART),)).apply(ledger)
    FinishMove("move").apply(ledger)
    ClaimAll((claim("other", 1, group=APART),)).apply(ledger)
    assert ledger.groups["apart"].slots == {("h1", 0): "other", ("h2", 0): "vm"}


def test_a_member_that_stays_on_its_host_keeps_its_slot():
    ledger = moving(node(1, vcpus=6), groups=[APART], group=APART, target=1, vcpus=3)
    assert ledger.groups["apart"].slots == {("h1", 0): "vm"}
    UndoMove("move", "vm").apply(ledger)
    assert ledger.groups["apart"].slots == {("h1", 0): "vm"}


def test_the_slot_comes_back_with_the_instance():
    ledger = moving(node(1), node(2), groups=[APART], group=APART)
    UndoMove("move", "vm").apply(ledger)
    assert ledger.groups["apart"].slots == {("h1", 0): "vm"}


def test_an_affinity_group_follows_its_only_member_and_no_other():
    ledger = moving(node(1), node(2), groups=[TOGETHER], group=TOGETHER)
    assert ledger.groups["together"].host == "h2"
    UndoMove("move", "vm").apply(ledger)
    assert ledger.groups["together"].host == "h1"
    ClaimAll((claim("second", 1, group=TOGETHER),)).apply(ledger)
    with pytest.raises(ClaimRejected, match="is on host h1"):
        StartMove("move", claim("vm", 2, 2, group=TOGETHER)).apply(ledger)
    assert ledger.groups["together"].host == "h1"


# --- whatever comes in whatever order ---

STEPS = st.one_of(
    st.builds(
        lambda who, where, vcpus, group: ClaimAll((claim(who, where, vcpus, group=group),)),
        st.sampled_from("abcd"),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from([None, APART, TOGETHER]),
    ),
    st.builds(
        lambda pairs: ClaimAll(tuple(claim(who, where, 2, group=APART) for who, where in pairs)),
        st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), min_size=2, max_size=4),
    ),
    st.builds(lambda who: Release((who,)), st.sampled_from("abcd")),
    st.builds(
        lambda who, where, vcpus: StartMove(f"move-{who}", claim(who, where, vcpus, group=APART)),
        st.sampled_from("abcd"),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
    st.builds(lambda who: FinishMove(f"move-{who}"), st.sampled_from("abcd")),
    st.builds(lambda who: UndoMove(f"move-{who}", who), st.sampled_from("abcd")),
)


def picture(ledger):
    return (
        {uuid: (dict(each.rooms), each.free, each.instances) for uuid, each in ledger.nodes.items()},
        {uuid: dict(each.held) for uuid, each in ledger.consumers.items() if each.held},
        {uuid: (dict(each.slots), each.host, set(each.holders)) for uuid, each in ledger.groups.items()},
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_sums_hold_and_what_fails_leaves_no_trace(steps):
    ledger = books(node(1), node(2), node(3, host="h2"), groups=[APART, TOGETHER])
    for step in steps:
        before = picture(ledger)
        try:
            step.apply(ledger)
        except (ClaimRejected, AlreadyClaimed, UnknownName):
            assert picture(ledger) == before
        check_sums(ledger)


def check_sums(ledger):
    holders = [each for each in ledger.consumers.values() if each.held]
    for each in ledger.nodes.values():
        for name, place in each.rooms.items():
            held = sum(holder.held.get(each.id, {}).get(name, 0) for holder in holders)
            assert place.allocated == held <= place.limit
        assert each.instances == sum(each.id in holder.held for holder in holders)
    slots = ledger.groups["apart"].slots
    hosts_of = {holder.uuid: {ledger.nodes_by_id[number].host for number in holder.held} for holder in holders}
    assert len(set(slots)) == len(slots)
    for (host, _), uuid in slots.items():
        assert host in hosts_of.get(uuid, ()), (host, uuid, hosts_of)
    for one, other in itertools.combinations(slots.items(), 2):
        assert one[0][0] != other[0][0]


def test_consumers_that_nobody_counted_take_what_their_classes_say():
    guest = Consumer("old", held={1: {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 7}})
    ledger = UnitOfWork([node(1, VCPU=room(4, used=2))], [guest])
    Release(("old",)).apply(ledger)
    assert ledger.nodes["n1"].free == Use(4608, 107, 6)
