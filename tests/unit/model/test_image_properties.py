# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.model.image_property_examples import EXAMPLES, LEGACY, MAP_LISTS, PER_NODE, refusal, take

from roost.errors import FieldError
from roost.model.image import ImageProperties, parse_properties
from roost.model.image_property_values import (
    PROPERTY_NAMES,
    ImagePropertyError,
)

# --- names ------------------------------------------------------------------------------------------


def test_there_are_86_properties():
    assert len(PROPERTY_NAMES) == 86


def test_the_vocabulary_is_the_one_of_the_specification():
    assert set(EXAMPLES) | set(PER_NODE) == PROPERTY_NAMES


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_property_is_taken_with_its_type(name):
    raw, converted = EXAMPLES[name]
    assert take(name, raw) == converted


@pytest.mark.parametrize(("legacy", "modern"), LEGACY.items())
def test_a_legacy_name_is_replaced_by_the_modern_one(legacy, modern):
    raw, converted = EXAMPLES[modern]
    assert dict(parse_properties({legacy: raw})) == {modern: converted}


@pytest.mark.parametrize("names", [("architecture", "hw_architecture"), ("hw_architecture", "architecture")])
def test_the_modern_name_wins_over_the_legacy_one_in_any_order(names):
    values = {"architecture": "aarch64", "hw_architecture": "x86_64"}
    assert parse_properties({name: values[name] for name in names}).to_dict() == {"hw_architecture": "x86_64"}


def test_a_bad_legacy_value_beside_a_modern_one_is_not_looked_at():
    assert parse_properties({"architecture": "bogus", "hw_architecture": "x86_64"}).hw_architecture == "x86_64"


@pytest.mark.parametrize("name", ["foo", "os_version", "HW_CPU_CORES", "hw_cpu_cores.0", "", "trait:", 5, None])
def test_an_unknown_name_is_dropped_silently(name):
    assert parse_properties({name: "required", "os_distro": "debian"}).to_dict() == {"os_distro": "debian"}


def test_an_unknown_name_with_no_value_is_dropped_too():
    assert not parse_properties({"foo": None})


# --- lists ------------------------------------------------------------------------------------------


def test_values_per_numa_node_are_gathered_in_order():
    raw = {"hw_numa_mem.1": "2048", "hw_numa_mem.0": 1024, "hw_numa_cpus.0": "0", "hw_numa_cpus.1": "1-3"}
    properties = parse_properties(raw)
    assert properties.hw_numa_mem == (1024, 2048)
    assert properties.hw_numa_cpus == (frozenset({0}), frozenset({1, 2, 3}))


@pytest.mark.parametrize("name", PER_NODE)
def test_nodes_after_a_hole_are_dropped_unread(name):
    raw = {f"{name}.0": "1", f"{name}.1": "2", f"{name}.3": "unreadable"}
    assert len(parse_properties(raw)[name]) == 2


@pytest.mark.parametrize("name", PER_NODE)
def test_without_a_first_node_there_is_no_list(name):
    assert name not in parse_properties({f"{name}.1": "1"})


@pytest.mark.parametrize("name", PER_NODE)
@pytest.mark.parametrize("value", ["1", [1], None])
def test_the_bare_name_of_a_list_per_node_is_dropped(name, value):
    assert name not in parse_properties({name: value})


@pytest.mark.parametrize("value", ["x", "", "1.0"])
def test_memory_of_a_node_that_is_no_integer_is_refused(value):
    error = refusal(**{"hw_numa_mem.0": "1", "hw_numa_mem.1": value})
    assert (error.field, error.nova_type) == ("properties.hw_numa_mem.1", "ValueError")


def test_a_required_trait_goes_into_the_list_of_traits():
    properties = parse_properties({"trait:CUSTOM_B": "required", "trait:CUSTOM_A": "required"})
    assert properties.to_dict() == {"traits_required": ["CUSTOM_B", "CUSTOM_A"]}


@pytest.mark.parametrize("value", ["forbidden", "Required", "", True, None])
def test_a_trait_that_is_not_required_is_dropped(value):
    assert not parse_properties({"trait:CUSTOM_A": value})


def test_traits_marked_required_join_those_listed_once_each():
    raw = {"trait:B": "required", "trait:A": "required", "traits_required": ["A", "C"]}
    assert parse_properties(raw).traits_required == ("A", "C", "B")


@pytest.mark.parametrize("value", ["CUSTOM_A", {"CUSTOM_A": 1}, 4, [None], [["CUSTOM_A"]]])
def test_listed_traits_that_are_no_list_of_texts_are_refused(value):
    assert refusal(traits_required=value).nova_type == "ValueError"


@pytest.mark.parametrize("name", MAP_LISTS)
@pytest.mark.parametrize("value", ["[]", {}, [1], ["a"], [None]])
def test_what_is_no_list_of_maps_is_refused_as_one(name, value):
    assert refusal(**{name: value}).nova_type == "ValueError"


def test_maps_in_a_list_are_read_only():
    taken = take("img_mappings", [{"virtual": "ami", "devices": ["sda"]}])
    with pytest.raises(TypeError):
        taken[0]["virtual"] = "other"


def test_maps_nested_too_deeply_are_refused():
    knot = {}
    knot["self"] = [knot]
    assert refusal(img_mappings=[knot]).field == "properties.img_mappings"


# --- vmware_adaptertype -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("adapter_type", "taken"),
    [
        ("ide", {"hw_disk_bus": "ide"}),
        ("lsiLogic", {"hw_disk_bus": "scsi", "hw_scsi_model": "lsilogic"}),
        ("lsiLogicsas", {"hw_disk_bus": "scsi", "hw_scsi_model": "lsisas1068"}),
        ("paraVirtual", {"hw_disk_bus": "scsi", "hw_scsi_model": "vmpvscsi"}),
        ("", {}),
    ],
)
def test_an_adapter_type_stands_for_a_disk_bus_and_a_controller(adapter_type, taken):
    assert parse_properties({"vmware_adaptertype": adapter_type}).to_dict() == taken


@pytest.mark.parametrize("adapter_type", ["bogus", "IDE"])
def test_an_unknown_adapter_type_is_refused_as_a_controller(adapter_type):
    error = refusal(vmware_adaptertype=adapter_type)
    assert (error.field, error.nova_type) == ("properties.vmware_adaptertype", "ValueError")


@pytest.mark.parametrize(
    ("beside", "taken"),
    [
        ({"hw_disk_bus": "sata"}, {"hw_disk_bus": "sata", "hw_scsi_model": "lsilogic"}),
        ({"hw_scsi_model": "buslogic"}, {"hw_disk_bus": "scsi", "hw_scsi_model": "buslogic"}),
    ],
)
def test_modern_names_win_over_an_adapter_type(beside, taken):
    assert parse_properties({"vmware_adaptertype": "lsiLogic", **beside}).to_dict() == taken


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*sorted(EXAMPLES), *LEGACY, *(f"{name}.0" for name in PER_NODE)])
def test_none_is_an_error_for_every_property(name):
    error = refusal(**{name: None})
    assert (error.field, error.nova_type) == (f"properties.{name}", "ValueError")


def test_an_error_says_the_place_the_value_and_the_remedy():
    assert str(refusal(hw_rng_model="VIRTIO")) == "properties.hw_rng_model: 'VIRTIO' is not allowed (one of: virtio)"


def test_in_a_long_list_the_remedy_is_the_nearest_word():
    assert refusal(hw_architecture="x86-64").hint == "did you mean x86_64?"


def test_an_error_names_the_property_as_it_was_written():
    assert refusal(hypervisor_type="bogus").field == "properties.hypervisor_type"


def test_one_bad_value_refuses_the_whole_image():
    assert refusal(os_distro="debian", hw_cpu_cores="x").field == "properties.hw_cpu_cores"


def test_an_error_seen_from_outside_keeps_its_nova_type():
    error = refusal(**{"hw_numa_cpus.0": "x"}).under("images[0]")
    assert (error.field, error.nova_type) == ("images[0].properties.hw_numa_cpus.0", "Invalid")


def test_an_image_property_error_is_a_field_error():
    assert isinstance(refusal(hw_cpu_cores="x"), FieldError)


@pytest.mark.parametrize("raw", [None, "os_distro=debian", ["os_distro"], 4])
def test_properties_that_are_no_mapping_are_refused(raw):
    with pytest.raises(ImagePropertyError, match=r"properties: .* is not a mapping"):
        parse_properties(raw)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
VALUES = st.recursive(
    SCALARS | st.sampled_from(sorted({str(raw) for raw, _ in EXAMPLES.values()})) | st.from_regex(r"[-^0-9, <>=.]+"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [*sorted(PROPERTY_NAMES), *LEGACY, *(f"{name}.{node}" for name in PER_NODE for node in range(3))]
)
NAMES |= st.just("vmware_adaptertype") | st.text() | st.text().map("trait:".__add__) | st.integers() | st.none()


@given(st.dictionaries(NAMES, VALUES, max_size=8))
@example({"os_distro": 10**5000})
@example({"hw_boot_menu": 10**5000})
@example({"hw_numa_cpus.0": 10**5000})
@example({"img_hv_requested_version": ">=" + "9" * 5000})
@example({"img_mappings": [10**5000]})
def test_random_names_and_values_give_properties_or_an_image_property_error(raw):
    try:
        properties = parse_properties(raw)
    except ImagePropertyError:
        return
    assert set(properties) <= PROPERTY_NAMES
    assert hash(properties) == hash(parse_properties(raw))
    assert all(isinstance(properties.text_of(name), str) for name in properties)


# --- the record -------------------------------------------------------------------------------------


def test_a_property_is_read_by_get_by_attribute_and_by_item():
    properties = parse_properties({"os_distro": "debian"})
    assert properties.get("os_distro") == properties.os_distro == properties["os_distro"] == "debian"


def test_a_known_property_that_is_not_set_is_none():
    assert parse_properties({}).os_distro is None


def test_get_gives_the_default_where_nothing_is_set():
    assert parse_properties({}).get("os_distro", "unknown") == "unknown"


def test_an_item_that_is_not_set_is_a_key_error():
    with pytest.raises(KeyError, match="os_distro"):
        parse_properties({})["os_distro"]


def test_an_unknown_attribute_is_an_error_with_the_nearest_name():
    with pytest.raises(AttributeError, match="did you mean os_distro"):
        assert parse_properties({}).os_distrro


def test_only_what_is_set_is_in_it():
    properties = parse_properties({"os_distro": "debian"})
    assert "os_distro" in properties
    assert "os_type" not in properties


def test_it_runs_over_the_names_that_are_set():
    properties = parse_properties({"os_distro": "debian", "hw_cpu_cores": "4", "foo": "1"})
    assert list(properties) == ["os_distro", "hw_cpu_cores"]
    assert list(properties.items()) == [("os_distro", "debian"), ("hw_cpu_cores", 4)]


@pytest.mark.parametrize(
    ("name", "raw", "text"),
    [
        ("hw_boot_menu", "true", "True"),
        ("hw_boot_menu", "no", "False"),
        ("hw_cpu_cores", "4", "4"),
        ("hw_architecture", "AMD64", "x86_64"),
        ("os_distro", "", ""),
        ("traits_required", ["B", "A"], "['B', 'A']"),
        ("img_mappings", [{"virtual": "ami"}], "[{'virtual': 'ami'}]"),
    ],
)
def test_the_text_of_a_property_is_the_text_of_its_converted_value(name, raw, text):
    assert parse_properties({name: raw}).text_of(name) == text


def test_the_text_of_cpu_sets_is_a_python_list_of_sets():
    assert (
        parse_properties({"hw_numa_cpus.0": "0-1", "hw_numa_cpus.1": "2"}).text_of("hw_numa_cpus") == "[{0, 1}, {2}]"
    )


def test_the_text_of_what_is_not_set_is_a_key_error():
    with pytest.raises(KeyError):
        parse_properties({}).text_of("os_distro")


def test_to_dict_gives_a_copy_with_ordinary_lists_sets_and_dicts():
    raw = {"hw_numa_cpus.0": "0-1", "trait:A": "required", "img_mappings": [{"a": ["b"]}]}
    plain = {"hw_numa_cpus": [{0, 1}], "traits_required": ["A"], "img_mappings": [{"a": ["b"]}]}
    assert parse_properties(raw).to_dict() == plain


def test_changing_the_raw_properties_later_changes_nothing():
    raw = {"img_mappings": [{"a": "b"}]}
    properties = parse_properties(raw)
    raw["img_mappings"][0]["a"] = "c"
    assert properties.to_dict() == {"img_mappings": [{"a": "b"}]}


def test_properties_cannot_be_set():
    with pytest.raises(AttributeError):
        parse_properties({}).os_distro = "debian"


@pytest.mark.parametrize(
    "raw",
    [{}, {"os_distro": "debian", "hw_numa_cpus.0": "0-3"}, {"img_mappings": [{"a": "b"}], "hw_pmu": "1"}],
)
def test_equal_properties_have_equal_hashes_whatever_their_order(raw):
    one, other = parse_properties(raw), parse_properties(dict(reversed(raw.items())))
    assert one == other
    assert hash(one) == hash(other)


def test_different_properties_are_not_equal():
    assert parse_properties({"os_distro": "debian"}) != parse_properties({"os_distro": "rhel"})


def test_properties_that_were_taken_are_taken_as_they_are():
    properties = parse_properties({"hw_numa_mem.0": "1024"})
    assert parse_properties(properties) is properties


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_properties_can_be_copied(duplicate):
    properties = parse_properties({"os_distro": "debian", "hw_numa_cpus.0": "0-3"})
    assert duplicate(properties) == properties


def test_no_properties_are_the_same_as_an_empty_record():
    assert parse_properties({}) == ImageProperties()


def test_a_record_shows_what_is_set():
    assert repr(parse_properties({"hw_cpu_cores": "4"})) == "ImageProperties({'hw_cpu_cores': 4})"
