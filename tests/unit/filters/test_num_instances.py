# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter and AggregateNumInstancesFilter: spec/filters.md 5.20."""

import random

import pytest

from roost.errors import NoValidHost
from roost.filters.base import applies_to_rebuild
from roost.filters.num_instances import AggregateNumInstancesFilter, NumInstancesFilter
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec

KEY = "max_instances_per_host"


@pytest.mark.parametrize(("running", "passes"), [(49, True), (50, False)])
def test_fewer_instances_than_the_limit_of_50_pass(running, passes):
    assert NumInstancesFilter().mask(make_hosts(1, num_instances=running), make_spec()).tolist() == [passes]


@pytest.mark.parametrize(
    ("running", "values", "passes"),
    [
        pytest.param(2, ["2", "10"], False, id="the smaller of two"),
        pytest.param(1, ["2", "10"], True, id="below the smaller of two"),
        pytest.param(49, ["x"], True, id="a bad value: the default of 50"),
        pytest.param(50, ["60"], True, id="the aggregate allows more"),
        pytest.param(50, [], False, id="no aggregate"),
    ],
)
def test_examples_with_aggregates(running, values, passes):
    hosts = make_hosts(1, num_instances=running, aggregates=[[{KEY: value} for value in values]])
    assert AggregateNumInstancesFilter().mask(hosts, make_spec()).tolist() == [passes]


@pytest.mark.parametrize("plugin", [NumInstancesFilter, AggregateNumInstancesFilter])
def test_the_limit_is_an_option(plugin):
    rule = plugin(NumInstancesFilter.Options(max_instances_per_host=2))
    assert rule.mask(make_hosts(num_instances=[1, 2]), make_spec()).tolist() == [True, False]


def test_instances_of_the_same_request_count():
    table, spec = make_hosts(1, num_instances=48), make_spec(num_instances=3)
    pipeline = Pipeline([NumInstancesFilter()], [], checks_capacity=False)
    with pytest.raises(NoValidHost) as caught:
        pipeline.place(table, spec, ["a", "b", "c"], randomness=random.Random(0), clock=lambda: 0)
    assert caught.value.decision.failed_at == 2


@pytest.mark.parametrize("plugin", [NumInstancesFilter, AggregateNumInstancesFilter])
def test_they_are_asked_for_every_instance_and_not_on_rebuild(plugin):
    assert plugin().run_filter_for_index(1)
    assert not applies_to_rebuild(plugin())


def test_the_reason_names_how_many_there_are_and_the_limit():
    (host,) = make_hosts(1, num_instances=60, aggregates=[[{KEY: "2"}]])
    assert NumInstancesFilter().reason(host, make_spec()) == "60 instances running; the limit is 50"
    assert AggregateNumInstancesFilter().reason(host, make_spec()) == "60 instances running; the limit is 2"
