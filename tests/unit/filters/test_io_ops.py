# SPDX-License-Identifier: Apache-2.0
"""IoOpsFilter and AggregateIoOpsFilter: spec/filters.md 5.19."""

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.io_ops import AggregateIoOpsFilter, IoOpsFilter
from roost.testing import make_hosts, make_spec

KEY = "max_io_ops_per_host"


@pytest.mark.parametrize(("running", "passes"), [(7, True), (8, False), (0, True)])
def test_fewer_operations_than_the_limit_of_8_pass(running, passes):
    assert IoOpsFilter().mask(make_hosts(1, num_io_ops=running), make_spec()).tolist() == [passes]


@pytest.mark.parametrize(
    ("running", "values", "passes"),
    [
        pytest.param(9, ["10"], True, id="the aggregate allows more"),
        pytest.param(9, ["10", "9"], False, id="the smaller of two"),
        pytest.param(8, ["XX", "20"], False, id="a bad value: the default of 8"),
        pytest.param(0, ["0"], False, id="none allowed"),
        pytest.param(7, ["9,10"], True, id="no comma lists: the default of 8"),
        pytest.param(8, ["9,10"], False, id="no comma lists: the default of 8, reached"),
        pytest.param(7, [], True, id="no aggregate"),
        pytest.param(8, [], False, id="no aggregate, limit reached"),
        pytest.param(9, ["1" + "0" * 400], True, id="a number of hundreds of digits"),
    ],
)
def test_worked_examples_with_aggregates(running, values, passes):
    hosts = make_hosts(1, num_io_ops=running, aggregates=[[{KEY: value} for value in values]])
    mask = AggregateIoOpsFilter().mask(hosts, make_spec())
    assert mask.tolist() == [passes]
    assert mask.dtype == bool


def test_the_plain_form_does_not_look_at_aggregates():
    assert IoOpsFilter().mask(make_hosts(1, num_io_ops=7, aggregates=[[{KEY: "2"}]]), make_spec()).tolist() == [True]


@pytest.mark.parametrize("plugin", [IoOpsFilter, AggregateIoOpsFilter])
def test_the_limit_is_an_option(plugin):
    rule = plugin(IoOpsFilter.Options(max_io_ops_per_host=2))
    assert rule.mask(make_hosts(num_io_ops=[1, 2]), make_spec()).tolist() == [True, False]


@pytest.mark.parametrize("plugin", [IoOpsFilter, AggregateIoOpsFilter])
def test_they_are_asked_for_every_instance_and_not_on_rebuild(plugin):
    assert plugin().run_filter_for_index(1)
    assert not applies_to_rebuild(plugin())


def test_the_reason_names_how_many_there_are_and_the_limit():
    (host,) = make_hosts(1, num_io_ops=9, aggregates=[[{KEY: "5"}]])
    assert IoOpsFilter().reason(host, make_spec()) == "9 I/O operations running; the limit is 8"
    assert AggregateIoOpsFilter().reason(host, make_spec()) == "9 I/O operations running; the limit is 5"
