# SPDX-License-Identifier: Apache-2.0
"""Queries on columns: the same answers as the operators give host by host."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import RuleError
from roost.filters.json_query import QueryColumns, apply_operator, is_true, reference, split_query
from roost.testing import make_hosts

HOSTS = make_hosts(
    free_ram_mb=[512, 2048, 512, 0],
    vcpus_used=[0, 1, 2, 1],
    hypervisor_type=["QEMU", "QEMU", "KVM", None],
    stats=[{"a": {"b": 3}}, {"a": {"b": 0}}, {}, {"a": None}],
    ram_allocation_ratio=[1.0, 1.5, 1.0, 1.0],
)
REFERENCES = ["$free_ram_mb", "$vcpus_used", "$hypervisor_type", "$stats.a", "$stats.a.b", "$host", "$nosuch"]
REFERENCES += ["$ram_allocation_ratio", "$service.disabled", "$supported_instances"]
SCALARS = [None, "", True, False, 0, 1, 512, 1.5, 2**60, float("nan"), "QEMU", "host2", {"a": 1}]
QUERIES = st.recursive(
    st.sampled_from([*SCALARS, *REFERENCES]),
    lambda inner: st.lists(inner, max_size=4).flatmap(
        lambda arguments: st.sampled_from(["=", "<", ">=", "in", "not", "or", "and"]).map(
            lambda name: [name, *arguments]
        )
    ),
    max_leaves=12,
)


def evaluate(query, host):
    """The definition: arguments first, those without a value left out."""
    if not query:
        return True
    name, arguments = split_query(query)
    values = [argument(each, host) for each in arguments]
    return apply_operator(name, [each for each in values if each is not None])


def argument(value, host):
    if isinstance(value, list):
        return evaluate(value, host)
    if not isinstance(value, str):
        return value
    return reference(value[1:], host) if value.startswith("$") else value or None


def outcome(work):
    try:
        return work()
    except RuleError:
        return "error"


@given(QUERIES)
def test_columns_answer_as_the_definition_does_host_by_host(query):
    plain = outcome(lambda: [is_true(evaluate(query, host)) for host in HOSTS])
    assert outcome(lambda: QueryColumns(HOSTS).truth(query).tolist()) == plain


@pytest.mark.parametrize("name", sorted(["=", "<", ">", "<=", ">=", "in"]))
@pytest.mark.parametrize("other", [512, 512.0, 0, True, "$vcpus_used", 2**53 + 1])
def test_numbers_are_compared_as_python_does(name, other):
    query = [name, "$free_ram_mb", other]
    assert QueryColumns(HOSTS).truth(query).tolist() == [is_true(evaluate(query, host)) for host in HOSTS]


def test_no_host_is_asked_where_there_is_none():
    nothing = HOSTS.keep(HOSTS.free_ram_mb < 0)
    assert QueryColumns(nothing).truth(json.loads('["nonsense"]')).tolist() == []
