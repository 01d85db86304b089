# SPDX-License-Identifier: Apache-2.0
"""Invariants of a unit of work under random sequences of operations."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.ledger.units import APART, TOGETHER, claim, node, unit_of_work

from roost.errors import AlreadyClaimed, ClaimRejected, UnknownName
from roost.ledger.operations import ClaimAll, FinishMove, Release, ReleaseOn, RetargetMove, StartMove, UndoMove

STEPS = st.one_of(
    st.builds(
        lambda consumer, number, vcpus, group: ClaimAll((claim(consumer, number, vcpus, group=group),)),
        st.sampled_from("abcd"),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from([None, APART, TOGETHER]),
    ),
    st.builds(
        lambda pairs: ClaimAll(tuple(claim(consumer, number, 2, group=APART) for consumer, number in pairs)),
        st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 3)), min_size=2, max_size=4),
    ),
    st.builds(lambda consumer: Release((consumer,)), st.sampled_from("abcd")),
    st.builds(
        lambda consumer, number, vcpus: StartMove(f"move-{consumer}", claim(consumer, number, vcpus, group=APART)),
        st.sampled_from("abcd"),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
    st.builds(
        lambda consumer, number: RetargetMove(f"move-{consumer}", claim(consumer, number, 1)),
        st.sampled_from("abcd"),
        st.integers(1, 3),
    ),
    st.builds(
        lambda consumer, number: ReleaseOn((consumer, f"move-{consumer}"), frozenset({f"n{number}"})),
        st.sampled_from("abcd"),
        st.integers(1, 3),
    ),
    st.builds(lambda consumer: FinishMove(f"move-{consumer}"), st.sampled_from("abcd")),
    st.builds(lambda consumer: UndoMove(f"move-{consumer}", consumer), st.sampled_from("abcd")),
)


def state_of(work):
    return (
        {uuid: (dict(each.capacity), each.free, each.instances_delta) for uuid, each in work.nodes.items()},
        {uuid: dict(each.allocations) for uuid, each in work.consumers.items() if each.allocations},
        {uuid: (dict(each.slots), each.host, set(each.placed_members)) for uuid, each in work.groups.items()},
    )


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=25))
def test_sums_hold_and_what_fails_leaves_no_trace(steps):
    work = unit_of_work(node(1), node(2), node(3, host="h2"), groups=[APART, TOGETHER])
    for step in steps:
        before = state_of(work)
        try:
            step.apply(work)
        except (ClaimRejected, AlreadyClaimed, UnknownName):
            assert state_of(work) == before
        check_sums(work)


def check_sums(work):
    holders = [each for each in work.consumers.values() if each.allocations]
    for each in work.nodes.values():
        for name, place in each.capacity.items():
            held = sum(holder.allocations.get(each.id, {}).get(name, 0) for holder in holders)
            assert place.allocated == held <= place.limit
        assert each.instances_delta == sum(each.id in holder.allocations for holder in holders)
    slots = work.groups["apart"].slots
    hosts_of = {holder.uuid: {work.nodes_by_id[number].host for number in holder.allocations} for holder in holders}
    assert len(set(slots)) == len(slots)
    for (host, _), uuid in slots.items():
        assert host in hosts_of.get(uuid, ()), (host, uuid, hosts_of)
    for one, other in itertools.combinations(slots.items(), 2):
        assert one[0][0] != other[0][0]
