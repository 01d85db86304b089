# SPDX-License-Identifier: Apache-2.0
"""AggregateInstanceExtraSpecsFilter: spec/filters.md 5.5."""

import pytest

from roost.errors import RuleError
from roost.filters.aggregate_extra_specs import AggregateInstanceExtraSpecsFilter
from roost.filters.base import applies_to_rebuild
from roost.testing import make_hosts, make_spec

SCOPE = "aggregate_instance_extra_specs"


def answer(extra_specs, *metadata):
    hosts = make_hosts(1, aggregates=[[*metadata]])
    return AggregateInstanceExtraSpecsFilter().mask(hosts, make_spec(extra_specs=extra_specs)).tolist()


@pytest.mark.parametrize(
    ("extra_specs", "aggregates", "passes"),
    [
        pytest.param({f"{SCOPE}:ssd": "true"}, [{"ssd": "true"}], True, id="in its scope"),
        pytest.param({"ssd": "true"}, [], False, id="without scope, and no aggregate has it"),
        pytest.param({}, [{"ssd": "true"}], True, id="nothing asked"),
        pytest.param({"hw:cpu_policy": "dedicated"}, [], True, id="another scope"),
        pytest.param({"a:b:c": "1"}, [{"b:c": "1"}], True, id="another scope, whatever follows"),
        pytest.param({f"{SCOPE}:b:c": "1"}, [{"b:c": "1"}], True, id="only the first colon ends the scope"),
        pytest.param({"ssd": "true"}, [{"ssd": "false"}, {"ssd": "true"}], True, id="one aggregate is enough"),
        pytest.param({"ssd": "true"}, [{"ssd": "false, true"}], True, id="one of a list is enough"),
        pytest.param({"ssd": "a,b"}, [{"ssd": "a,b"}], False, id="split into a and b"),
        pytest.param({"n": ">= 5"}, [{"n": "1,7"}], True, id="7 is enough"),
        pytest.param({"n": "s!= a"}, [{"n": "a,b"}], True, id="b differs"),
        pytest.param({"ssd": ""}, [{"ssd": ""}], True, id="empty is empty"),
        pytest.param({"ssd": "<or> a <or> b"}, [{"ssd": "a"}], True, id="one of the alternatives"),
        pytest.param({"ssd": "true", "n": ">= 5"}, [{"ssd": "true", "n": "4"}], False, id="all must hold"),
        pytest.param({"ssd": "true", "n": ">= 5"}, [{"ssd": "true"}, {"n": "5"}], True, id="in different aggregates"),
    ],
)
def test_worked_examples(extra_specs, aggregates, passes):
    assert answer(extra_specs, *aggregates) == [passes]


def test_a_number_compared_with_text_fails_the_request():
    with pytest.raises(RuleError) as caught:
        answer({"n": ">= 5"}, {"n": "x"})
    assert caught.value.nova_type == "ValueError"


def test_an_or_without_alternatives_fails_the_request_only_where_a_value_is_compared():
    assert answer({"n": "<or>"}) == [False]
    with pytest.raises(RuleError) as caught:
        answer({"n": "<or>"}, {"n": "1"})
    assert caught.value.nova_type == "IndexError"


def test_it_runs_once_per_request_and_not_on_rebuild():
    assert not AggregateInstanceExtraSpecsFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(AggregateInstanceExtraSpecsFilter())


def test_without_extra_specs_it_has_nothing_to_do():
    assert not AggregateInstanceExtraSpecsFilter().applies_to(make_spec())


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([{"n": "1, 3"}], "n '>= 5' asked; its aggregates say 1, 3"),
        ([], "n '>= 5' asked; none of its aggregates has it"),
    ],
)
def test_the_reason_names_the_requirement_and_what_the_aggregates_say(metadata, reason):
    (host,) = make_hosts(1, aggregates=[metadata])
    spec = make_spec(extra_specs={f"{SCOPE}:n": ">= 5"})
    assert AggregateInstanceExtraSpecsFilter().reason(host, spec) == reason
