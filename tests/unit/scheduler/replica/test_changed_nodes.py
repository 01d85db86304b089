# SPDX-License-Identifier: Apache-2.0
"""Which row of the store is which row of the table; what a change stands for. Reading is tested in tests/store."""

from roost.hosts import HostRecord
from roost.model import Aggregate
from roost.records.node_reader import StoredNode
from roost.scheduler.own_source import NodeIndex, PendingReads
from roost.store.change_log import AGGREGATES, NODES, SERVERS, SERVICES, USAGE, Change


def node(number, host):
    return StoredNode(number, HostRecord(host))


def known(*nodes):
    found = NodeIndex()
    found.put(nodes)
    return found


def test_a_node_is_known_by_number_and_by_name():
    found = known(node(1, "a"), node(2, "b"))
    assert found.ids == {("a", "a"): 1, ("b", "b"): 2}
    assert found.pairs == {1: ("a", "a"), 2: ("b", "b")}
    found.drop([("a", "a"), ("never", "there")])
    assert (found.ids, found.pairs) == ({("b", "b"): 2}, {2: ("b", "b")})


def test_a_name_that_got_another_number_is_known_by_that_alone():
    found = known(node(1, "a"))
    found.put([node(5, "a")])
    assert (found.ids, found.pairs) == ({("a", "a"): 5}, {5: ("a", "a")})


def test_gone_is_who_was_asked_for_and_was_not_there():
    found = known(node(1, "a"), node(2, "b"), node(3, "c"))
    assert found.find_gone({1, 2, 9}, [node(2, "b")]) == {("a", "a")}


def test_who_was_made_anew_or_renamed():
    found = known(node(1, "a"), node(2, "b"))
    assert found.find_gone({1, 7}, [node(7, "a")]) == set()
    assert found.find_gone({2}, [node(2, "c")]) == {("b", "b")}


def test_an_aggregate_that_is_equal_stays_the_same_object():
    found, first = NodeIndex(), Aggregate("a", {"k": "v"}, ("h1",), 1)
    assert found.put_aggregates({1: first}) == {"h1"}
    assert found.put_aggregates({1: Aggregate("a", {"k": "v"}, ("h1",), 1)}) == set()
    assert found.aggregates[1] is first
    assert found.of_host["h1"] == (first,)


def test_hosts_that_join_or_leave_an_aggregate_are_told():
    found = NodeIndex()
    found.put_aggregates({2: Aggregate("b", {}, ("h1", "h2"), 2), 1: Aggregate("a", {}, ("h2",), 1)})
    assert found.put_aggregates({2: Aggregate("b", {}, ("h3",), 2)}) == {"h1", "h2", "h3"}
    assert [each.id for each in found.aggregates.values()] == [1, 2]
    assert "h1" not in found.of_host
    assert found.put_aggregates({1: None, 99: None}) == {"h2"}
    assert list(found.aggregates) == [2]


def test_changes_are_sorted_by_what_they_are_about():
    changes = [
        Change(NODES, "4"),
        Change(USAGE, "5/u1"),
        Change(SERVICES, "h1"),
        Change(AGGREGATES, "6"),
        Change(SERVERS, "s1"),
        Change("something that comes later", "x"),
    ]
    wanted = PendingReads(changes)
    found = wanted.nodes, wanted.usage, wanted.hosts, wanted.aggregates, wanted.servers
    assert found == ({4}, {(5, "u1")}, {"h1"}, {6}, {"s1"})
