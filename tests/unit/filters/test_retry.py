# SPDX-License-Identifier: Apache-2.0
"""spec/filters.md 5.26."""

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.retry import RetryFilter
from roost.model import Retry
from roost.testing import make_hosts, make_spec

H1_N1 = make_hosts(1, host="h1", node="n1")


@pytest.mark.parametrize(
    ("tried", "node", "passes"),
    [
        pytest.param([], "n1", True, id="nothing tried"),
        pytest.param([("h1", "n1")], "n1", False, id="this pair"),
        pytest.param([("h1", "n1")], "n2", True, id="another node of the host"),
        pytest.param([("h2", "n1")], "n1", True, id="another host"),
        pytest.param([("h2", "n1"), ("h1", "n1")], "n1", False, id="among several"),
        pytest.param([("H1", "n1")], "n1", True, id="case-sensitive"),
    ],
)
def test_worked_examples(tried, node, passes):
    hosts = make_hosts(1, host="h1", node=node)
    assert RetryFilter().mask(hosts, make_spec(retry=Retry(hosts=tried))).tolist() == [passes]


def test_without_a_retry_record_every_host_passes():
    assert RetryFilter().mask(H1_N1, make_spec(retry=None)).tolist() == [True]


def test_only_the_tried_one_of_many_is_left_out():
    hosts = make_hosts(host=["a", "b", "b", "c"], node=["n1", "n1", "n2", "n1"])
    assert RetryFilter().mask(hosts, make_spec(retry=Retry(hosts=[("b", "n2")]))).tolist() == [
        True,
        True,
        False,
        True,
    ]


def test_hosts_that_left_the_running_are_not_counted():
    hosts = make_hosts(host=["a", "b", "c"]).in_the_running().take([2, 1])
    assert RetryFilter().mask(hosts, make_spec(retry=Retry(hosts=[("b", "b")]))).tolist() == [True, False]


@pytest.mark.parametrize("retry", [None, Retry(hosts=())])
def test_it_has_nothing_to_do_where_nothing_was_tried(retry):
    assert not RetryFilter().applies_to(make_spec(retry=retry))


def test_it_is_asked_for_every_instance():
    assert RetryFilter().run_filter_for_index(1)


def test_it_does_not_run_on_rebuild():
    assert not applies_to_rebuild(RetryFilter())


def test_the_reason_names_the_attempt():
    (host,) = H1_N1
    spec = make_spec(retry=Retry(num_attempts=2, hosts=[("h1", "n1")]))
    assert RetryFilter().reason(host, spec) == "tried already; this is attempt 2"
