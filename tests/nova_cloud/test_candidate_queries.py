# SPDX-License-Identifier: Apache-2.0
"""What placement is asked for a request, parameter by parameter, as nova asks."""

import pytest

from roost import Flavor, RequestSpec
from roost.model.image import Image
from roost.model.numa import derive_topology
from roost.model.request import RequestGroup, RequestLevelParams
from roost.nova.placement.candidates import candidate_queries, needs_candidates

ROOT = ("root_required", "!COMPUTE_STATUS_DISABLED")
NODE = "00000000-0000-4000-8000-000000000020"


def spec_for(extra_specs=None, vcpus=4, **more):
    flavor = Flavor(vcpus, 1024, 20, extra_specs=extra_specs or {})
    image = more.get("image")
    return RequestSpec(flavor=flavor, numa_topology=derive_topology(flavor, image), **more)


def asked(spec, traits=(), node=None, **more):
    return [list(query) for query in candidate_queries(spec, traits, node, **more)]


def test_a_plain_flavor_is_asked_for_in_one_group():
    spec = spec_for()
    assert not needs_candidates(spec)
    assert asked(spec) == [[("resources", "DISK_GB:20,MEMORY_MB:1024,VCPU:4"), ROOT]]


def test_a_named_node_and_implied_traits_are_part_of_it():
    spec = spec_for(request_level_params=RequestLevelParams(frozenset({"B"}), frozenset({"C"})))
    (query,) = asked(spec, ["A"], NODE)
    assert ("root_required", "A,B,!C,!COMPUTE_STATUS_DISABLED") in query
    assert ("in_tree", NODE) in query


def test_traits_of_flavor_and_image_are_the_group_s():
    image = Image(properties={"traits_required": ["IMAGE"]})
    (query,) = asked(spec_for({"trait:OWN": "required", "trait:BAD": "forbidden", "trait:ODD": "maybe"}, image=image))
    assert ("required", "IMAGE,OWN,!BAD") in query


@pytest.mark.parametrize(
    ("extra_specs", "resources"),
    [
        ({"resources:VGPU": "1"}, "DISK_GB:20,MEMORY_MB:1024,VCPU:4,VGPU:1"),
        ({"resources:VGPU": f"{'0' * 20}1"}, "DISK_GB:20,MEMORY_MB:1024,VCPU:4,VGPU:1"),
        ({"resources:VGPU": f"{' ' * 20}1"}, "DISK_GB:20,MEMORY_MB:1024,VCPU:4,VGPU:1"),
        (
            {"resources:VCPU": "0", "resources:MEMORY_MB": "0", "resources:DISK_GB": "0", "resources:CUSTOM_X": "1"},
            "CUSTOM_X:1",
        ),
        (
            {"resources:NONSENSE": "1", "resources:VGPU": "-1", "resources:FPGA": "x"},
            "DISK_GB:20,MEMORY_MB:1024,VCPU:4",
        ),
    ],
)
def test_resources_of_a_flavor_replace_and_extend_its_own(extra_specs, resources):
    assert ("resources", resources) in asked(spec_for(extra_specs))[0]


def test_groups_with_a_suffix_are_asked_for_each_with_its_traits():
    spec = spec_for(
        {"resources1:VGPU": "1", "trait1:FAST": "required", "resources_b:VGPU": "2", "group_policy": "isolate"}
    )
    assert needs_candidates(spec)
    (query,) = asked(spec)
    assert query == sorted(query)
    assert {
        ("resources1", "VGPU:1"),
        ("required1", "FAST"),
        ("resources_b", "VGPU:2"),
        ("group_policy", "isolate"),
    } < set(query)


def test_ports_bring_groups_named_for_them():
    port = RequestGroup(
        {"NET_BW_EGR_KILOBIT_PER_SEC": 10},
        frozenset({"CUSTOM_PHYSNET"}),
        aggregates=(("y", "x"),),
        forbidden_aggregates=frozenset({"z"}),
        requester_id="port-1",
    )
    other = RequestGroup({"FPGA": 1}, requester_id="arq")
    spec = spec_for(
        requested_resources=(port, other), request_level_params=RequestLevelParams(same_subtree=(("port-1", "arq"),))
    )
    assert needs_candidates(spec)
    (query,) = asked(spec)
    assert {
        ("resourcesport-1", "NET_BW_EGR_KILOBIT_PER_SEC:10"),
        ("requiredport-1", "CUSTOM_PHYSNET"),
        ("member_ofport-1", "in:x,y"),
        ("member_ofport-1", "!in:z"),
        ("resourcesarq", "FPGA:1"),
        ("group_policy", "none"),
        ("same_subtree", "port-1,arq"),
        ("resources", "DISK_GB:20,MEMORY_MB:1024,VCPU:4"),
    } < set(query)


@pytest.mark.parametrize(
    ("extra_specs", "resources", "traits"),
    [
        ({}, "DISK_GB:20,MEMORY_MB:1024,PCPU:4", None),
        ({"hw:emulator_threads_policy": "isolate"}, "DISK_GB:20,MEMORY_MB:1024,PCPU:5", None),
        ({"hw:cpu_thread_policy": "isolate"}, "DISK_GB:20,MEMORY_MB:1024,PCPU:4", "!HW_CPU_HYPERTHREADING"),
        ({"hw:cpu_thread_policy": "require"}, "DISK_GB:20,MEMORY_MB:1024,PCPU:4", "HW_CPU_HYPERTHREADING"),
    ],
)
def test_dedicated_cpus_are_asked_for_as_pcpu_and_then_as_vcpu(extra_specs, resources, traits):
    spec = spec_for({"hw:cpu_policy": "dedicated"} | extra_specs)
    assert needs_candidates(spec)
    first, second = (dict(query) for query in asked(spec))
    assert (first["resources"], first.get("required")) == (resources, traits)
    assert (second["resources"], second.get("required")) == ("DISK_GB:20,MEMORY_MB:1024,VCPU:4", None)
    assert [dict(query) for query in asked(spec, takes_shared_cpus=False)] == [first]


def test_cpus_that_the_flavor_asks_for_itself_are_not_translated():
    (query,) = asked(spec_for({"resources:PCPU": "4"}))
    assert ("resources", "DISK_GB:20,MEMORY_MB:1024,PCPU:4") in query


def test_a_mix_of_dedicated_and_shared_cpus_is_asked_for_once():
    (query,) = asked(spec_for({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"}))
    assert ("resources", "DISK_GB:20,MEMORY_MB:1024,PCPU:1,VCPU:3") in query


@pytest.mark.parametrize(
    ("extra_specs", "traits"),
    [
        ({"os:secure_boot": "required"}, "COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
        ({"hw:tpm_version": "2.0"}, "COMPUTE_SECURITY_TPM_2_0,COMPUTE_SECURITY_TPM_TIS"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, "COMPUTE_SECURITY_TPM_2_0,COMPUTE_SECURITY_TPM_CRB"),
        ({"hw:pci_numa_affinity_policy": "socket"}, "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"),
    ],
)
def test_features_are_traits_of_the_group(extra_specs, traits):
    assert dict(asked(spec_for(extra_specs))[0])["required"] == traits


def test_persistent_memory_is_a_class_per_label():
    spec = spec_for({"hw:pmem": "6GB, SMALL,small"})
    classes = "CUSTOM_PMEM_NAMESPACE_6GB:1,CUSTOM_PMEM_NAMESPACE_SMALL:2"
    assert dict(asked(spec)[0])["resources"] == f"{classes},DISK_GB:20,MEMORY_MB:1024,VCPU:4"
    assert spec.amounts["CUSTOM_PMEM_NAMESPACE_SMALL"] == 2
