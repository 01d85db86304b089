# SPDX-License-Identifier: Apache-2.0
"""Records that hang on a request, what they ask of a host, and what of them only plugins read."""

import copy
import pickle

import pytest

from roost.errors import FieldError
from roost.model import Destination, Flavor, Image, RequestSpec, Retry, ServerGroup
from roost.model.json_records import request_from_json, to_json
from roost.model.request import (
    Limits,
    NetworkMetadata,
    NetworkRequest,
    NumaLimits,
    RequestGroup,
    RequestLevelParams,
    SecurityGroup,
)
from roost.testing import make_spec

FULL = RequestSpec(
    flavor=Flavor(2, 512),
    requested_resources=[RequestGroup({"VGPU": 1}, ["CUSTOM_A"], aggregates=[["a1", "a2"]], requester_id="port1")],
    request_level_params=RequestLevelParams(["CUSTOM_ROOT"], ["CUSTOM_OLD"], [["x", "y"]]),
    network_metadata=NetworkMetadata(["physnet1"], True),
    limits=Limits(vcpu=8, numa_topology=NumaLimits(16.0, 1.5)),
    security_groups=[SecurityGroup("default")],
    requested_networks=[NetworkRequest(port_id="p1")],
    requested_destination=Destination(aggregates=["a1,a2"], forbidden_aggregates=["a3"]),
    config_options={"a": 1},
)


# --- what it asks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra_specs", "groups", "amounts"),
    [
        ({}, [], {"VCPU": 2, "MEMORY_MB": 512}),
        ({}, [{"VGPU": 1}], {"VGPU": 1, "VCPU": 2, "MEMORY_MB": 512}),
        ({}, [{"VGPU": 1}, {"VGPU": 2, "CUSTOM_A": 1}], {"VGPU": 3, "CUSTOM_A": 1, "VCPU": 2, "MEMORY_MB": 512}),
        ({"resources:VGPU": "1"}, [{"VGPU": 2}], {"VGPU": 3, "VCPU": 2, "MEMORY_MB": 512}),
        ({}, [{"VCPU": 1}], {"VCPU": 1, "MEMORY_MB": 512}),
        ({}, [{"PCPU": 4}], {"PCPU": 4, "MEMORY_MB": 512}),
        ({}, [{"VGPU": 0}], {"VCPU": 2, "MEMORY_MB": 512}),
    ],
)
def test_groups_are_added_before_the_flavor_has_its_say(extra_specs, groups, amounts):
    flavor = Flavor(2, 512, extra_specs=extra_specs)
    assert RequestSpec(flavor, requested_resources=[RequestGroup(each) for each in groups]).amounts == amounts


def test_amounts_are_in_the_order_of_the_request_s_own_extra_specs_and_groups():
    """Capacity checks run in this order: the step that rejects a host must not depend on earlier requests."""
    for first, second in (("VGPU", "CUSTOM_FPGA"), ("CUSTOM_FPGA", "VGPU")):
        flavor = Flavor(1, 1, extra_specs={f"resources:{first}": "1", f"resources:{second}": "1"})
        assert [name for name in RequestSpec(flavor).amounts if name in (first, second)] == [first, second]
        group = RequestGroup({first: 1, second: 1})
        spec = RequestSpec(Flavor(1, 1), requested_resources=[group])
        assert [name for name in spec.amounts if name in (first, second)] == [first, second]


def test_amounts_of_equal_requests_are_one_object_and_of_others_are_not():
    groups = [RequestGroup({"VGPU": 1})]
    one, same, other = (
        RequestSpec(Flavor(2, 512, name=name), requested_resources=groups).amounts for name in ("a", "a", "b")
    )
    assert one is same
    assert one is not other


def test_traits_of_flavor_image_groups_and_root_add_up():
    spec = RequestSpec(
        flavor=Flavor(1, 1, extra_specs={"trait:CUSTOM_F": "required", "trait:CUSTOM_N": "forbidden"}),
        image=Image(properties={"trait:CUSTOM_I": "required"}),
        requested_resources=[RequestGroup(required_traits=["CUSTOM_G"], forbidden_traits=["CUSTOM_H"])],
        request_level_params=RequestLevelParams(["CUSTOM_R"], ["CUSTOM_S"]),
    )
    assert spec.traits == ({"CUSTOM_F", "CUSTOM_I", "CUSTOM_G", "CUSTOM_R"}, {"CUSTOM_N", "CUSTOM_H", "CUSTOM_S"})
    assert spec.marked_traits == {"CUSTOM_F", "CUSTOM_I"}


def test_a_request_that_needs_nothing_besides():
    assert make_spec().additional_needs is None
    assert make_spec(request_level_params=RequestLevelParams()).additional_needs is None
    assert FULL.additional_needs is not None


def test_root_traits_by_their_short_names():
    assert (FULL.root_required, FULL.root_forbidden, FULL.same_subtree) == (
        {"CUSTOM_ROOT"},
        {"CUSTOM_OLD"},
        (("x", "y"),),
    )


def test_aggregates_of_a_destination_as_sets():
    assert Destination(aggregates=["a1,a2", "a3"]).aggregate_choices == ({"a1", "a2"}, {"a3"})


def test_limits_that_are_set():
    assert Limits().to_dict() == {}
    assert FULL.limits.to_dict() == {"vcpu": 8, "numa_topology": NumaLimits(16.0, 1.5)}


# --- copies and forms --------------------------------------------------------------------------------


def test_a_request_goes_to_json_and_back():
    assert request_from_json(to_json(FULL)) == FULL


@pytest.mark.parametrize("part", [*FULL.requested_resources, FULL.request_level_params, FULL.limits, FULL.flavor])
def test_a_copy_of_a_part_is_equal(part):
    assert copy.copy(part) == part


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("part", [FULL.request_level_params, FULL.limits])
def test_a_deep_copy_of_a_part_without_mappings_is_equal(duplicate, part):
    assert duplicate(part) == part


def test_what_the_options_file_says_makes_no_difference_between_requests():
    assert make_spec(config_options={"a": 1}) == make_spec()
    assert make_spec(config_options={"a": 1})["config_options"] == {"a": 1}


# --- fields that nothing decides by ------------------------------------------------------------------


def test_a_field_that_nobody_set_is_as_nova_has_it_by_default():
    flavor = Flavor(1, 1)
    assert (flavor.is_public, flavor.disabled, flavor.rxtx_factor, flavor.description) == (True, False, 1.0, None)
    assert ServerGroup("affinity").project_id is None
    assert Image().owner is None


def test_a_field_that_came_in_a_message():
    flavor = Flavor(1, 1).received(["vcpus", "is_public"], {"is_public": False})
    assert (flavor.is_public, flavor["is_public"], flavor.disabled) == (False, False, False)
    assert flavor == Flavor(1, 1)


@pytest.mark.parametrize("record", [Flavor(1, 1), Image(), ServerGroup(None), FULL, Limits()])
def test_a_field_that_there_is_not(record):
    with pytest.raises(AttributeError, match="nosuch"):
        _ = record.nosuch
    assert "nosuch" not in record


# --- mistakes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RequestGroup({"VGPU": -1}), "resources.VGPU: -1 is too small"),
        (lambda: RequestGroup({"VGPU": "x"}), "resources.VGPU: 'x' is not a whole number"),
        (lambda: RequestGroup(required_traits=5), "required_traits: 5 is not a list of names"),
        (lambda: RequestGroup(aggregates=5), "aggregates: 5 is not a list of lists"),
        (lambda: RequestGroup(use_same_provider=None), "use_same_provider: None is not a yes or no"),
        (lambda: RequestLevelParams(same_subtree="x"), "same_subtree: 'x' is not a list of lists"),
        (lambda: Limits(vcpu="x"), "vcpu: 'x' is not a whole number"),
        (lambda: Limits(numa_topology=5), "numa_topology: 5 is not of the class NumaLimits"),
        (lambda: Limits(numa_topology={"x": 1}), "numa_topology: unknown field 'x'"),
        (lambda: NumaLimits(-1, 1), "cpu_allocation_ratio: -1 is too small"),
        (lambda: NetworkMetadata(tunneled="x"), "tunneled: 'x' is not a yes or no"),
        (lambda: SecurityGroup(5), "name: 5 is not text"),
        (lambda: NetworkRequest(tag=5), "tag: 5 is not text"),
        (lambda: Destination(aggregates=[5]), "aggregates[0]: 5 is not text"),
        (lambda: Retry(hosts=[["h", 5]]), "hosts[0][1]: 5 is not text"),
        (lambda: make_spec(requested_resources=[5]), "requested_resources[0]: 5 is not of the class RequestGroup"),
        (lambda: make_spec(requested_resources=5), "requested_resources: 5 is not a list"),
        (lambda: make_spec(limits=5), "limits: 5 is not of the class Limits"),
        (lambda: make_spec(request_level_params=None), "request_level_params: None is not of the class"),
        (lambda: make_spec(config_options=5), "config_options: 5 is not a mapping"),
    ],
)
def test_a_mistake_is_named(make, message):
    with pytest.raises(FieldError) as error:
        make()
    assert str(error.value).startswith(message)
