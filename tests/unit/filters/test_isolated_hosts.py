# SPDX-License-Identifier: Apache-2.0
"""IsolatedHostsFilter: spec/filters.md 5.21."""

import pytest

from roost.filters.base import applies_to_rebuild
from roost.filters.isolated_hosts import IsolatedHostsFilter
from roost.model import Image
from roost.testing import make_hosts, make_spec


def rule_for(images, hosts, restrict=True):
    return IsolatedHostsFilter(IsolatedHostsFilter.Options(tuple(images), tuple(hosts), restrict))


def spec_with(image):
    return make_spec(image=None if image is None else Image(id=image))


@pytest.mark.parametrize(
    ("images", "hosts", "restrict", "image", "host", "passes"),
    [
        (["A"], ["h1"], True, "A", "h1", True),
        (["A"], ["h1"], True, "B", "h1", False),
        (["A"], ["h1"], True, None, "h1", False),
        (["A"], ["h1"], True, "A", "h2", False),
        (["A"], ["h1"], True, "B", "h2", True),
        (["A"], ["h1"], False, "B", "h1", True),
        (["A"], ["h1"], False, "A", "h2", False),
        ([], ["h1"], True, "A", "h1", False),
        ([], ["h1"], True, None, "h1", False),
        ([], ["h1"], False, "A", "h1", True),
        (["A"], [], True, "A", "h1", False),
        (["A"], [], False, "A", "h1", False),
        ([], [], True, "A", "h1", True),
        ([], [], False, None, "h1", True),
    ],
)
def test_worked_examples(images, hosts, restrict, image, host, passes):
    mask = rule_for(images, hosts, restrict).mask(make_hosts(1, host=[host]), spec_with(image))
    assert mask.tolist() == [passes]


def test_names_are_compared_exactly():
    assert rule_for(["A"], ["H1"]).mask(make_hosts(1, host=["h1"]), spec_with("A")).tolist() == [False]
    assert rule_for(["a"], ["h1"]).mask(make_hosts(1, host=["h1"]), spec_with("A")).tolist() == [False]


def test_all_nodes_of_an_isolated_host_are_isolated():
    hosts = make_hosts(host=["h1", "h1", "h2"], node=["n1", "n2", "n1"])
    assert rule_for(["A"], ["h1"]).mask(hosts, spec_with("A")).tolist() == [True, True, False]


def test_an_image_without_id_is_not_isolated():
    assert rule_for(["A"], ["h1"]).mask(make_hosts(1, host=["h1"]), make_spec(image=Image())).tolist() == [False]


def test_by_default_nothing_is_isolated_and_isolated_hosts_are_for_isolated_images_only():
    options = IsolatedHostsFilter.Options()
    assert (options.isolated_images, options.isolated_hosts) == ((), ())
    assert options.restrict_isolated_hosts_to_isolated_images


def test_it_runs_once_per_request_and_on_rebuild():
    assert not IsolatedHostsFilter().run_filter_for_index(1)
    assert applies_to_rebuild(IsolatedHostsFilter())


@pytest.mark.parametrize(
    ("image", "host", "reason"),
    [
        ("A", "h2", "the image is isolated; the host is not"),
        ("B", "h1", "the host is kept for isolated images; the request's is none"),
    ],
)
def test_the_reason_says_which_of_the_two_is_isolated(image, host, reason):
    (view,) = make_hosts(1, host=[host])
    assert rule_for(["A"], ["h1"]).reason(view, spec_with(image)) == reason
