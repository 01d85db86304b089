# SPDX-License-Identifier: Apache-2.0
"""Requests for new servers: how many, with what written on them, and where."""

import re

import pytest
from tests.flow.whole_cloud import ADMIN, USER

from roost.errors import BadInput, UnknownName
from roost.messages.context import RequestContext

NAMING = RequestContext.new("req-3", "bob", "green", may_name_hosts=True)
NOT_NAMING = RequestContext.new("req-4", "ann", "blue", is_admin=True, may_name_hosts=False)


def test_what_a_client_attaches_is_written_on_each_server(cloud):
    wanted = {"name": "web", "flavor": "small", "max_count": 2, "description": "front", "metadata": {"tier": "1"}}
    answer = cloud.client().create_servers(wanted)
    servers = [cloud.store.get(each["id"]) for each in answer["servers"]]
    assert [(each.name, each.description, each.metadata) for each in servers] == [
        ("web-1", "front", {"tier": "1"}),
        ("web-2", "front", {"tier": "1"}),
    ]
    assert re.fullmatch("r-[a-z0-9]{8}", answer["reservation_id"])
    assert {each.reservation_id for each in servers} == {answer["reservation_id"]}


def test_a_request_may_bring_its_own_reservation(cloud):
    answer = cloud.client().create_servers({"name": "web", "flavor": "small", "reservation_id": "r-mine"})
    assert answer["reservation_id"] == cloud.store.get(answer["servers"][0]["id"]).reservation_id == "r-mine"


@pytest.mark.parametrize(
    ("numbers", "count"),
    [
        ({}, 1),
        ({"min_count": 2}, 2),
        ({"min_count": 1, "max_count": 3}, 3),
        ({"min_count": 1, "max_count": 1}, 1),
        ({"max_count": 2}, 2),
    ],
)
def test_as_many_servers_are_made_as_are_wanted_at_most(cloud, numbers, count):
    plan = cloud.client().create_servers({"name": "web", "flavor": "small", **numbers}, dry_run=True)["plan"]
    assert len(plan) == count
    assert plan[0]["name"] == ("web" if count == 1 else "web-1")


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ({"min_count": 3, "max_count": 2}, "min_count must be <= max_count"),
        ({"min_count": 0}, "min_count: 0 is not possible"),
        ({"max_count": 1001}, "max_count: 1001"),
        ({"max_count": True}, "max_count: True"),
        ({"min_count": "2"}, "min_count: 2"),
        ({"count": 1, "max_count": 2}, "count: is given beside"),
    ],
)
def test_numbers_that_contradict_one_another_are_refused(cloud, numbers, problem):
    with pytest.raises(BadInput, match=problem):
        cloud.client().create_servers({"name": "web", "flavor": "small", **numbers})


@pytest.mark.parametrize("place", [{"host": "b"}, {"node": "b"}, {"host": "b", "node": "b"}])
def test_a_named_host_or_node_gets_the_server_if_it_passes_the_filters(cloud, place):
    (uuid,) = cloud.boot(**place)
    assert cloud.states(uuid) == [("ACTIVE", "b")]


@pytest.mark.parametrize("place", [{"host": "x"}, {"node": "x"}, {"host": "a", "node": "b"}])
def test_a_host_or_node_that_is_not_there_is_refused(cloud, place):
    with pytest.raises(UnknownName, match=r"Compute host \w could not be found"):
        cloud.boot(**place)


def test_a_host_is_named_once(cloud):
    with pytest.raises(BadInput, match="names a host, too"):
        cloud.boot(node="b", availability_zone="nova:a")


@pytest.mark.parametrize("place", [{"host": "b"}, {"node": "b"}, {"availability_zone": "nova:b"}])
def test_only_callers_with_the_right_may_name_a_host(cloud, place):
    for context in (NAMING, ADMIN):
        (uuid,) = cloud.boot(context=context, **place)
        assert cloud.states(uuid) == [("ACTIVE", "b")]
    for context in (USER, NOT_NAMING):
        with pytest.raises(BadInput, match="only an admin may name a host"):
            cloud.boot(context=context, **place)


def test_hints_may_be_numbers_and_objects(cloud):
    query = {"query": [">=", "$free_ram_mb", 1024]}
    (uuid,) = cloud.boot(hints={"query": query, "weight": 3, "zones": ["a", 1], "_nova_check_type": ["x"]})
    hints = cloud.store.get(uuid).spec.scheduler_hints
    assert hints["query"] == ('{"query": [">=", "$free_ram_mb", 1024]}',)
    assert (hints["weight"], hints["zones"], "_nova_check_type" in hints) == (("3",), ("a", "1"), False)


def test_a_hint_in_a_list_of_lists_is_refused(cloud):
    with pytest.raises(BadInput, match=r"hints.group"):
        cloud.boot(hints={"group": [["x"]]})
