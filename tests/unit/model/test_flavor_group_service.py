# SPDX-License-Identifier: Apache-2.0
import dataclasses

import pytest

from roost.errors import FieldError
from roost.model import Flavor, ServerGroup, Service

# --- flavor ------------------------------------------------------------------------------------------


def test_a_flavor_needs_cpus_and_memory():
    flavor = Flavor(vcpus=1, memory_mb=512)
    assert (flavor.root_gb, flavor.ephemeral_gb, flavor.swap, dict(flavor.extra_specs)) == (0, 0, 0, {})


def test_disk_in_mib_is_root_ephemeral_and_swap_together():
    assert Flavor(vcpus=1, memory_mb=1, root_gb=2, ephemeral_gb=3, swap=4).disk_mb == 5124


def test_a_flavor_reads_in_the_older_spelling():
    flavor = Flavor(vcpus=1, memory_mb=512, extra_specs={"a": "b"})
    assert (flavor["memory_mb"], flavor.get("extra_specs"), flavor.get("nosuch", 7)) == (512, {"a": "b"}, 7)


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (4, "4"), (1.5, "1.5"), ("x", "x")])
def test_extra_specs_are_text(value, text):
    assert Flavor(vcpus=1, memory_mb=1, extra_specs={"key": value}).extra_specs == {"key": text}


@pytest.mark.parametrize("name", ["vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"])
@pytest.mark.parametrize("value", [-1, 1.5, "1", None, True, float("nan"), float("inf"), 10**16])
def test_an_amount_is_a_whole_number_in_bounds(name, value):
    with pytest.raises(FieldError, match=f"^{name}: "):
        Flavor(**({"vcpus": 1, "memory_mb": 1} | {name: value}))


def test_a_whole_number_written_as_a_float_is_an_int():
    assert type(Flavor(vcpus=2.0, memory_mb=512).vcpus) is int


@pytest.mark.parametrize("extra_specs", [[], "a=b", {1: "x"}, {"a": None}, {"a": ["b"]}])
def test_extra_specs_are_a_mapping_of_texts(extra_specs):
    with pytest.raises(FieldError, match=r"^extra_specs"):
        Flavor(vcpus=1, memory_mb=1, extra_specs=extra_specs)


def test_equal_flavors_have_equal_hashes():
    one, other = (Flavor(vcpus=1, memory_mb=1, extra_specs={"a": "b"}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def test_flavors_with_other_extra_specs_are_different():
    assert Flavor(vcpus=1, memory_mb=1, extra_specs={"a": "b"}) != Flavor(vcpus=1, memory_mb=1)


def test_a_flavor_cannot_be_changed():
    flavor = Flavor(vcpus=1, memory_mb=1, extra_specs={"a": "b"})
    with pytest.raises(dataclasses.FrozenInstanceError):
        flavor.vcpus = 2
    with pytest.raises(TypeError):
        flavor.extra_specs["a"] = "c"


# --- server group ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "legacy", None]
)
def test_novas_policies_are_known(policy):
    assert ServerGroup(policy).policy == policy


@pytest.mark.parametrize("policy", ["antiaffinity", "", 5, "Affinity"])
def test_another_policy_is_an_error_that_lists_them(policy):
    with pytest.raises(FieldError, match=r"^policy: .* is no policy \(one of affinity, anti-affinity"):
        ServerGroup(policy)


@pytest.mark.parametrize(
    ("rules", "limit"), [({}, 1), ({"max_server_per_host": 3}, 3), ({"max_server_per_host": "3"}, 3)]
)
def test_a_group_says_how_many_one_host_may_take(rules, limit):
    assert ServerGroup("anti-affinity", rules=rules).max_server_per_host == limit


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"max_server_per_host": 0}, "rules.max_server_per_host: 0 is too small"),
        ({"max_server_per_host": "many"}, "rules.max_server_per_host: 'many' is not a whole number"),
        ({"max_servers": 2}, "rules: unknown field 'max_servers'"),
        ([], r"rules: \[\] is not a mapping"),
    ],
)
def test_bad_rules_are_an_error(rules, message):
    with pytest.raises(FieldError, match=f"^{message}"):
        ServerGroup("anti-affinity", rules=rules)


def test_members_and_hosts_are_lists_of_names():
    group = ServerGroup("affinity", members=["i1", "i2"], hosts="h1")
    assert (group.members, group.hosts) == (("i1", "i2"), ("h1",))


@pytest.mark.parametrize("fields", [{"members": 5}, {"members": [5]}, {"hosts": [""]}, {"name": 5}, {"uuid": 5}])
def test_a_bad_field_of_a_group_is_an_error_that_names_it(fields):
    with pytest.raises(FieldError, match=f"^{next(iter(fields))}"):
        ServerGroup("affinity", **fields)


def test_a_group_reads_in_the_older_spelling():
    assert ServerGroup("affinity", hosts=["h1"])["hosts"] == ("h1",)


# --- service (spec/filters.md 5.11) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "is_up"),
    [
        ({}, True),
        ({"seconds_since_seen": 0}, True),
        ({"seconds_since_seen": 60}, True),
        ({"seconds_since_seen": 60.5}, False),
        ({"seconds_since_seen": 61}, False),
        ({"seconds_since_seen": -60}, True),
        ({"seconds_since_seen": -61}, False),
        ({"up": True, "seconds_since_seen": 61}, True),
        ({"up": False, "seconds_since_seen": 0}, False),
        ({"forced_down": True, "up": True}, False),
        ({"disabled": True}, True),
    ],
)
def test_a_service_is_up_when_it_was_heard_of_and_is_not_forced_down(fields, is_up):
    assert Service(**fields).is_up(down_after_seconds=60) is is_up


@pytest.mark.parametrize(("down_after_seconds", "is_up"), [(9, False), (10, True)])
def test_the_down_time_is_handed_in(down_after_seconds, is_up):
    assert Service(seconds_since_seen=10).is_up(down_after_seconds) is is_up


@pytest.mark.parametrize(
    "fields",
    [
        {"disabled": "no"},
        {"forced_down": 1},
        {"up": "yes"},
        {"seconds_since_seen": "1"},
        {"seconds_since_seen": float("nan")},
        {"disabled_reason": 5},
    ],
)
def test_a_bad_field_of_a_service_is_an_error_that_names_it(fields):
    with pytest.raises(FieldError, match=f"^{next(iter(fields))}: "):
        Service(**fields)


def test_the_record_has_novas_names():
    record = Service(disabled=True, disabled_reason="moving").as_record(is_up=False)
    assert record == {"disabled": True, "disabled_reason": "moving", "forced_down": False, "up": False}
