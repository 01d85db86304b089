# SPDX-License-Identifier: Apache-2.0
"""Aggregates and instances that other services tell of."""

import pytest

from roost.errors import FieldError
from roost.hosts import Instance
from roost.messages.objects.aggregates_instances import (
    aggregate_to_object,
    aggregates_from_object,
    instances_from_object,
    instances_to_object,
)
from roost.model import Aggregate

AGGREGATE = Aggregate("a", {"ssd": "true"}, ("h1", "h2"), id=3, uuid="u")


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: [one]])
def test_one_aggregate_or_a_list_of_them(wrap):
    assert aggregates_from_object(wrap(aggregate_to_object(AGGREGATE))) == [AGGREGATE]


def test_a_list_object_of_aggregates(envelope):
    listed = envelope("AggregateList", "1.3", objects=[aggregate_to_object(AGGREGATE)])
    assert aggregates_from_object(listed) == [AGGREGATE]
    assert aggregates_from_object(envelope("AggregateList", "1.3", objects=[])) == []


def test_an_aggregate_of_kilo_has_no_uuid(envelope):
    assert aggregates_from_object(envelope("Aggregate", "1.1", id=1, name="a")) == [Aggregate("a", id=1)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "aggregates.name: None is not text"),
        ({"name": "a", "metadata": {"k": None}}, "aggregates.metadata.k: has no value"),
        ({"name": "a", "hosts": "h1"}, "aggregates.hosts: 'h1' is not a list"),
        ({"name": "a", "id": "x"}, "aggregates.id: 'x' is not a whole number"),
    ],
)
def test_a_mistake_in_an_aggregate_is_named(envelope, data, message):
    with pytest.raises(FieldError) as error:
        aggregates_from_object(envelope("Aggregate", "1.3", **data))
    assert str(error.value).startswith(message)


def test_what_is_no_aggregate_is_refused(envelope):
    with pytest.raises(FieldError, match=r"^aggregates\[0\]: is an object 'nova.Flavor'"):
        aggregates_from_object([envelope("Flavor")])


def test_an_instance_with_its_flavor_and_its_image(recorded):
    (instance,) = instances_from_object(recorded("instance_list"))
    assert (instance.uuid, instance.project_id, instance.flavor_id) == (
        "00000000-0000-4000-8000-000000000030",
        "p",
        7,
    )
    assert (instance.image_props, instance.image_ref[-1]) == ({"os_distro": "debian"}, "1")
    assert instance.resources == {"VCPU": 4, "MEMORY_MB": 4096, "DISK_GB": 22}


def test_a_uuid_is_all_that_is_needed(envelope):
    assert instances_from_object(envelope("Instance", "2.0", uuid="i1")) == [Instance("i1")]
    assert instances_from_object([envelope("Instance", "1.18", uuid="i1")]) == [Instance("i1")]


def test_what_an_image_says_that_cannot_be_read_is_left_out(envelope):
    metadata = {"image_os_distro": "debian", "image_hw_disk_bus": "carrier pigeon", "image_own": "x", "other": "y"}
    (instance,) = instances_from_object([envelope("Instance", uuid="i1", system_metadata=metadata)])
    assert instance.image_props == {"os_distro": "debian"}


def test_instances_go_out_and_come_back():
    listed = [Instance("i1", "p", 5, {"os_distro": "debian"}), Instance("i2")]
    assert instances_from_object(instances_to_object(listed)) == listed


@pytest.mark.parametrize("value", [5, "i1", [5], [{"uuid": "i1"}]])
def test_what_is_no_instance_is_refused(value):
    with pytest.raises(FieldError, match=r"^instance_info"):
        instances_from_object(value)
