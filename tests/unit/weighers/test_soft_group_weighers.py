# SPDX-License-Identifier: Apache-2.0
"""spec/weighers.md 4.2: groups that would rather be together, or apart."""

import math
import random

import pytest

from roost.errors import OptionError
from roost.model.decision import Scores
from roost.scheduler.all_options import read_options
from roost.scheduler.full_scan import weigh
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec
from roost.weighers.ram import RAMWeigher
from roost.weighers.server_group import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher

TOGETHER, APART = ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
KEYS = {TOGETHER: "soft_affinity_weight_multiplier", APART: "soft_anti_affinity_weight_multiplier"}
POLICIES = {TOGETHER: "soft-affinity", APART: "soft-anti-affinity"}
BOTH = [TOGETHER, APART]
MEMBERS = ["i1", "i2", "i3"]


def worked(**columns):
    """a has two members, b one, c none; strangers do not count."""
    return make_hosts(host=["a", "b", "c"], instances=[["i1", "i2"], ["i3", "other"], ["another"]], **columns)


def grouped(policy, members=MEMBERS):
    return make_spec(instance_group={"policy": policy, "members": members})


def weights(hosts, plugin, **options):
    return weigh(hosts, [plugin(plugin.Options(**options))], grouped(POLICIES[plugin])).weights.tolist()


# --- the rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("plugin", "expected"), [(TOGETHER, [2, 1, 0]), (APART, [-2, -1, 0])])
def test_members_on_the_host_are_counted_with_the_sign_of_the_policy(plugin, expected):
    assert plugin().weigh(worked(), grouped(POLICIES[plugin])).tolist() == expected


@pytest.mark.parametrize(("plugin", "expected"), [(TOGETHER, [1.0, 0.5, 0.0]), (APART, [0.0, 0.5, 1.0])])
def test_the_worked_example(plugin, expected):
    assert weights(worked(), plugin) == expected


@pytest.mark.parametrize("plugin", BOTH)
@pytest.mark.parametrize(
    "policy", ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "legacy", None]
)
def test_a_group_of_another_policy_makes_no_difference(plugin, policy):
    found = plugin().weigh(worked(), grouped(policy)).tolist()
    assert (found == [0, 0, 0]) == (policy != POLICIES[plugin])


@pytest.mark.parametrize("plugin", BOTH)
def test_without_a_group_there_is_no_difference(plugin):
    assert plugin().weigh(worked(), make_spec()).tolist() == [0, 0, 0]


@pytest.mark.parametrize("plugin", BOTH)
def test_where_no_member_runs_there_is_no_difference(plugin):
    spec = grouped(POLICIES[plugin], members=["i7", "i8"])
    assert weigh(worked(), [plugin()], spec).weights.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("members", [["i7"], ["i1"]])
def test_a_host_without_members_is_shown_with_0_and_not_with_minus_0(members):
    ((_, _, parts),) = weigh(worked(), [APART()], grouped("soft-anti-affinity", members)).noted([2])
    assert math.copysign(1, Scores(*parts)[APART.__name__].raw) == 1.0


@pytest.mark.parametrize("plugin", BOTH)
def test_a_member_that_is_named_twice_counts_once(plugin):
    found = plugin().weigh(worked(), grouped(POLICIES[plugin], members=["i1", "i1"])).tolist()
    assert [abs(each) for each in found] == [1, 0, 0]


@pytest.mark.parametrize(("plugin", "expected"), [(TOGETHER, [1, 1, 0]), (APART, [-1, -1, 0])])
def test_a_member_on_its_way_from_one_host_to_another_counts_on_both(plugin, expected):
    hosts = make_hosts(instances=[["i1"], ["i1"], []])
    assert plugin().weigh(hosts, grouped(POLICIES[plugin])).tolist() == expected


# --- multipliers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin", BOTH)
def test_the_multiplier_is_1_unless_said_otherwise(plugin):
    assert plugin().multiplier() == 1.0


def test_a_multiplier_stretches_the_difference():
    assert weights(worked(), APART, soft_anti_affinity_weight_multiplier=3.0) == [0.0, 1.5, 3.0]


def test_each_of_the_two_has_a_multiplier_of_its_own_in_aggregates():
    crossed = [[{KEYS[APART]: "9"}], [], [{KEYS[TOGETHER]: "9"}]]
    assert weights(worked(aggregates=crossed), TOGETHER) == [1.0, 0.5, 0.0]
    assert weights(worked(aggregates=crossed), APART) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(("plugin", "expected"), [(TOGETHER, [-4.0, 0.5, 0.0]), (APART, [-0.0, 0.5, 8.0])])
def test_an_aggregate_overrides_the_multiplier_even_below_0(plugin, expected):
    key = KEYS[plugin]
    hosts = worked(aggregates=[[{key: "-4"}, {key: "2"}], [{key: "x"}, {key: "2"}], [{key: "8"}]])
    assert weights(hosts, plugin) == expected


@pytest.mark.parametrize("plugin", BOTH)
@pytest.mark.parametrize("section", ["DEFAULT", "filter_scheduler"])
def test_the_multiplier_is_read_from_either_section_that_nova_had_it_in(plugin, section):
    settings = read_options(explicit={section: {KEYS[plugin]: "0"}})
    assert plugin(settings.fill(plugin.Options)).multiplier() == 0.0


@pytest.mark.parametrize("plugin", BOTH)
def test_a_negative_multiplier_may_not_be_configured(plugin):
    with pytest.raises(OptionError, match=KEYS[plugin]):
        read_options(explicit={"filter_scheduler": {KEYS[plugin]: "-1"}})


# --- several instances in one request ----------------------------------------------------------------


UUIDS = ["n1", "n2", "n3", "n4"]


def chosen_hosts(weighers, spec, memory_mb=16384):
    """Host names for the four instances, of three hosts with so much memory."""
    hosts = make_hosts(3, vcpus_total=64, total_usable_ram_mb=memory_mb)
    decision = Pipeline([], weighers).place(hosts, spec, UUIDS, randomness=random.Random(0), clock=lambda: 0)
    return [each.host for each in decision.selections]


def test_members_placed_earlier_in_the_request_count_for_soft_anti_affinity():
    assert chosen_hosts([APART()], grouped("soft-anti-affinity", UUIDS)) == ["host1", "host2", "host3", "host3"]


def test_members_placed_earlier_in_the_request_count_for_soft_affinity():
    both = [RAMWeigher(), TOGETHER()]
    assert chosen_hosts(both, make_spec()) == ["host1", "host2", "host3", "host3"]
    assert chosen_hosts(both, grouped("soft-affinity", UUIDS)) == ["host1"] * 4


def test_instances_of_the_request_that_are_not_in_the_group_do_not_count():
    assert chosen_hosts([APART()], grouped("soft-anti-affinity", MEMBERS)) == ["host1"] * 4


def test_members_are_spread_again_from_the_largest_host_once_each_host_has_one():
    hosts_mb, both = [32768, 16384, 16384], [RAMWeigher(), APART()]
    chosen = chosen_hosts(both, grouped("soft-anti-affinity", UUIDS), hosts_mb)
    assert chosen == ["host1", "host2", "host3", "host1"]
