# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from roost.errors import FieldError
from roost.model.image import Image, parse_properties
from roost.model.image_property_values import ImagePropertyError


def test_an_image_needs_nothing():
    image = Image()
    assert (image.id, image.name, dict(image.properties), image.min_ram, image.size) == (
        None,
        "",
        {},
        0,
        None,
    )


def test_raw_properties_are_taken_by_the_rules():
    assert Image(properties={"architecture": "amd64", "foo": "1"}).properties.to_dict() == {
        "hw_architecture": "x86_64"
    }


def test_properties_that_were_taken_already_are_kept():
    properties = parse_properties({"hw_numa_mem.0": "1024"})
    assert Image(properties=properties).properties is properties


def test_a_bad_property_is_an_error_with_its_place():
    with pytest.raises(ImagePropertyError, match=r"properties\.hw_cpu_cores: 'x' is not an integer"):
        Image(properties={"hw_cpu_cores": "x"})


def test_a_property_is_an_attribute_of_the_image():
    assert Image(properties={"os_distro": "debian"}).os_distro == "debian"


def test_a_known_property_that_is_not_set_is_none():
    assert Image().os_distro is None


@pytest.mark.parametrize("name", ["os_distrro", "architecture", "_values"])
def test_an_attribute_that_is_no_property_is_an_error(name):
    with pytest.raises(AttributeError, match=name):
        getattr(Image(), name)


def test_fields_and_properties_are_read_in_the_older_spelling_too():
    image = Image(id="i-1", properties={"os_distro": "debian"})
    assert (image["id"], image["os_distro"], image.get("nonsense", "none")) == ("i-1", "debian", "none")


def test_only_what_is_set_is_in_the_image():
    image = Image(properties={"os_distro": "debian"})
    assert "os_distro" in image
    assert "os_type" not in image


def test_required_traits_are_a_set():
    image = Image(properties={"trait:A": "required", "trait:B": "required", "trait:C": "forbidden"})
    assert image.traits_required == frozenset({"A", "B"})


def test_without_required_traits_the_set_is_empty():
    assert Image().traits_required == frozenset()


def test_a_missing_name_is_empty():
    assert Image(name=None).name == ""


@pytest.mark.parametrize("name", ["id", "name", "disk_format", "container_format", "status"])
def test_a_text_field_takes_text_alone(name):
    with pytest.raises(FieldError, match=f"{name}: 4 is not text"):
        Image(**{name: 4})


@pytest.mark.parametrize("name", ["min_ram", "min_disk", "size"])
@pytest.mark.parametrize("value", [-1, 1.5, "1", True])
def test_an_amount_is_a_whole_number(name, value):
    with pytest.raises(FieldError, match=f"^{name}: "):
        Image(**{name: value})


@pytest.mark.parametrize("name", ["min_ram", "min_disk"])
def test_only_the_size_may_be_unknown(name):
    with pytest.raises(FieldError, match=f"^{name}: None is not a whole number"):
        Image(**{name: None})


def test_an_image_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Image().name = "other"


def test_equal_images_have_equal_hashes():
    one, other = (Image(id="i-1", properties={"os_distro": "debian"}) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)


def test_images_with_different_properties_are_different():
    assert Image(properties={"os_distro": "debian"}) != Image(properties={"os_distro": "rhel"})


def test_an_image_with_a_field_replaced_keeps_its_properties():
    image = Image(properties={"hw_numa_mem.0": "1024"})
    assert dataclasses.replace(image, name="other").hw_numa_mem == (1024,)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_an_image_can_be_copied(duplicate):
    image = Image(id="i-1", properties={"os_distro": "debian"})
    assert duplicate(image) == image
