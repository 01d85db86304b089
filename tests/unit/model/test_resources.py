# SPDX-License-Identifier: Apache-2.0
"""spec/drivers-and-rpc.md 6.1, as far as it is built: amounts per resource class, and traits."""

import pytest

from roost.model import Flavor
from roost.model.resources import is_resource_class, requested_amounts, requested_traits
from roost.testing import make_spec

SIZES = {"vcpus": 2, "memory_mb": 2048, "root_gb": 20}
USUAL = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


def amounts(extra_specs=None, is_volume_booted=False, **sizes):
    flavor = Flavor(**(SIZES | sizes), extra_specs=extra_specs or {})
    return requested_amounts(flavor, is_volume_booted)


def test_the_worked_example():
    assert amounts(swap=512) == {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 21}


@pytest.mark.parametrize(
    ("swap_mb", "disk_gb"), [(0, 20), (1, 21), (512, 21), (1023, 21), (1024, 21), (1025, 22), (2048, 22)]
)
def test_swap_is_rounded_up_to_whole_gb(swap_mb, disk_gb):
    assert amounts(swap=swap_mb)["DISK_GB"] == disk_gb


def test_disk_is_root_and_ephemeral_and_swap():
    assert amounts(ephemeral_gb=10, swap=1500)["DISK_GB"] == 32


def test_a_volume_booted_instance_takes_no_root_disk():
    assert amounts(is_volume_booted=True, ephemeral_gb=10, swap=1)["DISK_GB"] == 11


@pytest.mark.parametrize(
    ("sizes", "left_out"), [({"root_gb": 0}, "DISK_GB"), ({"memory_mb": 0}, "MEMORY_MB"), ({"vcpus": 0}, "VCPU")]
)
def test_a_class_of_which_nothing_is_asked_is_left_out(sizes, left_out):
    assert amounts(**sizes) == {name: amount for name, amount in USUAL.items() if name != left_out}


@pytest.mark.parametrize(
    ("extra_specs", "changed"),
    [
        pytest.param({"resources:VCPU": "1"}, {"VCPU": 1}, id="replaces the flavor's amount"),
        pytest.param({"resources:MEMORY_MB": "1"}, {"MEMORY_MB": 1}, id="memory"),
        pytest.param({"resources:DISK_GB": "1"}, {"DISK_GB": 1}, id="disk"),
        pytest.param({"resources:CUSTOM_GPU": "2"}, {"CUSTOM_GPU": 2}, id="adds a custom class"),
        pytest.param({"resources:VGPU": "1"}, {"VGPU": 1}, id="adds a standard class"),
        pytest.param({"resources:VCPU": "0"}, {"VCPU": None}, id="0 takes it away"),
        pytest.param(
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources:CUSTOM_BM": "1"},
            {"VCPU": None, "MEMORY_MB": None, "DISK_GB": None, "CUSTOM_BM": 1},
            id="bare metal",
        ),
        pytest.param({"resources:CUSTOM_GPU": "0"}, {}, id="0 of a custom class is nothing"),
        pytest.param({"resources:PCPU": "2"}, {"PCPU": 2, "VCPU": None}, id="PCPU instead of VCPU"),
        pytest.param({"resources:PCPU": "2", "resources:VCPU": "1"}, {"PCPU": 2, "VCPU": 1}, id="PCPU and VCPU"),
        pytest.param({"resources:PCPU": "0"}, {"VCPU": None}, id="PCPU 0 is present all the same"),
        pytest.param({"resources1:CUSTOM_GPU": "1"}, {"CUSTOM_GPU": 1}, id="of a group"),
        pytest.param({"resources_NET-a:CUSTOM_GPU": "1"}, {"CUSTOM_GPU": 1}, id="of a named group"),
        pytest.param(
            {"resources:CUSTOM_GPU": "1", "resources1:CUSTOM_GPU": "2", "resources2:CUSTOM_GPU": "3"},
            {"CUSTOM_GPU": 6},
            id="groups add up",
        ),
        pytest.param({"resources1:VCPU": "3"}, {"VCPU": 3}, id="a group's VCPU replaces the flavor's"),
        pytest.param({"resources:CUSTOM_GPU": " 2 "}, {"CUSTOM_GPU": 2}, id="blanks around"),
        pytest.param({"resources:GPU": "1"}, {}, id="no such class"),
        pytest.param({"resources:custom_gpu": "1"}, {}, id="lower case"),
        pytest.param({"resources:CUSTOM_": "1"}, {}, id="custom without a name"),
        pytest.param({"resources:CUSTOM_GPU": "-1"}, {}, id="negative"),
        pytest.param({"resources:CUSTOM_GPU": "1.5"}, {}, id="a fraction"),
        pytest.param({"resources:CUSTOM_GPU": "many"}, {}, id="no number"),
        pytest.param({"resources:CUSTOM_GPU": ""}, {}, id="empty"),
        pytest.param({"resources:VCPU": "many"}, {}, id="a bad amount leaves the flavor's"),
        pytest.param({"resources:": "1"}, {}, id="no name"),
        pytest.param({"resources": "1"}, {}, id="no colon"),
        pytest.param({"resources 1:CUSTOM_GPU": "1"}, {}, id="a blank in the group"),
        pytest.param({"resources" + "g" * 64 + ":CUSTOM_GPU": "1"}, {"CUSTOM_GPU": 1}, id="64 letters of group"),
        pytest.param({"resources" + "g" * 65 + ":CUSTOM_GPU": "1"}, {}, id="65 letters of group"),
        pytest.param({"hw:resources:CUSTOM_GPU": "1"}, {}, id="another scope"),
    ],
)
def test_resources_in_extra_specs(extra_specs, changed):
    expected = {name: amount for name, amount in (USUAL | changed).items() if amount is not None}
    assert amounts(extra_specs) == expected


@pytest.mark.parametrize(
    ("extra_specs", "required", "forbidden"),
    [
        ({}, set(), set()),
        ({"trait:CUSTOM_GOLD": "required"}, {"CUSTOM_GOLD"}, set()),
        ({"trait:CUSTOM_GOLD": "forbidden"}, set(), {"CUSTOM_GOLD"}),
        ({"trait1:CUSTOM_GOLD": "required", "trait_x:HW_A": "forbidden"}, {"CUSTOM_GOLD"}, {"HW_A"}),
        ({"trait:CUSTOM_GOLD": "preferred"}, set(), set()),
        ({"trait:CUSTOM_GOLD": "Required"}, set(), set()),
        ({"trait:": "required"}, set(), set()),
        ({"traits:A": "required"}, {"A"}, set()),  # `s` is a group name like any other
        ({"hw:trait:A": "required"}, set(), set()),
    ],
)
def test_traits_in_extra_specs(extra_specs, required, forbidden):
    assert requested_traits(extra_specs) == (required, forbidden)


def test_traits_of_the_image_are_required_besides_those_of_the_flavor():
    spec = make_spec(extra_specs={"trait:A": "required", "trait:C": "forbidden"}, image={"trait:B": "required"})
    assert spec.traits == ({"A", "B"}, {"C"})


@pytest.mark.parametrize("name", ["VCPU", "DISK_GB", "PCPU", "CUSTOM_A", "CUSTOM_9_B"])
def test_a_resource_class(name):
    assert is_resource_class(name)


@pytest.mark.parametrize("name", ["", "vcpu", "CUSTOM_", "CUSTOM_a", "CUSTOM-A", "XCUSTOM_A", "CUSTOM_A\n"])
def test_no_resource_class(name):
    assert not is_resource_class(name)


def test_a_request_asks_for_what_its_flavor_asks_for():
    assert make_spec(vcpus=2, memory_mb=512, root_gb=5, is_bfv=True).amounts == {"VCPU": 2, "MEMORY_MB": 512}
