# SPDX-License-Identifier: Apache-2.0
"""Hosts for certain flavors: spec/filters.md 5.7."""

import random

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.type_affinity import AggregateTypeAffinityFilter, TypeAffinityFilter
from roost.hosts import HostRecord, Instance
from roost.scheduler.pipeline import Pipeline
from roost.testing import make_hosts, make_spec


def running(*flavor_ids):
    return [Instance(f"u{at}", flavor_id=flavor_id) for at, flavor_id in enumerate(flavor_ids)]


@pytest.mark.parametrize(
    ("aggregates", "passes"),
    [
        pytest.param([], True, id="no aggregate"),
        pytest.param([{"instance_type": "m2, m1"}], True, id="one of a list"),
        pytest.param([{"instance_type": "m2"}], False, id="another flavor"),
        pytest.param([{"instance_type": "m2"}, {"instance_type": "m1"}], True, id="either"),
        pytest.param([{"instance_type": ""}], False, id="an empty value is no flavor"),
        pytest.param([{"flavor": "m1"}], True, id="another key means nothing"),
        pytest.param([{"instance_type": "M1"}], False, id="case matters"),
    ],
)
def test_flavor_names_in_aggregates_examples_for_m1(aggregates, passes):
    hosts = make_hosts(1, aggregates=[aggregates])
    assert AggregateTypeAffinityFilter().mask(hosts, make_spec(name="m1")).tolist() == [passes]


@pytest.mark.parametrize(("flavor_ids", "passes"), [((3, 3), True), ((3, 4), False), ((), True), ((4,), False)])
def test_flavor_ids_of_instances_examples_for_flavor_3(flavor_ids, passes):
    hosts = make_hosts(1, instances=[running(*flavor_ids)])
    assert TypeAffinityFilter().mask(hosts, make_spec(id=3, name="m1")).tolist() == [passes]


def test_what_one_request_places_counts_for_the_next():
    table = make_hosts(host=["a"])
    pipeline = Pipeline([TypeAffinityFilter()], [], checks_capacity=False)
    pipeline.place(table, make_spec(id=3), ["new"], randomness=random.Random(0), clock=lambda: 0)
    assert TypeAffinityFilter().mask(table, make_spec(id=3)).tolist() == [True]
    assert TypeAffinityFilter().mask(table, make_spec(id=4)).tolist() == [False]


def test_once_asked_it_follows_whoever_comes_and_goes():
    table, rule, spec = make_hosts(host=["a"]), TypeAffinityFilter(), make_spec(id=3)
    assert rule.mask(table, spec).tolist() == [True]
    other = table.consume(0, make_spec(id=4, instance_uuid="other"))
    assert rule.mask(table, spec).tolist() == [False]
    twin = table.copy()
    table.release(0, other)
    assert rule.mask(table, spec).tolist() == [True]
    assert rule.mask(twin, spec).tolist() == [False]
    table.update(0, HostRecord("a", instances=(Instance("u", flavor_id=5),)))
    assert rule.mask(table, spec).tolist() == [False]
    assert rule.mask(table, make_spec(id=5)).tolist() == [True]


def test_flavor_names_are_asked_once_per_request_flavor_ids_for_every_instance():
    assert not AggregateTypeAffinityFilter().run_filter_for_index(1)
    assert TypeAffinityFilter().run_filter_for_index(1)


@pytest.mark.parametrize("plugin", [AggregateTypeAffinityFilter, TypeAffinityFilter])
def test_they_do_not_run_on_rebuild(plugin):
    assert not applies_to_rebuild(plugin())


def test_the_reasons_name_the_flavors():
    (host,) = make_hosts(1, aggregates=[[{"instance_type": "m3, m2"}]], instances=[running(3, 4, 5)])
    spec = make_spec(id=3, name="m1")
    assert AggregateTypeAffinityFilter().reason(host, spec) == "kept for the flavors m2, m3; the request is for m1"
    assert TypeAffinityFilter().reason(host, spec) == "runs instances of the flavors 4, 5; 3 asked"
