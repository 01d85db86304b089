# SPDX-License-Identifier: Apache-2.0
"""Which queries find every provider with room."""

from roost.hosts.record import Inventory
from roost.nova.placement.providers import MOST_QUERIES, plan_queries

ONE = Inventory(8)


def queries(inventories):
    return [tuple(each) for each in plan_queries(inventories).queries]


def test_usual_hosts_need_one_query():
    hosts = {str(number): {"VCPU": ONE, "MEMORY_MB": ONE, "CUSTOM_THING": ONE} for number in range(5)}
    assert queries(hosts) == [("VCPU", 1)]


def test_each_class_of_cpus_and_each_kind_of_bare_metal_needs_one():
    hosts = {"a": {"VCPU": ONE, "PCPU": ONE}, "b": {"CUSTOM_GOLD": ONE}, "c": {"CUSTOM_TIN": ONE, "CUSTOM_ZINC": ONE}}
    assert queries(hosts) == [("CUSTOM_GOLD", 1), ("CUSTOM_TIN", 1), ("PCPU", 1), ("VCPU", 1)]


def test_the_amount_is_the_least_that_can_be_allocated():
    assert queries({"a": {"VCPU": Inventory(8, min_unit=3, step_size=2)}}) == [("VCPU", 4)]


def test_what_is_no_host_is_not_asked_about():
    assert plan_queries({"a": {"IPV4_ADDRESS": ONE}}) == ((), frozenset())


def test_providers_beyond_the_most_queries_are_not_taken_for_full():
    hosts = {str(number): {f"CUSTOM_{number:02}": ONE} for number in range(MOST_QUERIES + 2)}
    plan = plan_queries(hosts)
    assert len(plan.queries) == MOST_QUERIES
    assert plan.unlisted == {"16", "17"}
