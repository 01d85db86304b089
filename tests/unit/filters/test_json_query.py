# SPDX-License-Identifier: Apache-2.0
"""JsonFilter: spec/filters.md 5.22."""

import json

import pytest

from roost.errors import RuleError
from roost.filters.base import applies_to_rebuild
from roost.filters.json_query import MAX_QUERY_CHARACTERS, MAX_QUERY_DEPTH, JsonFilter
from roost.hosts.hosts import ATTRIBUTES
from roost.testing import make_hosts, make_spec


def ask(query, **columns):
    host = {"free_ram_mb": 512, "hypervisor_type": "QEMU", "stats": {"a": {"b": 3}}, "service": {"disabled": False}}
    spec = make_spec(scheduler_hints={"query": query})
    return JsonFilter().mask(make_hosts(1, **(host | columns)), spec).tolist()


def failure_of(query, **columns):
    with pytest.raises(RuleError) as caught:
        ask(query, **columns)
    return caught.value


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ('["and",[">=","$free_ram_mb",256],["=","$hypervisor_type","QEMU"]]', True),
        ('["=","$hypervisor_type","qemu"]', False),
        ('[">",5,1,2,3]', True),
        ('[">",5,1,9]', False),
        ('["=",1,1.0,true]', True),
        ('["in","QEMU","KVM","QEMU"]', True),
        ('["=","$stats.a.b",3]', True),
        ('["=",512,"$free_ram_mb","$nosuch"]', True),
        ('["=","$free_ram_mb",null]', False),
        ('["<=",1]', False),
        ('["not","$service.disabled"]', True),
        ('["not",["=",1,1]]', False),
        ('["and",["not",["=",1,1]]]', True),
        ('["or",["not",true]]', True),
        ('["and",["not"]]', False),
        ('["not",true,false,true]', True),
        ('["and"]', True),
        ('["or"]', False),
        ('["not"]', False),
        ('["and",""]', True),
        ('["or",""]', False),
        ('["and",[]]', True),
        ("[]", True),
        ("{}", True),
    ],
)
def test_worked_examples(query, passes):
    assert ask(query) == [passes]


@pytest.mark.parametrize(
    ("query", "nova_type"),
    [
        ('["in",3,[1,3]]', "KeyError"),
        ('["!=",1,2]', "KeyError"),
        ('["AND",true]', "KeyError"),
        ('{"a":1}', "KeyError"),
        ('"abc"', "KeyError"),
        ("5", "TypeError"),
        ("nonsense", "JSONDecodeError"),
        ('[">","$free_ram_mb","100"]', "TypeError"),
        ('["=","$free_ram_mb.x",3]', "AttributeError"),
        ('[["and"],true]', "TypeError"),
        ('[{"a":1},true]', "TypeError"),
        ("[null]", "KeyError"),
        ("true", "TypeError"),
        ("1" * 5000, "ValueError"),
    ],
)
def test_a_query_that_cannot_be_judged_fails_the_request(query, nova_type):
    assert failure_of(query).nova_type == nova_type


@pytest.mark.parametrize("query", ['""', "0", "null", "false"])
def test_a_query_that_is_empty_in_any_way_is_true(query):
    assert ask(query) == [True]


@pytest.mark.parametrize(("value", "passes"), [(3, False), (4, True)])
@pytest.mark.parametrize("operator", ["<", "<="])
def test_the_first_argument_is_compared_with_each_of_the_others(operator, value, passes):
    assert ask(json.dumps([operator, 3, 5, value if operator == "<" else value - 1])) == [passes]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$host", "host1"),
        ("$nodename", "host1"),
        ("$vcpus_total", 4),
        ("$hypervisor_type", "QEMU"),
        ("$stats.a.b", 3),
        ("$ram_allocation_ratio", 1.5),
        ("$num_instances", 0),
        ("$pci_stats", "$pci_stats"),
    ],
)
def test_a_reference_stands_for_the_attribute_as_it_is(path, value):
    assert ask(json.dumps(["=", path, value]), vcpus_total=4, ram_allocation_ratio=1.5) == [True]


@pytest.mark.parametrize("name", sorted(ATTRIBUTES))
def test_every_attribute_can_be_asked_for(name):
    assert ask(json.dumps(["or", f"${name}", True])) == [True]


@pytest.mark.parametrize(
    "path", ["$nosuch", "$numa_topology", "$stats.nosuch", "$stats.nosuch.deeper", "$host_ip", "$host_ip.x", "$"]
)
def test_a_reference_that_leads_nowhere_is_left_out(path):
    assert ask(json.dumps(["and", path])) == [True]
    assert ask(json.dumps(["or", path])) == [False]


def test_lists_of_the_host_are_lists():
    triples = [["x86_64", "kvm", "hvm"]]
    assert ask('["not", ["not", "$supported_instances"]]', supported_instances=[triples]) == [False]
    assert ask('["and", "$supported_instances"]', supported_instances=[triples]) == [True]
    assert ask('["and", "$supported_instances"]', supported_instances=[[]]) == [False]


def test_hosts_that_differ_in_what_the_query_names_get_answers_of_their_own():
    hosts = make_hosts(free_ram_mb=[512, 2048, 512], hypervisor_type=["QEMU", "QEMU", "KVM"])
    spec = make_spec(scheduler_hints={"query": '["and", [">", "$free_ram_mb", 1000], ["=", "$host", "host2"]]'})
    assert JsonFilter().mask(hosts, spec).tolist() == [False, True, False]


def test_whether_a_service_is_up_is_each_hosts_own_even_where_their_records_are_alike():
    hosts = make_hosts(2)
    hosts.writable_column("is_up")[1] = False  # as the clock does it
    spec = make_spec(scheduler_hints={"query": '["and", "$service.up"]'})
    assert JsonFilter().mask(hosts, spec).tolist() == [True, False]


def test_two_queries_fail_the_request():
    with pytest.raises(RuleError) as caught:
        ask(["[]", "[]"])
    assert caught.value.nova_type == "TypeError"


@pytest.mark.parametrize("hints", [{}, {"query": ""}, {"query": []}])
def test_without_a_query_every_host_passes(hints):
    spec = make_spec(scheduler_hints=hints)
    assert not JsonFilter().applies_to(spec)
    assert JsonFilter().mask(make_hosts(1), spec).tolist() == [True]


# --- limits ------------------------------------------------------------------------------------------


def test_a_query_of_the_largest_size_is_answered_and_one_character_more_is_refused():
    text = '["and", "' + "x" * (MAX_QUERY_CHARACTERS - 11) + '"]'
    assert len(text) == MAX_QUERY_CHARACTERS
    assert ask(text) == [True]
    assert f"{MAX_QUERY_CHARACTERS + 1} characters" in str(failure_of(text + " "))


def nested(levels, inner="true"):
    return '["and", ' * levels + inner + "]" * levels


def test_a_query_of_the_largest_depth_is_answered_and_one_level_more_is_refused():
    assert ask(nested(MAX_QUERY_DEPTH - 1)) == [True]
    assert failure_of(nested(MAX_QUERY_DEPTH)).nova_type == "RecursionError"


@pytest.mark.parametrize("levels", [600, 5000])
def test_a_query_far_too_deep_is_refused_in_the_same_words(levels):
    assert failure_of(nested(levels)).nova_type == "RecursionError"
    assert failure_of("[" * levels).nova_type in ("RecursionError", "JSONDecodeError")


def test_mappings_count_as_levels_too():
    deep = '{"a": ' * 500 + "1" + "}" * 500
    assert failure_of(f'["=", {deep}, {deep}]').nova_type == "RecursionError"


# --- flags and reasons -------------------------------------------------------------------------------


def test_it_is_asked_for_every_instance_and_not_on_rebuild():
    assert JsonFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(JsonFilter())


def test_it_says_that_it_may_read_any_attribute():
    assert {"free_ram_mb", "stats", "service", "instances"} <= JsonFilter.reads


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (
            '["and", [">", "$free_ram_mb", 1000], "$nosuch", "$hypervisor_type"]',
            "the query is not true here: free_ram_mb is 512, hypervisor_type is 'QEMU'",
        ),
        ('["or", "$service.disabled"]', "the query is not true here: service.disabled is False"),
        ('["or"]', "the query is not true here"),
    ],
)
def test_the_reason_names_what_the_query_looked_at(query, reason):
    (host,) = make_hosts(1, free_ram_mb=512)
    assert JsonFilter().reason(host, make_spec(scheduler_hints={"query": query})) == reason
