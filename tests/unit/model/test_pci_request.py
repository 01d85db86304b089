# SPDX-License-Identifier: Apache-2.0
"""PCI requests, from JSON and from a flavor's aliases."""

from __future__ import annotations

import dataclasses
import json

import pytest

from roost.errors import BadInput, FieldError
from roost.model import Flavor, Image
from roost.model.json_records import to_json
from roost.model.pci import (
    PCI_POLICIES,
    Alias,
    PciAliasError,
    PciRequest,
    affinity_policy,
    aliases_from_option,
    pci_request_from_json,
    requests_from_flavor,
)

GPU = {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}
NIC = {"name": "nic", "vendor_id": "8086", "product_id": "154c"}


def flavor_with(**extra_specs: str) -> Flavor:
    spelt = {"alias": "pci_passthrough:alias", "policy": "hw:pci_numa_affinity_policy"}
    return Flavor(1, 512, extra_specs={spelt[key]: value for key, value in extra_specs.items()})


def image_with(policy: str) -> Image:
    return Image(properties={"hw_pci_numa_affinity_policy": policy})


def aliases(*objects: dict[str, object], **options: bool) -> dict[str, Alias]:
    return dict(aliases_from_option([json.dumps(each) for each in objects], **options))


# --- from JSON ------------------------------------------------------------------------------------


def test_only_spec_is_required():
    request = pci_request_from_json({"spec": [{"vendor_id": "10de"}]})
    assert request == PciRequest(1, ({"vendor_id": "10de"},))
    assert (request.count, request.numa_policy, request.policy) == (1, None, "legacy")
    assert (request.alias_name, request.request_id) == (None, None)


def test_all_fields_are_taken():
    data = {"count": 2, "spec": [{}], "numa_policy": "socket", "alias_name": "gpu", "request_id": "r-1"}
    assert pci_request_from_json(data) == PciRequest(2, ({},), "socket", "gpu", "r-1")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "None"), (True, "True"), (8086, "8086"), (1.5, "1.5"), ("10DE", "10DE"), ("", "")],
)
def test_values_inside_spec_become_text(value, text):
    assert pci_request_from_json({"spec": [{"key": value}]}).spec == ({"key": text},)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "spec"),
        ([], ""),
        ({"spec": None}, "spec"),
        ({"spec": {}}, "spec"),
        ({"spec": ["10de"]}, "spec[0]"),
        ({"spec": [{}, {"vendor_id": []}]}, "spec[1].vendor_id"),
        ({"spec": [{"vendor_id": {}}]}, "spec[0].vendor_id"),
        ({"spec": [{}], "count": -1}, "count"),
        ({"spec": [{}], "count": None}, "count"),
        ({"spec": [{}], "count": "2"}, "count"),
        ({"spec": [{}], "numa_policy": "near"}, "numa_policy"),
        ({"spec": [{}], "numa_policy": 1}, "numa_policy"),
        ({"spec": [{}], "alias_name": 1}, "alias_name"),
        ({"spec": [{}], "request_id": 1}, "request_id"),
        ({"spec": [{}], "is_from_port": 1}, "is_from_port"),
        ({"spec": [{}], "specs": [{}]}, ""),
    ],
)
def test_bad_input_is_refused_with_its_field(data, field):
    with pytest.raises(FieldError) as caught:
        pci_request_from_json(data)
    assert caught.value.field == field


def test_request_survives_json():
    request = PciRequest(2, ({"vendor_id": "10de"}, {}), "socket", "gpu", "r-1", is_from_port=True)
    assert pci_request_from_json(to_json(request)) == request


def test_error_is_seen_from_where_the_request_stands():
    with pytest.raises(FieldError, match=r"pci_requests\[1\]\.count: -1 is too small"):
        pci_request_from_json({"spec": [{}], "count": -1}, "pci_requests[1]")


# --- the record -----------------------------------------------------------------------------------


def test_equal_requests_have_equal_hashes_whatever_the_order_of_their_keys():
    one = PciRequest(1, ({"vendor_id": "10de", "product_id": "1eb8"},))
    other = PciRequest(1, ({"product_id": "1eb8", "vendor_id": "10de"},))
    assert one == other
    assert hash(one) == hash(other)
    assert one != PciRequest(2, one.spec)


def test_request_cannot_be_changed():
    request = PciRequest(1, ({"vendor_id": "10de"},))
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.count = 2  # type: ignore[misc]
    with pytest.raises(TypeError):
        request.spec[0]["vendor_id"] = "8086"  # type: ignore[index]


def test_request_reads_like_a_mapping_too():
    assert PciRequest(3, ({},))["count"] == 3


def test_requests_made_by_hand_may_want_lists_and_nothing():
    request = PciRequest(1, ({"capabilities": ["a", "b"], "physical_network": None},))
    assert request.spec[0]["capabilities"] == ("a", "b")
    assert request.spec[0]["physical_network"] is None


def test_requests_made_by_hand_take_no_numbers_for_text():
    with pytest.raises(FieldError, match=r"spec\[0\]\.vendor_id: 8086 is not text"):
        PciRequest(1, ({"vendor_id": 8086},))


def test_alternatives_are_without_case_and_without_what_placement_matches():
    request = PciRequest(1, ({"vendor_id": "10DE", "resource_class": "X", "traits": "A,B", "rp_uuids": "u"},))
    assert request.alternatives == ((("vendor_id", "10de"),),)


@pytest.mark.parametrize(
    ("spec", "unasked"),
    [
        ([{}], ("type-PF", "vdpa")),
        ([], ("type-PF", "vdpa")),
        ([{"dev_type": "type-VF"}], ("type-PF", "vdpa")),
        ([{"dev_type": "type-PF"}], ("vdpa",)),
        ([{"vendor_id": "8086"}, {"dev_type": "vdpa"}], ("type-PF",)),
        ([{"dev_type": "type-PF"}, {"dev_type": "vdpa"}], ()),
    ],
)
def test_types_that_no_alternative_asks_for(spec, unasked):
    assert PciRequest(1, tuple(spec)).excluded_device_types == unasked


@pytest.mark.parametrize(
    ("value", "wants"), [("true", True), ("True", True), ("1", True), ("yes", True), ("false", False), ("", False)]
)
def test_remote_managed_is_wanted_by_a_text_that_means_yes(value, wants):
    assert PciRequest(1, ({"vendor_id": "x"}, {"remote_managed": value})).wants_remote_managed is wants


# --- option [pci] alias ---------------------------------------------------------------------------


def test_alias_has_vendor_and_product():
    assert aliases(GPU) == {"gpu": Alias("gpu", ({"vendor_id": "10de", "product_id": "1eb8"},))}


def test_alias_keeps_everything_it_says():
    whole = GPU | {"device_type": "type-PF", "numa_policy": "required", "resource_class": "GPU", "traits": "A,B"}
    [alias] = aliases(whole).values()
    assert alias.numa_policy == "required"
    assert alias.spec == (
        {
            "vendor_id": "10de",
            "product_id": "1eb8",
            "dev_type": "type-PF",
            "resource_class": "GPU",
            "traits": "A,B",
        },
    )
    assert alias.device_type == "type-PF"


@pytest.mark.parametrize(
    ("written", "taken"),
    [(True, "true"), (False, "false"), ("yes", "true"), ("No", "false"), ("TRUE", "true"), ("0", "false")],
)
def test_live_migratable_is_a_yes_or_no_in_any_spelling(written, taken):
    assert aliases(GPU | {"live_migratable": written})["gpu"].spec[0]["live_migratable"] == taken


def test_no_lines_are_no_aliases():
    assert aliases_from_option([]) == {}


def test_same_name_adds_an_alternative():
    other = GPU | {"product_id": "13f2"}
    [alias] = aliases(GPU, other).values()
    assert alias.spec == (
        {"vendor_id": "10de", "product_id": "1eb8"},
        {"vendor_id": "10de", "product_id": "13f2"},
    )


def test_an_unset_policy_agrees_with_legacy():
    assert aliases(GPU, GPU | {"numa_policy": "legacy"})["gpu"].numa_policy is None


@pytest.mark.parametrize(
    "second",
    [
        {"numa_policy": "required"},
        {"device_type": "type-VF"},
    ],
)
def test_same_name_must_agree_in_policy_and_device_type(second):
    with pytest.raises(PciAliasError, match="'gpu' has two"):
        aliases(GPU, GPU | second)


def test_same_name_twice_is_refused_where_placement_tracks_devices():
    with pytest.raises(PciAliasError, match="'gpu' is given twice"):
        aliases(GPU, GPU, tracked_in_placement=True)


def test_resource_class_stands_for_vendor_and_product_only_where_placement_tracks_devices():
    by_class = {"name": "gpu", "resource_class": "CUSTOM_GPU"}
    assert aliases(by_class, tracked_in_placement=True)["gpu"].spec == ({"resource_class": "CUSTOM_GPU"},)
    with pytest.raises(PciAliasError, match="says no device"):
        aliases(by_class)


@pytest.mark.parametrize("missing", ["vendor_id", "product_id"])
@pytest.mark.parametrize("tracked", [True, False])
def test_vendor_and_product_are_both_needed(missing, tracked):
    incomplete = {key: value for key, value in GPU.items() if key != missing}
    with pytest.raises(PciAliasError, match="says no device"):
        aliases(incomplete, tracked_in_placement=tracked)


@pytest.mark.parametrize(
    "line",
    [
        "gpu",
        "",
        "[]",
        "null",
        '"gpu"',
        json.dumps({"vendor_id": "10de", "product_id": "1eb8"}),
        json.dumps(GPU | {"name": ""}),
        json.dumps(GPU | {"name": 1}),
        json.dumps(GPU | {"vendor_id": 8086}),
        json.dumps(GPU | {"product_id": None}),
        json.dumps(GPU | {"device_type": "type-XX"}),
        json.dumps(GPU | {"device_type": []}),
        json.dumps(GPU | {"numa_policy": "near"}),
        json.dumps(GPU | {"live_migratable": "perhaps"}),
        json.dumps(GPU | {"traits": ["A"]}),
        json.dumps(GPU | {"vendor": "10de"}),
        "[" * 100_000,
    ],
)
def test_bad_alias_is_refused_as_nova_refuses_it(line):
    with pytest.raises(PciAliasError) as caught:
        aliases_from_option([line])
    assert isinstance(caught.value, BadInput)
    assert caught.value.nova_type == "PciInvalidAlias"
    assert caught.value.hint


# --- a flavor's requests --------------------------------------------------------------------------


def test_flavor_without_the_extra_spec_asks_for_nothing():
    assert requests_from_flavor(flavor_with(), None, aliases(GPU)) == ()
    assert requests_from_flavor(flavor_with(alias=""), None, aliases(GPU)) == ()


def test_flavor_asks_for_each_name_and_count():
    found = requests_from_flavor(flavor_with(alias=" gpu :2,nic: 1"), None, aliases(GPU, NIC))
    assert found == (
        PciRequest(2, ({"vendor_id": "10de", "product_id": "1eb8"},), "legacy", "gpu"),
        PciRequest(1, ({"vendor_id": "8086", "product_id": "154c"},), "legacy", "nic"),
    )


def test_same_alias_twice_is_two_requests():
    found = requests_from_flavor(flavor_with(alias="gpu:1,gpu:2"), None, aliases(GPU))
    assert [each.count for each in found] == [1, 2]


def test_request_has_all_alternatives_of_its_alias():
    [found] = requests_from_flavor(flavor_with(alias="gpu:1"), None, aliases(GPU, GPU | {"product_id": "13f2"}))
    assert [each["product_id"] for each in found.spec] == ["1eb8", "13f2"]


def test_unknown_alias_is_refused_with_the_nearest():
    with pytest.raises(PciAliasError, match="did you mean gpu") as caught:
        requests_from_flavor(flavor_with(alias="gpus:1"), None, aliases(GPU))
    assert caught.value.nova_type == "PciRequestAliasNotDefined"


@pytest.mark.parametrize("listed", ["gpu", "gpu:", "gpu:x", "gpu:1:2", "gpu:-1", ":1", "gpu:1,", " ", "gpu:1.5"])
def test_missing_or_bad_count_is_refused(listed):
    with pytest.raises(PciAliasError, match="is no name and count") as caught:
        requests_from_flavor(flavor_with(alias=listed), None, aliases(GPU))
    assert caught.value.nova_type == "PciInvalidAlias"


def test_count_of_thousands_of_digits_is_refused():
    with pytest.raises(PciAliasError):
        requests_from_flavor(flavor_with(alias="gpu:" + "9" * 5000), None, aliases(GPU))


@pytest.mark.parametrize("of_flavor", [None, "", "required"])
@pytest.mark.parametrize("of_image", [None, "required"])
@pytest.mark.parametrize("of_alias", [None, "preferred"])
def test_policy_is_that_of_flavor_or_image_else_of_the_alias_else_legacy(of_flavor, of_image, of_alias):
    known = aliases(GPU | ({"numa_policy": of_alias} if of_alias else {}))
    flavor = flavor_with(alias="gpu:1", **({} if of_flavor is None else {"policy": of_flavor}))
    [found] = requests_from_flavor(flavor, image_with(of_image) if of_image else None, known)
    assert found.numa_policy == (of_flavor or of_image or of_alias or "legacy")


@pytest.mark.parametrize("policy", PCI_POLICIES)
def test_image_that_says_nothing_leaves_the_flavor_its_policy(policy):
    assert affinity_policy(flavor_with(policy=policy), Image()) == policy


def test_flavor_and_image_must_agree():
    with pytest.raises(PciAliasError, match="of the flavor is required, of the image legacy") as caught:
        requests_from_flavor(flavor_with(alias="gpu:1", policy="required"), image_with("legacy"), aliases(GPU))
    assert caught.value.nova_type == "ImagePCINUMAPolicyForbidden"


def test_flavor_and_image_must_agree_even_where_no_alias_is_asked_for():
    with pytest.raises(PciAliasError, match="they must agree"):
        requests_from_flavor(flavor_with(policy="required"), image_with("legacy"), {})


def test_unknown_policy_of_a_flavor_is_refused():
    with pytest.raises(PciAliasError, match="'near' is no policy") as caught:
        requests_from_flavor(flavor_with(policy="near"), None, {})
    assert caught.value.nova_type == "InvalidPCINUMAAffinity"


def test_aliases_are_hashable():
    assert len({*aliases(GPU, NIC).values(), *aliases(GPU).values()}) == 2
