# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesFilter: spec/filters.md 5.18."""

import json

import pytest

from roost.errors import RoostError
from roost.filters.base import applies_to_rebuild
from roost.filters.image_properties import ImagePropertiesFilter, version_parts
from roost.testing import make_hosts, make_spec

KVM = ["x86_64", "kvm", "hvm"]
XEN = ["x86_64", "xen", "hvm"]


def answer(image, triples, version=0, default=None, cpu_info=None):
    hosts = make_hosts(1, supported_instances=[triples], hypervisor_version=version, cpu_info=cpu_info)
    rule = ImagePropertiesFilter(ImagePropertiesFilter.Options(default))
    return rule.mask(hosts, make_spec(image=image)).tolist()


@pytest.mark.parametrize(
    ("image", "triples", "passes"),
    [
        pytest.param({}, [], True, id="nothing asked"),
        pytest.param({"hw_architecture": "AMD64"}, [KVM], True, id="another spelling of x86_64"),
        pytest.param({"hw_architecture": "i386"}, [KVM], False, id="another architecture"),
        pytest.param({"img_hv_type": "KVM"}, [KVM], True, id="any case"),
        pytest.param({"img_hv_type": "xapi"}, [XEN], True, id="another spelling of xen"),
        pytest.param({"hw_vm_mode": "xen"}, [XEN], True, id="anywhere in the triple"),
        pytest.param(
            {"hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "xen"},
            [KVM, ["x86_64", "xen", "xen"]],
            False,
            id="one triple must hold all",
        ),
        pytest.param({"hw_architecture": "x86_64"}, [], False, id="the host offers nothing"),
        pytest.param(
            {"architecture": "x86_64", "hypervisor_type": "kvm", "vm_mode": "hv"}, [KVM], True, id="old names"
        ),
    ],
)
def test_worked_examples(image, triples, passes):
    assert answer(image, triples) == [passes]


@pytest.mark.parametrize(
    ("image", "default", "passes"),
    [
        ({}, "aarch64", False),
        ({}, "x86_64", True),
        ({"hw_architecture": "x86_64"}, "aarch64", True),
        (None, "aarch64", False),
    ],
)
def test_an_image_without_architecture_has_the_default_one(image, default, passes):
    assert answer(image, [KVM], default=default) == [passes]


@pytest.mark.parametrize(
    ("predicate", "version", "passes"),
    [
        pytest.param(">=6.0,<6.2", 6002001, False, id="6.2.1 is not below 6.2"),
        pytest.param("<=6.2", 6002001, False, id="6.2.1 is above 6.2"),
        pytest.param("> 6", 6002001, True, id="above 6"),
        pytest.param(">=6.0, <7", 6002001, True, id="between"),
        pytest.param(">=99", 0, True, id="a host of unknown version"),
        pytest.param("==6.2.0", 6002, True, id="6.2 is 6.2.0"),
        pytest.param("== 6.2", 6002000, True, id="6.2.0 is 6.2"),
        pytest.param("!=6.2.1", 6002001, False, id="the very one that is not wanted"),
    ],
)
def test_hypervisor_versions_of_a_kvm_host(predicate, version, passes):
    assert answer({"img_hv_type": "kvm", "img_hv_requested_version": predicate}, [KVM], version) == [passes]


def test_a_version_alone_asks_for_nothing():
    assert answer({"img_hv_requested_version": ">=99"}, [KVM], 6002001) == [True]


@pytest.mark.parametrize("predicate", ["6.2", "~=6", ">="])
def test_a_version_that_cannot_be_read_fails_the_request(predicate):
    with pytest.raises(RoostError) as caught:
        answer({"img_hv_type": "kvm", "img_hv_requested_version": predicate}, [KVM], 6002001)
    assert caught.value.nova_type == "ValueError"


@pytest.mark.parametrize(("version", "numbers"), [(6002001, (6, 2, 1)), (6002, (6, 2)), (7, (7,)), (0, ())])
def test_a_version_number_is_written_in_base_1000(version, numbers):
    assert version_parts(version) == numbers


@pytest.mark.parametrize(
    ("cpu_info", "passes"),
    [
        pytest.param(json.dumps({"maxphysaddr": {"bits": 46}}), True, id="as many"),
        pytest.param(json.dumps({"maxphysaddr": {"bits": 45}}), False, id="one fewer"),
        pytest.param({"maxphysaddr": {"bits": 45}}, False, id="in a mapping"),
        pytest.param(None, True, id="nothing known"),
        pytest.param("{}", True, id="nothing said"),
        pytest.param("bad{", True, id="broken JSON"),
        pytest.param('{"maxphysaddr": {"bits": "wide"}}', True, id="no number"),
        pytest.param('{"maxphysaddr": {"bits": Infinity}}', True, id="no whole number"),
        pytest.param("[" * 100_000, True, id="JSON nested too deeply to read"),
    ],
)
def test_address_bits_are_read_from_the_text_that_the_host_reports(cpu_info, passes):
    assert answer({"img_hv_type": "kvm", "hw_maxphysaddr_bits": 46}, [KVM], cpu_info=cpu_info) == [passes]


def test_address_bits_alone_ask_for_nothing():
    assert answer({"hw_maxphysaddr_bits": 46}, [KVM], cpu_info='{"maxphysaddr": {"bits": 40}}') == [True]


@pytest.mark.parametrize("image", [None, {}, {"os_distro": "debian", "img_hv_requested_version": ">=1"}])
def test_without_one_of_the_three_it_has_nothing_to_do(image):
    assert not ImagePropertiesFilter().applies_to(make_spec(image=image))


def test_it_runs_once_per_request_and_on_rebuild():
    assert not ImagePropertiesFilter().run_filter_for_index(1)
    assert applies_to_rebuild(ImagePropertiesFilter())


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ({"hw_architecture": "aarch64", "img_hv_type": "kvm"}, "aarch64 kvm asked; the host offers x86_64 kvm hvm"),
        (
            {"img_hv_type": "kvm", "img_hv_requested_version": ">=7"},
            "hypervisor version >=7 asked; the host has 6.2.1",
        ),
        ({"img_hv_type": "kvm", "hw_maxphysaddr_bits": 46}, "46 address bits asked; the host has 40"),
    ],
)
def test_the_reason_names_what_was_asked_and_what_the_host_has(image, reason):
    (host,) = make_hosts(
        1, supported_instances=[[KVM]], hypervisor_version=6002001, cpu_info='{"maxphysaddr": {"bits": 40}}'
    )
    assert ImagePropertiesFilter().reason(host, make_spec(image=image)) == reason


def test_the_reason_of_a_host_that_offers_nothing():
    (host,) = make_hosts(1)
    reason = ImagePropertiesFilter().reason(host, make_spec(image={"hw_vm_mode": "hvm"}))
    assert reason == "hvm asked; the host offers nothing"
