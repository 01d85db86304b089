# SPDX-License-Identifier: Apache-2.0
"""DifferentHostFilter, SameHostFilter, SimpleCIDRAffinityFilter: spec/filters.md 5.12 to 5.14."""

import pytest

from roost.errors import RuleError
from roost.filters.affinity import DifferentHostFilter, SameHostFilter, SimpleCIDRAffinityFilter
from roost.filters.base import applies_to_rebuild
from roost.testing import make_hosts, make_spec


def answer(rule, hosts, **hints):
    return rule.mask(hosts, make_spec(scheduler_hints=hints)).tolist()


def host_running(*uuids):
    return make_hosts(1, instances=[[*uuids]])


@pytest.mark.parametrize(
    ("hint", "passes"),
    [(None, True), (["u1"], False), (["u9"], True), (["u9", "u2"], False), ([], True), ([""], True)],
)
def test_different_host_examples_on_a_host_with_u1_and_u2(hint, passes):
    hints = {} if hint is None else {"different_host": hint}
    assert answer(DifferentHostFilter(), host_running("u1", "u2"), **hints) == [passes]


@pytest.mark.parametrize(
    ("hint", "running", "passes"),
    [
        (["u9", "u2"], ["u1", "u2"], True),
        (["u9"], ["u1", "u2"], False),
        (["u1"], [], False),
        ([], ["u1"], True),
        ([""], ["u1"], True),
        (None, ["u1"], True),
    ],
)
def test_same_host_examples(hint, running, passes):
    hints = {} if hint is None else {"same_host": hint}
    assert answer(SameHostFilter(), host_running(*running), **hints) == [passes]


@pytest.mark.parametrize("plugin", [DifferentHostFilter, SameHostFilter])
def test_a_single_uuid_need_not_be_in_a_list(plugin):
    hint = {"different_host": "u1", "same_host": "u1"}
    hosts = make_hosts(host=["a", "b"], instances=[["u1"], ["u2"]])
    assert answer(plugin(), hosts, **hint) == [plugin is SameHostFilter, plugin is DifferentHostFilter]


def test_an_instance_that_is_moving_counts_on_both_of_its_hosts():
    hosts = make_hosts(host=["a", "b", "c"], instances=[["u1"], ["u1"], []])
    assert answer(DifferentHostFilter(), hosts, different_host=["u1"]) == [False, False, True]
    assert answer(SameHostFilter(), hosts, same_host=["u1"]) == [True, True, False]


@pytest.mark.parametrize(
    ("near", "cidr", "passes"),
    [
        pytest.param("10.4.7.200", "/24", True, id="same /24"),
        pytest.param("10.4.7.200", None, True, id="/24 is the default"),
        pytest.param("10.4.8.200", None, False, id="next /24"),
        pytest.param("10.4.8.200", "/16", True, id="same /16"),
        pytest.param(None, "/8", True, id="a cidr alone asks for nothing"),
        pytest.param("fd00::1", "/64", False, id="another family"),
        pytest.param("10.4.7.9", "", True, id="an empty cidr: this very address"),
        pytest.param("10.4.7.8", "", False, id="an empty cidr: another address"),
        pytest.param("10.4.7.200", "/255.255.255.0", True, id="a netmask"),
    ],
)
def test_near_address_examples_for_a_host_at_10_4_7_9(near, cidr, passes):
    hints = {name: [value] for name, value in {"build_near_host_ip": near, "cidr": cidr}.items() if value is not None}
    assert answer(SimpleCIDRAffinityFilter(), make_hosts(1, host_ip="10.4.7.9"), **hints) == [passes]


@pytest.mark.parametrize(
    ("hints", "nova_type"),
    [
        pytest.param({"build_near_host_ip": "10.4.7.200", "cidr": "24"}, "AddrFormatError", id="no slash"),
        pytest.param({"build_near_host_ip": "10.4.7.200", "cidr": "/33"}, "AddrFormatError", id="too long"),
        pytest.param({"build_near_host_ip": "somewhere"}, "AddrFormatError", id="no address"),
        pytest.param({"build_near_host_ip": ["10.4.7.1", "10.4.7.2"]}, "TypeError", id="two addresses"),
        pytest.param({"build_near_host_ip": "10.4.7.1", "cidr": []}, "TypeError", id="no cidr in the list"),
    ],
)
def test_a_network_that_is_none_fails_the_request(hints, nova_type):
    with pytest.raises(RuleError) as caught:
        answer(SimpleCIDRAffinityFilter(), make_hosts(1, host_ip="10.4.7.9"), **hints)
    assert caught.value.nova_type == nova_type


@pytest.mark.parametrize("address", [None, "not an address"])
def test_a_host_without_address_fails_the_request_once_an_address_is_asked_for(address):
    hosts = make_hosts(1, host_ip=address)
    assert answer(SimpleCIDRAffinityFilter(), hosts) == [True]
    with pytest.raises(RuleError) as caught:
        answer(SimpleCIDRAffinityFilter(), hosts, build_near_host_ip="10.4.7.200")
    assert caught.value.nova_type == "AddrFormatError"


@pytest.mark.parametrize("plugin", [DifferentHostFilter, SameHostFilter, SimpleCIDRAffinityFilter])
def test_they_run_once_per_request_and_not_on_rebuild(plugin):
    assert not plugin().run_filter_for_index(1)
    assert not applies_to_rebuild(plugin())


@pytest.mark.parametrize("plugin", [DifferentHostFilter, SameHostFilter, SimpleCIDRAffinityFilter])
def test_without_their_hint_they_have_nothing_to_do(plugin):
    assert not plugin().applies_to(make_spec())
    assert not plugin().applies_to(make_spec(scheduler_hints={"cidr": "/8", "other": "x"}))


@pytest.mark.parametrize(
    ("plugin", "hints", "reason"),
    [
        (DifferentHostFilter, {"different_host": ["u2", "u9"]}, "another host than that of u2 asked; it runs here"),
        (SameHostFilter, {"same_host": ["u8", "u9"]}, "the host of u8, u9 asked; it does not run here"),
        (
            SimpleCIDRAffinityFilter,
            {"build_near_host_ip": "10.4.8.200"},
            "an address in 10.4.8.0/24 asked; the host has 10.4.7.9",
        ),
    ],
)
def test_the_reason_names_what_was_asked_and_what_is_there(plugin, hints, reason):
    (host,) = make_hosts(1, instances=[["u1", "u2"]], host_ip="10.4.7.9")
    assert plugin().reason(host, make_spec(scheduler_hints=hints)) == reason
