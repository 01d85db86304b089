# SPDX-License-Identifier: Apache-2.0
"""MetricsFilter: spec/filters.md 5.23."""

import pytest

from roost.errors import RuleError
from roost.filters.base import applies_to_rebuild
from roost.filters.metrics import MetricsFilter
from roost.testing import make_hosts, make_spec


def rule_for(*settings):
    return MetricsFilter(MetricsFilter.Options(weight_setting=settings))


def host_with(*names):
    return make_hosts(1, metrics=[tuple({"name": name, "value": 1} for name in names)])


@pytest.mark.parametrize(
    ("settings", "reported", "passes"),
    [
        ([], [], True),
        (["a=1"], ["a"], True),
        (["a=1", "b=-2"], ["a"], False),
        (["a=x", "a", "=1", "a=1=2"], [], True),
        (["a=1"], ["A"], False),
        (["a=1"], ["b", "a"], True),
    ],
)
def test_worked_examples(settings, reported, passes):
    assert rule_for(*settings).mask(host_with(*reported), make_spec()).tolist() == [passes]


@pytest.mark.parametrize("entry", ["a=x", "a", "=1", "a=1=2", "", "=", "a="])
def test_an_entry_that_is_no_name_and_number_is_left_out(entry):
    assert rule_for(entry, "b=2").mask(host_with("b"), make_spec()).tolist() == [True]
    assert rule_for(entry, "b=2").mask(host_with("a"), make_spec()).tolist() == [False]


@pytest.mark.parametrize("settings", [[], ["a=1"]])
def test_a_host_without_any_list_of_metrics_fails_the_request(settings):
    rule = rule_for(*settings)
    assert rule.applies_to(make_spec())
    with pytest.raises(RuleError) as caught:
        rule.mask(make_hosts(1, metrics=None), make_spec())
    assert caught.value.nova_type == "TypeError"


def test_it_is_asked_for_every_instance_and_not_on_rebuild():
    assert MetricsFilter().run_filter_for_index(1)
    assert not applies_to_rebuild(MetricsFilter())


def test_the_reason_names_the_metrics_that_are_missing():
    (host,) = host_with("a", "d")
    assert rule_for("a=1", "b=2", "c=3").reason(host, make_spec()) == "does not report b, c"
