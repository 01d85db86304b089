# SPDX-License-Identifier: Apache-2.0
"""Server groups: spec/filters.md 5.15 and 5.16, and what becomes of them in one request for several instances."""

import random

import pytest

from roost.errors import NoValidHost
from roost.filters.base import applies_to_rebuild
from roost.filters.server_group import (
    GroupAffinityFilter,
    GroupAntiAffinityFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from roost.model import ServerGroup
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher

ALL = [GroupAffinityFilter, GroupAntiAffinityFilter, ServerGroupAffinityFilter, ServerGroupAntiAffinityFilter]
AFFINE = [(ServerGroupAffinityFilter, "affinity"), (GroupAffinityFilter, "legacy")]


def spec_in(policy, **fields):
    own = {name: fields.pop(name) for name in ("members", "hosts", "rules", "name", "uuid") if name in fields}
    return make_spec(instance_group=ServerGroup(policy, **own), **fields)


@pytest.mark.parametrize(("plugin", "policy"), AFFINE)
@pytest.mark.parametrize(
    ("hosts", "passes"),
    [(["host1"], True), (["other", "host1"], True), (["other"], False), (["HOST1"], False), ([], True)],
)
def test_affinity_examples_on_host1(plugin, policy, hosts, passes):
    assert plugin().mask(make_hosts(1), spec_in(policy, hosts=hosts)).tolist() == [passes]


@pytest.mark.parametrize(
    ("plugin", "other_policy"),
    [
        (ServerGroupAffinityFilter, "anti-affinity"),
        (ServerGroupAffinityFilter, "soft-affinity"),
        (ServerGroupAffinityFilter, "legacy"),
        (GroupAffinityFilter, "affinity"),
        (GroupAntiAffinityFilter, "anti-affinity"),
        (ServerGroupAntiAffinityFilter, "soft-anti-affinity"),
        (ServerGroupAntiAffinityFilter, "affinity"),
    ],
)
def test_a_group_with_another_policy_is_not_its_business(plugin, other_policy):
    hosts = make_hosts(1, host=["host1"], instances=[["a"]])
    for group_hosts in (["other"], ["host1"]):
        spec = spec_in(other_policy, hosts=group_hosts, members=["a"], instance_uuid="c")
        assert not plugin().applies_to(spec)
        assert plugin().mask(hosts, spec).tolist() == [True]


@pytest.mark.parametrize("plugin", ALL)
def test_a_request_without_group_passes_everywhere(plugin):
    assert not plugin().applies_to(make_spec())
    assert plugin().mask(make_hosts(2), make_spec()).tolist() == [True, True]


@pytest.mark.parametrize(
    ("members", "on_host", "limit", "policy", "passes"),
    [
        pytest.param("a", "b", None, "anti-affinity", True, id="no member here"),
        pytest.param("a", "a", None, "anti-affinity", False, id="a member here"),
        pytest.param("ac", "ac", None, "anti-affinity", True, id="it is here already"),
        pytest.param("ab", "ab", 3, "anti-affinity", True, id="two of three"),
        pytest.param("ab", "ab", 2, "anti-affinity", False, id="two of two"),
        pytest.param("", "a", None, "anti-affinity", True, id="a group without members"),
        pytest.param("a", "a", None, "soft-anti-affinity", True, id="only a wish"),
    ],
)
def test_anti_affinity_examples_for_instance_c(members, on_host, limit, policy, passes):
    rules = {} if limit is None else {"max_server_per_host": limit}
    spec = spec_in(policy, members=[*members], rules=rules, instance_uuid="c")
    assert ServerGroupAntiAffinityFilter().mask(make_hosts(1, instances=[[*on_host]]), spec).tolist() == [passes]


def test_anti_affinity_counts_members_and_not_the_hosts_of_the_group():
    spec = spec_in("anti-affinity", members=["a"], hosts=["host1"], instance_uuid="c")
    assert ServerGroupAntiAffinityFilter().mask(make_hosts(instances=[[], ["a"]]), spec).tolist() == [True, False]


def test_a_limit_given_as_text_counts():
    spec = spec_in("anti-affinity", members=["a"], rules={"max_server_per_host": "2"}, instance_uuid="c")
    assert ServerGroupAntiAffinityFilter().mask(make_hosts(1, instances=[["a"]]), spec).tolist() == [True]


@pytest.mark.parametrize(("hosts", "passes"), [([], True), (["other"], True), (["host1"], False), (["HOST1"], True)])
def test_the_old_anti_affinity_goes_by_the_hosts_of_the_group(hosts, passes):
    table = make_hosts(1, instances=[["a"]])
    assert GroupAntiAffinityFilter().mask(table, spec_in("legacy", hosts=hosts, members=["a"])).tolist() == [passes]


# --- several instances in one request ----------------------------------------------------------------


def place(table, spec, rule, members=True):
    uuids = [f"new{number}" for number in range(spec.num_instances)]
    if members:
        group = spec.instance_group
        joined = ServerGroup(group.policy, members=(*group.members, *uuids), hosts=group.hosts, rules=group.rules)
        spec = make_spec(instance_group=joined, num_instances=spec.num_instances)
    pipeline = Pipeline([rule], [RAMWeigher()], checks_capacity=False)
    decision = pipeline.place(table, spec, uuids, randomness=random.Random(0), clock=lambda: 0)
    return [each.host for each in decision.selections]


@pytest.mark.parametrize(("plugin", "policy"), AFFINE)
def test_the_second_instance_of_an_empty_affinity_group_goes_where_the_first_went(plugin, policy):
    table = make_hosts(host=["a", "b"], total_usable_ram_mb=8192, free_ram_mb=[1000, 1400])
    assert place(table, spec_in(policy, num_instances=3), plugin()) == ["b", "b", "b"]  # by memory alone: b, a, b


def test_without_the_filter_the_same_request_spreads():
    table = make_hosts(host=["a", "b"], total_usable_ram_mb=8192, free_ram_mb=[1000, 1400])
    assert place(table, spec_in("affinity", num_instances=3), ServerGroupAntiAffinityFilter()) == ["b", "a", "b"]


def test_the_instances_of_an_anti_affinity_group_go_to_different_hosts():
    table = make_hosts(host=["a", "b", "c"], total_usable_ram_mb=8192, free_ram_mb=[1000, 8000, 2000])
    rule = ServerGroupAntiAffinityFilter()
    assert place(table, spec_in("anti-affinity", num_instances=3), rule) == ["b", "c", "a"]


def test_an_anti_affinity_group_with_more_instances_than_hosts_gets_none_at_all():
    table = make_hosts(host=["a", "b"], total_usable_ram_mb=8192)
    with pytest.raises(NoValidHost) as caught:
        place(table, spec_in("anti-affinity", num_instances=3), ServerGroupAntiAffinityFilter())
    assert caught.value.decision.failed_at == 2
    assert table.num_instances.tolist() == [0, 0]


def test_the_rule_of_the_group_lets_that_many_share_a_host():
    table = make_hosts(host=["a", "b"], total_usable_ram_mb=8192, free_ram_mb=[8000, 4000])
    spec = spec_in("anti-affinity", num_instances=3, rules={"max_server_per_host": 2})
    assert place(table, spec, ServerGroupAntiAffinityFilter()) == ["a", "a", "b"]


def test_new_instances_that_are_no_members_are_not_kept_apart():
    table = make_hosts(host=["a", "b"], total_usable_ram_mb=8192, free_ram_mb=[8000, 4000])
    spec = spec_in("anti-affinity", num_instances=2)
    assert place(table, spec, ServerGroupAntiAffinityFilter(), members=False) == ["a", "a"]


def test_the_old_anti_affinity_keeps_the_instances_of_one_request_apart():
    table = make_hosts(host=["a", "b"], total_usable_ram_mb=8192, free_ram_mb=[8000, 4000])
    assert place(table, spec_in("legacy", num_instances=2), GroupAntiAffinityFilter()) == ["a", "b"]


# --- flags and reasons -------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin", ALL)
def test_they_are_asked_for_every_instance_and_not_on_rebuild(plugin):
    assert plugin().run_filter_for_index(1)
    assert not applies_to_rebuild(plugin())


@pytest.mark.parametrize(
    ("plugin", "group", "reason"),
    [
        (ServerGroupAffinityFilter, ServerGroup("affinity", "web", hosts=("x", "y")), "the group web is on x, y"),
        (
            ServerGroupAntiAffinityFilter,
            ServerGroup("anti-affinity", "web", members=("a", "b", "z"), rules={"max_server_per_host": 2}),
            "runs 2 members of the group web; 2 allowed",
        ),
        (GroupAffinityFilter, ServerGroup("legacy", uuid="g1", hosts=("x",)), "the group g1 is on x"),
        (
            GroupAntiAffinityFilter,
            ServerGroup("legacy", hosts=("host1",)),
            "the group of the request is on this host already",
        ),
    ],
)
def test_the_reason_names_the_group_and_where_it_is(plugin, group, reason):
    hosts = make_hosts(1, instances=[["a", "b", "c"]])
    spec = make_spec(instance_group=group, instance_uuid="new")
    assert plugin().mask(hosts, spec).tolist() == [False]
    assert plugin().reason(next(iter(hosts)), spec) == reason
