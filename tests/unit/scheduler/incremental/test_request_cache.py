# SPDX-License-Identifier: Apache-2.0
"""Which requests share what is cached, and how much is cached."""

from dataclasses import replace

import pytest
from tests.unit.scheduler.incremental.compared import cache_of, fleet, report

from roost.filters.aggregate_isolation import AggregateMultiTenancyIsolation
from roost.filters.core import CoreFilter
from roost.filters.disk import DiskFilter
from roost.filters.isolated_hosts import IsolatedHostsFilter
from roost.filters.ram import RamFilter
from roost.filters.type_affinity import AggregateTypeAffinityFilter, TypeAffinityFilter
from roost.model import Image
from roost.scheduler.incremental import engine, request_class
from roost.testing import make_spec

CLASS, FAMILY, NEITHER = "class", "family", "neither"
RAW = Image(id="a", disk_format="raw", properties={"os_distro": "debian"})
GROUP = {"policy": "anti-affinity", "uuid": "g", "name": "web", "members": ["u1"], "hosts": ["h000"]}
BASE = {"memory_mb": 1024, "root_gb": 5, "name": "m1", "id": 1, "project_id": "p1", "user_id": "me", "image": RAW}
OTHER_VALUES = {
    CLASS: {"instance_uuid": "i2", "num_instances": 5, "name": "m2", "id": 2, "project_id": "p2", "user_id": "you"},
    FAMILY: {"memory_mb": 2048, "vcpus": 2, "root_gb": 1, "ephemeral_gb": 1, "swap": 1},
    NEITHER: {
        "extra_specs": {"ssd": "true"},
        "image": None,
        "availability_zone": "az1",
        "scheduler_hints": {"same_host": ["u1"]},
        "instance_group": GROUP,
        "retry": {"hosts": [("h000", "h000")]},
        "ignore_hosts": ["h000"],
        "force_hosts": ["h000"],
        "force_nodes": ["h000"],
        "requested_destination": {"host": "h000"},
        "is_bfv": True,
    },
}
"""What requests share that differ in one field -> the field and a value other than that of BASE."""


def shared(first, second, *filters, **keywords):
    """What two requests share."""
    cache = cache_of(fleet(), filters, **keywords)
    one, other = cache.find(make_spec(**first)), cache.find(make_spec(**second))
    if one is other:
        return CLASS
    return FAMILY if one.family is other.family else NEITHER


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [(field, value, what) for what, fields in OTHER_VALUES.items() for field, value in fields.items()],
)
def test_requests_share_a_class_unless_they_differ_in_what_an_answer_depends_on(field, value, what):
    assert shared(BASE, BASE | {field: value}) == what


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"id": "b", "name": "other", "size": 5}, CLASS),
        ({"disk_format": "qcow2"}, NEITHER),
        ({"properties": Image(properties={"os_distro": "windows"}).properties}, NEITHER),
    ],
)
def test_of_an_image_properties_and_format_distinguish_requests(fields, what):
    assert shared(BASE, BASE | {"image": replace(RAW, **fields)}) == what


def test_without_an_image_a_root_disk_on_a_volume_is_another_size():
    assert shared({"root_gb": 5}, {"root_gb": 5, "is_bfv": True}) == FAMILY


@pytest.mark.parametrize(
    ("rule", "fields", "what"),
    [
        (AggregateMultiTenancyIsolation, {"project_id": "p2"}, NEITHER),
        (AggregateTypeAffinityFilter, {"name": "m2"}, NEITHER),
        (TypeAffinityFilter, {"id": 2}, NEITHER),
        (TypeAffinityFilter, {"id": "1"}, NEITHER),
        (RamFilter, {"memory_mb": 2048}, NEITHER),
        (CoreFilter, {"vcpus": 2}, NEITHER),
        (DiskFilter, {"root_gb": 2}, NEITHER),
        (IsolatedHostsFilter, {"image": replace(RAW, id="b")}, CLASS),
        (IsolatedHostsFilter, {"image": replace(RAW, id="c")}, NEITHER),
    ],
)
def test_what_an_enabled_filter_looks_at_distinguishes_requests(rule, fields, what):
    isolated = {"isolated_hosts": ("h000",), "isolated_images": ("a", "b")}
    rule = rule(rule.Options(**isolated)) if rule is IsolatedHostsFilter else rule()
    assert shared(BASE, BASE | fields, rule) == what
    assert shared(BASE, BASE, rule) == CLASS


def test_projects_with_aggregates_of_their_own_distinguish_requests():
    assert shared({"project_id": "p1"}, {"project_id": "p2"}, by_project=True) == NEITHER


@pytest.mark.parametrize(
    ("policy", "fields", "what"),
    [
        pytest.param("anti-affinity", {"members": ["u1", "u2"]}, CLASS, id="members, which are tracked"),
        pytest.param("anti-affinity", {"hosts": ["h001"]}, CLASS, id="hosts, which only affinity goes by"),
        pytest.param("affinity", {"hosts": ["h001"]}, NEITHER, id="hosts of affinity"),
        pytest.param("legacy", {"hosts": ["h001"]}, NEITHER, id="hosts of a legacy group"),
        pytest.param("anti-affinity", {"uuid": "other"}, NEITHER, id="uuid"),
        pytest.param("anti-affinity", {"name": "other"}, NEITHER, id="name, which reasons contain"),
        pytest.param("anti-affinity", {"policy": "soft-anti-affinity"}, NEITHER, id="policy"),
        pytest.param("anti-affinity", {"rules": {"max_server_per_host": 2}}, NEITHER, id="rules"),
    ],
)
def test_requests_of_a_group_share_a_class_whatever_its_members(policy, fields, what):
    group = GROUP | {"policy": policy}
    assert shared({"instance_group": group}, {"instance_group": group | fields}) == what


def zoned(number):
    """A request of a family of its own."""
    return make_spec(availability_zone=f"az{number}")


def sized(number):
    """A request of a class of its own, all of one family."""
    return make_spec(memory_mb=number)


@pytest.mark.parametrize(
    ("module", "bound", "make"), [(engine, "MOST_FAMILIES", zoned), (request_class, "MOST_SIZES", sized)]
)
def test_the_least_recently_used_family_or_class_is_dropped(module, bound, make, monkeypatch):
    monkeypatch.setattr(module, bound, 4)
    cache = cache_of(fleet())
    found = {number: cache.find(make(number)) for number in range(1, 5)}
    cache.find(make(1))
    cache.find(make(5))
    assert [cache.find(make(number)) is found[number] for number in (1, 3, 4, 2)] == [True, True, True, False]


@pytest.mark.parametrize(("make", "is_cached"), [(zoned, False), (sized, True)], ids=["families", "classes"])
def test_memory_is_bounded_by_dropping_families_except_the_latest(make, is_cached, monkeypatch):
    """Ten hosts take 10 bytes per class and 20 per family, of which 90 are allowed."""
    monkeypatch.setattr(engine, "MOST_BYTES", 90)
    cache = cache_of(fleet(10))
    found = {number: cache.find(make(number)) for number in range(1, 13)}
    still = [cache.find(make(number)) is found[number] for number in (12, 11, 10, 9)]
    assert still == [True, True, True, is_cached]


def test_a_family_is_cached_with_its_second_request_and_the_first_is_remembered_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(engine, "MOST_SEEN", 2)
    cache = cache_of(fleet())
    assert [cache.find(zoned(number), scans_before_caching=1) for number in (1, 2, 3, 1)] == [None] * 4
    assert cache.find(zoned(3), scans_before_caching=1) is not None
    assert cache.find(zoned(4), scans_before_caching=0) is not None


def test_catching_up_patches_a_cached_class_and_caches_no_other():
    table = fleet(free_ram_mb=[100, 200, 300])
    cache, large = cache_of(table), make_spec(memory_mb=5000)
    cached = cache.find(large)
    report(table, 1, free_ram_mb=8000)
    for spec in (large, sized(1), zoned(1)):
        cache.catch_up(spec)
    assert (cached.survivors.left, list(cached.family.classes.values())) == (1, [cached])
    assert cache.find(zoned(1), scans_before_caching=1) is None
