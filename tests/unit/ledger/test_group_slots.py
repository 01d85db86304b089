# SPDX-License-Identifier: Apache-2.0
"""Slots and hosts of strict groups, by way of claims and releases."""

import pytest
from tests.unit.ledger.units import APART, TOGETHER, claim, node, unit_of_work

from roost.errors import ClaimRejected
from roost.ledger.groups import record_placed_member
from roost.ledger.operations import ClaimAll, Release, StartMove, UndoMove


def test_anti_affinity_gives_a_host_to_one_member():
    work = unit_of_work(node(1), node(2), groups=[APART])
    ClaimAll((claim("a", 1, group=APART),)).apply(work)
    with pytest.raises(ClaimRejected, match="1 members of the anti-affinity group apart are there; 1 may be"):
        ClaimAll((claim("b", 1, group=APART),)).apply(work)
    ClaimAll((claim("b", 2, group=APART),)).apply(work)
    Release(("a",)).apply(work)
    ClaimAll((claim("c", 1, group=APART),)).apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "c", ("h2", 0): "b"}


def test_a_member_that_was_imported_onto_the_source_of_its_move_has_one_slot_once_the_move_is_undone():
    two = APART._replace(max_server_per_host=2)
    work = unit_of_work(node(1), node(2), groups=[two])
    ClaimAll((claim("a", 1, group=two),)).apply(work)
    StartMove("move", claim("a", 2, group=two)).apply(work)
    record_placed_member(work.groups["apart"], "h1", "a")
    assert UndoMove("move", "a").apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "a"}


def test_anti_affinity_is_about_hosts_not_nodes():
    work = unit_of_work(node(1, host="rack"), node(2, host="rack"), groups=[APART])
    with pytest.raises(ClaimRejected):
        ClaimAll((claim("a", 1, group=APART), claim("b", 2, group=APART))).apply(work)
    assert work.groups["apart"].slots == {}


def test_max_server_per_host_is_a_number_of_slots_that_are_used_again():
    two = APART._replace(max_server_per_host=2)
    work = unit_of_work(node(1), groups=[two])
    ClaimAll((claim("a", 1, group=two), claim("b", 1, group=two))).apply(work)
    with pytest.raises(ClaimRejected, match="2 may be"):
        ClaimAll((claim("c", 1, group=two),)).apply(work)
    Release(("a",)).apply(work)
    ClaimAll((claim("c", 1, group=two),)).apply(work)
    assert work.groups["apart"].slots == {("h1", 0): "c", ("h1", 1): "b"}


def test_affinity_binds_all_to_the_host_of_the_first_until_the_last_has_left():
    work = unit_of_work(node(1), node(2), groups=[TOGETHER])
    ClaimAll((claim("a", 1, group=TOGETHER),)).apply(work)
    with pytest.raises(ClaimRejected, match="the affinity group together is on host h1"):
        ClaimAll((claim("b", 2, group=TOGETHER),)).apply(work)
    ClaimAll((claim("b", 1, group=TOGETHER),)).apply(work)
    Release(("a",)).apply(work)
    assert work.groups["together"].host == "h1"
    Release(("b",)).apply(work)
    assert work.groups["together"].host is None
    ClaimAll((claim("c", 2, group=TOGETHER),)).apply(work)
    assert work.groups["together"].host == "h2"


def test_imported_members_take_slots():
    two = APART._replace(max_server_per_host=2)
    work = unit_of_work(node(1), groups=[two])
    for guest in ("x", "y", "x"):
        record_placed_member(work.groups["apart"], "h1", guest)
    assert work.groups["apart"].slots == {("h1", 0): "x", ("h1", 1): "y"}
    with pytest.raises(ClaimRejected, match="2 members of the anti-affinity group apart are there; 2 may be"):
        ClaimAll((claim("a", 1, group=two),)).apply(work)


def test_an_affinity_group_is_bound_to_the_host_of_an_imported_member():
    work = unit_of_work(node(1), node(2), groups=[TOGETHER])
    record_placed_member(work.groups["together"], "h2", "x")
    with pytest.raises(ClaimRejected, match="is on host h2"):
        ClaimAll((claim("a", 1, group=TOGETHER),)).apply(work)
    ClaimAll((claim("a", 2, group=TOGETHER),)).apply(work)
