# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle

import pytest

from roost.errors import BadInput, FieldError
from roost.model.cpu_policy import ANY, LARGE, SMALL, NumaRequestError
from roost.model.flavor import Flavor
from roost.model.image import Image
from roost.model.image_property_values import ImagePropertyError
from roost.model.numa import InstanceCell, InstanceTopology, derive_topology, topology_from_json


def derive(image=None, vcpus=4, memory_mb=4096, **specs):
    """Extra specs hw:NAME by keyword; `__` stands for the dot of hw:numa_cpus.0."""
    extra_specs = {f"hw:{name.replace('__', '.')}": value for name, value in specs.items()}
    return derive_with(extra_specs, image, vcpus, memory_mb)


def derive_with(extra_specs, image=None, vcpus=4, memory_mb=4096):
    flavor = Flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=extra_specs)
    return derive_topology(flavor, None if image is None else Image(properties=image))


def cell(node=0, cpuset=(), pcpuset=(), memory=4096, pagesize=None, policy=None, threads=None):
    return InstanceCell(node, frozenset(cpuset), frozenset(pcpuset), memory, pagesize, policy, threads)


def refused(nova_type, extra_specs, image=None, vcpus=4, memory_mb=4096):
    with pytest.raises(NumaRequestError) as caught:
        derive_with(extra_specs, image, vcpus, memory_mb)
    assert caught.value.nova_type == nova_type
    assert isinstance(caught.value, BadInput)
    assert caught.value.hint
    return str(caught.value)


# --- the table of worked examples: a flavor of 4 vCPUs and 4096 MB --------------------------------


def test_no_extra_specs_ask_for_nothing():
    assert derive() is None


def test_two_nodes_share_cpus_and_memory_equally():
    assert derive(numa_nodes="2") == InstanceTopology(
        (cell(0, {0, 1}, memory=2048), cell(1, {2, 3}, memory=2048)), None
    )


def test_three_nodes_do_not_divide_four_cpus():
    message = refused("ImageNUMATopologyAsymmetric", {"hw:numa_nodes": "3"})
    assert message.startswith("4 vCPUs and 4096 MB do not divide evenly by hw:numa_nodes 3")


def test_dedicated_makes_one_cell_with_all_cpus_dedicated():
    assert derive(cpu_policy="dedicated").cells == (cell(0, (), range(4), policy="dedicated"),)


def test_large_pages_make_one_cell_of_shared_cpus():
    assert derive(mem_page_size="large").cells == (cell(0, range(4), pagesize=LARGE),)


def test_mixed_with_a_mask_splits_the_cpus_of_a_cell():
    assert derive(cpu_policy="mixed", cpu_dedicated_mask="^0").cells == (cell(0, {0}, {1, 2, 3}, policy="mixed"),)


def test_a_manual_split_may_be_uneven():
    topology = derive(numa_nodes="2", numa_cpus__0="0", numa_cpus__1="1-3", numa_mem__0="1024", numa_mem__1="3072")
    assert topology.cells == (cell(0, {0}, memory=1024), cell(1, {1, 2, 3}, memory=3072))


def test_cpus_per_node_without_memory_per_node_are_refused():
    refused("ImageNUMATopologyIncomplete", {"hw:numa_nodes": "2", "hw:numa_cpus.0": "0"})


def test_lists_per_node_alone_trigger_nothing():
    assert derive(numa_cpus__0="0-3", numa_mem__0="4096") is None


def test_the_shared_policy_alone_asks_for_nothing():
    assert derive(cpu_policy="shared") is None


def test_a_page_size_may_have_a_unit():
    assert derive(mem_page_size="2MB").cells == (cell(0, range(4), pagesize=2048),)


def test_an_image_may_choose_where_the_flavor_says_any():
    assert derive({"hw_mem_page_size": "2048"}, mem_page_size="any").cells[0].pagesize == 2048


def test_an_image_may_not_choose_what_the_flavor_chose_even_the_same():
    refused("MemoryPageSizeForbidden", {"hw:mem_page_size": "2048"}, {"hw_mem_page_size": "2048"})


def test_dedicated_in_the_flavor_beats_shared_in_the_image():
    assert derive({"hw_cpu_policy": "shared"}, cpu_policy="dedicated").cells[0].cpu_policy == "dedicated"


def test_a_thread_policy_needs_a_cpu_policy():
    refused("CPUThreadPolicyConfigurationInvalid", {"hw:cpu_thread_policy": "prefer"})


def test_prefer_in_the_flavor_beats_the_image():
    topology = derive({"hw_cpu_thread_policy": "isolate"}, cpu_policy="dedicated", cpu_thread_policy="prefer")
    assert topology.cells[0].cpu_thread_policy == "prefer"


def test_four_pcpus_mean_dedicated():
    assert derive_with({"resources:PCPU": "4"}).cells == (cell(0, (), range(4), policy="dedicated"),)


def test_three_pcpus_for_four_vcpus_are_refused():
    assert "needs 4 dedicated CPUs" in refused("InvalidRequest", {"resources:PCPU": "3"})


# --- step 1: CPU policy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flavor", "image", "policy"),
    [
        (None, "dedicated", "dedicated"),
        ("", "dedicated", "dedicated"),
        ("dedicated", "mixed", "dedicated"),
        ("dedicated", "dedicated", "dedicated"),
        ("mixed", "shared", "mixed"),
        ("mixed", "mixed", "mixed"),
        ("shared", "shared", "shared"),
        ("shared", None, "shared"),
    ],
)
def test_flavor_and_image_agree_on_a_cpu_policy(flavor, image, policy):
    specs = {"hw:numa_nodes": "1"} | ({} if flavor is None else {"hw:cpu_policy": flavor})
    specs |= {"hw:cpu_dedicated_mask": "0"} if policy == "mixed" else {}
    topology = derive_with(specs, {} if image is None else {"hw_cpu_policy": image})
    assert topology.cells[0].cpu_policy == policy


@pytest.mark.parametrize(("flavor", "image"), [("mixed", "dedicated"), ("shared", "mixed"), ("shared", "dedicated")])
def test_an_image_may_not_ask_for_more_than_the_flavor(flavor, image):
    message = refused("ImageCPUPinningForbidden", {"hw:cpu_policy": flavor}, {"hw_cpu_policy": image})
    assert f"{image!r} asks for more than the flavor's hw:cpu_policy {flavor!r}" in message


def test_an_unknown_cpu_policy_is_refused_with_the_nearest():
    message = refused("InvalidCPUAllocationPolicy", {"hw:cpu_policy": "dedicatd"})
    assert "hw:cpu_policy: 'dedicatd'" in message
    assert "did you mean dedicated?" in message


@pytest.mark.parametrize("name", ["hw_cpu_policy", "hw_cpu_thread_policy"])
def test_an_unknown_policy_of_an_image_is_refused_with_the_image(name):
    with pytest.raises(ImagePropertyError) as caught:
        derive({name: "odd"})
    assert caught.value.nova_type == "ValueError"


# --- step 2: thread policy ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flavor", "image", "policy"),
    [
        (None, None, None),
        (None, "isolate", "isolate"),
        ("prefer", "require", "prefer"),
        ("require", None, "require"),
        ("require", "require", "require"),
    ],
)
def test_flavor_and_image_agree_on_a_thread_policy(flavor, image, policy):
    specs = {"hw:cpu_policy": "dedicated"} | ({"hw:cpu_thread_policy": flavor} if flavor else {})
    topology = derive_with(specs, {"hw_cpu_thread_policy": image} if image else {})
    assert topology.cells[0].cpu_thread_policy == policy


@pytest.mark.parametrize(("flavor", "image"), [("require", "isolate"), ("isolate", "prefer")])
def test_an_image_may_not_change_a_strict_thread_policy(flavor, image):
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": flavor}
    refused("ImageCPUThreadPolicyForbidden", specs, {"hw_cpu_thread_policy": image})


@pytest.mark.parametrize("value", ["odd", "", "Prefer"])
def test_an_unknown_thread_policy_is_refused(value):
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": value}
    refused("InvalidCPUThreadAllocationPolicy", specs)


# --- the emulator threads -------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "policy"), [("share", "share"), ("isolate", "isolate"), ("", None)])
def test_the_emulator_policy_is_the_topologys(value, policy):
    topology = derive(cpu_policy="dedicated", emulator_threads_policy=value)
    assert topology.emulator_threads_policy == policy


def test_only_the_first_cell_carries_isolated_emulator_threads():
    topology = derive(cpu_policy="dedicated", emulator_threads_policy="isolate", numa_nodes="2")
    assert [topology.overhead_of(position) for position in (0, 1)] == [1, 0]
    assert derive(cpu_policy="dedicated", emulator_threads_policy="share").overhead_of(0) == 0


def test_an_unknown_emulator_policy_is_refused():
    refused("InvalidEmulatorThreadsPolicy", {"hw:emulator_threads_policy": "odd"})


@pytest.mark.parametrize("policy", [None, "shared"])
def test_isolated_emulator_threads_need_dedicated_cpus(policy):
    specs = {"hw:emulator_threads_policy": "isolate"} | ({"hw:cpu_policy": policy} if policy else {})
    refused("BadRequirementEmulatorThreadsPolicy", specs)


def test_the_emulator_policy_is_read_from_the_flavor_only():
    topology = derive({"hw_emulator_threads_policy": "isolate"}, cpu_policy="dedicated")
    assert topology.emulator_threads_policy is None


# --- step 3: explicit resources -------------------------------------------------------------------


def test_amounts_of_several_groups_add_up():
    specs = {"resources1:PCPU": "1", "resources2:PCPU": "3"}
    assert derive_with(specs).cells[0].cpu_policy == "dedicated"


def test_isolated_emulator_threads_need_one_pcpu_more():
    specs = {"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"}
    assert derive_with(specs).cells[0].pcpuset == frozenset(range(4))
    refused("InvalidRequest", specs | {"resources:PCPU": "4"})


def test_vcpus_mean_shared():
    assert derive_with({"resources:VCPU": "4"}) is None
    assert derive_with({"resources:VCPU": "4", "hw:numa_nodes": "1"}).cells[0].cpu_policy == "shared"


@pytest.mark.parametrize("kind", ["PCPU", "VCPU"])
def test_explicit_resources_beside_a_cpu_policy_are_refused(kind):
    refused("InvalidRequest", {f"resources:{kind}": "4", "hw:cpu_policy": "dedicated"})
    refused("InvalidRequest", {f"resources:{kind}": "4"}, {"hw_cpu_policy": "dedicated"})


def test_both_kinds_of_cpus_are_refused():
    refused("InvalidRequest", {"resources:PCPU": "2", "resources1:VCPU": "2"})


@pytest.mark.parametrize("value", ["0", "x", "", "1.5"])
def test_amounts_that_are_zero_or_no_integer_count_as_not_given(value):
    assert derive_with({"resources:PCPU": value, "resources:VCPU": "4"}) is None


def test_named_groups_are_no_cpus_of_the_instance():
    assert derive_with({"resources_NET:PCPU": "3"}) is None


# --- step 4: the hyperthreading trait -------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "policy"),
    [
        (["required"], "require"),
        (["forbidden"], "isolate"),
        (["required", "forbidden"], "isolate"),
        (["odd"], None),
        (["odd", "required"], "require"),
    ],
)
def test_the_hyperthreading_trait_stands_for_a_thread_policy(values, policy):
    traits = {f"trait{at or ''}:HW_CPU_HYPERTHREADING": value for at, value in enumerate(values)}
    assert derive_with(traits | {"hw:cpu_policy": "dedicated"}).cells[0].cpu_thread_policy == policy


@pytest.mark.parametrize(("value", "policy"), [("required", "require"), ("forbidden", None)])
def test_an_image_can_only_require_the_trait(value, policy):
    topology = derive({"trait:HW_CPU_HYPERTHREADING": value}, cpu_policy="dedicated")
    assert topology.cells[0].cpu_thread_policy == policy


def test_a_forbidden_trait_beats_the_images_required_one():
    specs = {"hw:cpu_policy": "dedicated", "trait:HW_CPU_HYPERTHREADING": "forbidden"}
    assert derive_with(specs, {"trait:HW_CPU_HYPERTHREADING": "required"}).cells[0].cpu_thread_policy == "isolate"


@pytest.mark.parametrize("value", ["required", "forbidden", "odd"])
def test_the_trait_beside_a_thread_policy_is_refused(value):
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}
    refused("InvalidRequest", specs | {"trait:HW_CPU_HYPERTHREADING": value})


def test_the_images_trait_beside_a_thread_policy_is_refused():
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "prefer"}
    refused("InvalidRequest", specs, {"trait:HW_CPU_HYPERTHREADING": "required"})


def test_the_trait_needs_dedicated_cpus_as_its_thread_policy_does():
    specs = {"resources:VCPU": "4", "trait:HW_CPU_HYPERTHREADING": "required"}
    refused("CPUThreadPolicyConfigurationInvalid", specs)


# --- step 5: sanity and real-time -----------------------------------------------------------------


@pytest.mark.parametrize("policy", ["", "shared", "dedicated"])
def test_a_dedicated_mask_needs_the_mixed_policy(policy):
    specs = {"hw:cpu_policy": policy, "hw:cpu_dedicated_mask": "0"}
    refused("RequiredMixedInstancePolicy", specs)


@pytest.mark.parametrize("policy", ["", "shared"])
def test_real_time_needs_dedicated_cpus(policy):
    specs = {"hw:cpu_policy": policy, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}
    refused("RealtimeConfigurationInvalid", specs)


def test_mixed_needs_a_mask_or_real_time_and_not_both():
    both = {"hw:cpu_dedicated_mask": "0", "hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "^0"}
    assert "neither" in refused("RequiredMixedOrRealtimeCPUMask", {"hw:cpu_policy": "mixed"})
    assert "both" in refused("RequiredMixedOrRealtimeCPUMask", {"hw:cpu_policy": "mixed"} | both)


@pytest.mark.parametrize("yes", ["1", "t", "true", "on", "y", "yes", "TRUE", "Yes"])
def test_real_time_is_a_true_text(yes):
    topology = derive(cpu_policy="mixed", cpu_realtime=yes, cpu_realtime_mask="2-3")
    assert topology.cells == (cell(0, {0, 1}, {2, 3}, policy="mixed"),)


@pytest.mark.parametrize("no", ["0", "no", "2", ""])
def test_without_real_time_its_mask_is_ignored(no):
    topology = derive(cpu_policy="dedicated", cpu_realtime=no, cpu_realtime_mask="nonsense")
    assert topology.cells[0].pcpuset == frozenset(range(4))


def test_the_images_real_time_mask_comes_first():
    topology = derive({"hw_cpu_realtime_mask": "^0-1"}, cpu_policy="mixed", cpu_realtime="1", cpu_realtime_mask="^0")
    assert topology.cells[0].pcpuset == {2, 3}


def test_dedicated_real_time_dedicates_all_cpus():
    topology = derive(cpu_policy="dedicated", cpu_realtime="1", cpu_realtime_mask="^0")
    assert topology.cells[0].pcpuset == frozenset(range(4))


@pytest.mark.parametrize("mask", [None, "", "0-3", "^7", "4", "0,7", "1,^1", "^0-3"])
def test_real_time_cpus_must_be_some_and_not_all_of_the_instances(mask):
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "1"}
    refused("RealtimeMaskNotFoundOrInvalid", specs | ({} if mask is None else {"hw:cpu_realtime_mask": mask}))


@pytest.mark.parametrize("emulator", ["share", "isolate"])
@pytest.mark.parametrize("mask", [None, "0-3"])
def test_all_cpus_may_be_real_time_beside_an_emulator_policy(emulator, mask):
    specs = {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "1", "hw:emulator_threads_policy": emulator}
    topology = derive_with(specs | ({"hw:cpu_realtime_mask": mask} if mask else {}))
    assert topology.cells[0].pcpuset == frozenset(range(4))


def test_real_time_cpus_are_judged_before_the_policy():
    refused("RealtimeMaskNotFoundOrInvalid", {"hw:cpu_policy": "shared", "hw:cpu_realtime": "1"})


def test_a_real_time_mask_that_is_no_cpu_list_is_refused():
    specs = {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "a-b"}
    refused("Invalid", specs)


# --- step 6: the dedicated set --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "dedicated"),
    [
        ("1-3", {1, 2, 3}),
        ("0,2", {0, 2}),
        ("0-3,^1", {0, 2, 3}),
        (" 1 , ,2", {1, 2}),
        ("^0-1", {2, 3}),
        ("^0,^2", {1, 3}),
        ("^1-3,0", {0}),
    ],
)
def test_a_mask_is_a_cpu_list_or_all_except(mask, dedicated):
    assert derive(cpu_policy="mixed", cpu_dedicated_mask=mask).cells[0].pcpuset == dedicated


@pytest.mark.parametrize("mask", ["", "0-3", "^5", "4", "1-9", "1,^1"])
def test_a_dedicated_mask_names_some_and_not_all_of_the_cpus(mask):
    specs = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": mask}
    refused("InvalidMixedInstanceDedicatedMask", specs)


@pytest.mark.parametrize("mask", ["x", "3-1", "1-", "-1", "1;2"])
def test_a_mask_that_is_no_cpu_list_is_refused(mask):
    refused("Invalid", {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": mask})


def test_a_mixed_cell_may_have_no_dedicated_cpu():
    topology = derive(cpu_policy="mixed", cpu_dedicated_mask="0-1", numa_nodes="2")
    assert [(each.cpuset, each.pcpuset) for each in topology.cells] == [(set(), {0, 1}), ({2, 3}, set())]


# --- step 7: page size, locked memory, encryption -------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("small", SMALL),
        ("large", LARGE),
        ("any", ANY),
        ("4", 4),
        ("2048", 2048),
        ("2MB", 2048),
        ("2MiB", 2048),
        ("1GB", 1048576),
        ("4KB", 4),
        ("4KiB", 4),
        ("16Mb", 2048),
        ("4096B", 4),
    ],
)
def test_a_page_size_is_a_word_kib_or_a_size(text, size):
    assert derive(mem_page_size=text).cells[0].pagesize == size


@pytest.mark.parametrize("text", ["", "0", "0MB"])
def test_a_page_size_of_nothing_means_unset(text):
    assert derive(mem_page_size=text) is None
    assert derive({"hw_mem_page_size": text}, mem_page_size="any").cells[0].pagesize == ANY


@pytest.mark.parametrize("text", ["Large", "ANY", "2M", "2mB", "2gb", "MB", "-4", "2 MB x", "1B", "2iB", "1.5"])
def test_a_page_size_that_is_none_is_refused(text):
    message = refused("MemoryPageSizeInvalid", {"hw:mem_page_size": text})
    assert f"extra spec hw:mem_page_size: {text!r}" in message
    refused("MemoryPageSizeInvalid", {"hw:mem_page_size": "any"}, {"hw_mem_page_size": text})


@pytest.mark.parametrize("flavor", ["any", "large"])
@pytest.mark.parametrize(("image", "size"), [("small", SMALL), ("1GB", 1048576), ("any", ANY)])
def test_the_images_page_size_replaces_any_and_large(flavor, image, size):
    assert derive({"hw_mem_page_size": image}, mem_page_size=flavor).cells[0].pagesize == size


@pytest.mark.parametrize("flavor", ["", "small", "4"])
def test_the_images_page_size_needs_any_or_large(flavor):
    refused("MemoryPageSizeForbidden", {"hw:mem_page_size": flavor}, {"hw_mem_page_size": "2048"})


def test_the_images_page_size_without_the_flavors_is_refused():
    refused("MemoryPageSizeForbidden", {}, {"hw_mem_page_size": "2048"})


def test_locked_memory_needs_a_page_size():
    refused("LockMemoryForbidden", {"hw:locked_memory": "true"})
    refused("LockMemoryForbidden", {}, {"hw_locked_memory": "true"})
    assert derive(locked_memory="true", mem_page_size="any").cells[0].pagesize == ANY
    assert derive(locked_memory="false") is None


def test_flavor_and_image_must_agree_on_locked_memory():
    specs = {"hw:locked_memory": "true", "hw:mem_page_size": "any"}
    refused("FlavorImageLockedMemoryConflict", specs, {"hw_locked_memory": "false"})
    refused("FlavorImageLockedMemoryConflict", specs | {"hw:locked_memory": "no"}, {"hw_locked_memory": "true"})
    assert derive_with(specs, {"hw_locked_memory": "true"}).cells[0].pagesize == ANY


def test_encrypted_memory_asks_for_no_topology():
    assert derive({"hw_firmware_type": "uefi"}, mem_encryption="true") is None
    assert derive({"hw_firmware_type": "uefi", "hw_mem_encryption": "true"}) is None


@pytest.mark.parametrize("image", [None, {}, {"hw_firmware_type": "bios"}])
def test_encrypted_memory_needs_uefi(image):
    refused("FlavorImageConflict", {"hw:mem_encryption": "true"}, image)


def test_flavor_and_image_must_agree_on_encrypted_memory():
    image = {"hw_firmware_type": "uefi", "hw_mem_encryption": "false"}
    refused("FlavorImageConflict", {"hw:mem_encryption": "true"}, image)
    refused("FlavorImageConflict", {"hw:mem_encryption": "false"}, image | {"hw_mem_encryption": "true"})


def test_encrypted_memory_needs_a_q35_where_a_machine_is_named():
    uefi = {"hw_firmware_type": "uefi"}
    assert derive(uefi | {"hw_machine_type": "pc-q35-8.0"}, mem_encryption="1") is None
    refused("InvalidMachineType", {"hw:mem_encryption": "1"}, uefi | {"hw_machine_type": "pc"})


# --- steps 8 and 9: number of nodes ---------------------------------------------------------------


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.0"])
def test_a_bad_number_of_nodes_is_refused(value):
    refused("InvalidNUMANodesNumber", {"hw:numa_nodes": value})


def test_a_bad_number_of_nodes_of_an_image_is_refused():
    refused("InvalidNUMANodesNumber", {}, {"hw_numa_nodes": "0"})
    with pytest.raises(ImagePropertyError) as caught:
        derive({"hw_numa_nodes": "x"})
    assert caught.value.nova_type == "ValueError"


def test_the_number_of_nodes_is_given_once():
    refused("ImageNUMATopologyForbidden", {"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"})
    assert len(derive({"hw_numa_nodes": "2"}).cells) == 2
    assert len(derive({"hw_numa_nodes": "2"}, numa_nodes="").cells) == 2
    assert derive(numa_nodes="") is None


@pytest.mark.parametrize(("value", "cells"), [("6GB", 1), ("", 0)])
def test_persistent_memory_makes_a_topology(value, cells):
    topology = derive(pmem=value)
    assert (len(topology.cells) if topology else 0) == cells


# --- step 10: automatic split ---------------------------------------------------------------------


@pytest.mark.parametrize(("vcpus", "memory_mb"), [(3, 4096), (4, 4095)])
def test_cpus_and_memory_must_both_divide(vcpus, memory_mb):
    refused("ImageNUMATopologyAsymmetric", {"hw:numa_nodes": "2"}, None, vcpus, memory_mb)


def test_more_nodes_than_cpus_are_refused_at_once():
    refused("ImageNUMATopologyAsymmetric", {"hw:numa_nodes": "1000000000"}, None, 0, 0)


def test_a_flavor_of_absurd_size_is_refused_and_not_computed():
    refused("InvalidRequest", {"hw:cpu_policy": "dedicated"}, None, 10**12)
    assert derive(vcpus=10**12) is None


# --- step 11: manual split ------------------------------------------------------------------------

PAIR = {
    "hw:numa_nodes": "2",
    "hw:numa_cpus.0": "0-1",
    "hw:numa_cpus.1": "2-3",
    "hw:numa_mem.0": "1024",
    "hw:numa_mem.1": "3072",
}


@pytest.mark.parametrize(
    ("change", "nova_type"),
    [
        ({"hw:numa_cpus.1": None}, "ImageNUMATopologyIncomplete"),
        ({"hw:numa_mem.1": None}, "ImageNUMATopologyIncomplete"),
        ({"hw:numa_mem.0": None}, "ImageNUMATopologyIncomplete"),
        ({"hw:numa_cpus.2": "0"}, "ImageNUMATopologyIncomplete"),
        ({"hw:numa_nodes": "1"}, "ImageNUMATopologyIncomplete"),
        ({"hw:numa_cpus.1": "1-3"}, "ImageNUMATopologyCPUDuplicates"),
        ({"hw:numa_cpus.1": "2-4"}, "ImageNUMATopologyCPUOutOfRange"),
        ({"hw:numa_cpus.1": "2"}, "ImageNUMATopologyCPUsUnassigned"),
        ({"hw:numa_mem.1": "3073"}, "ImageNUMATopologyMemoryOutOfRange"),
        ({"hw:numa_mem.0": "-1024", "hw:numa_mem.1": "5120"}, "ImageNUMATopologyMemoryOutOfRange"),
        ({"hw:numa_cpus.1": "x"}, "Invalid"),
        ({"hw:numa_mem.1": "x"}, "ValueError"),
    ],
)
def test_a_manual_split_must_be_complete_and_exact(change, nova_type):
    refused(nova_type, {spec: value for spec, value in (PAIR | change).items() if value is not None})


def test_a_manual_split_may_come_from_the_image():
    image = {spec.replace("hw:", "hw_"): value for spec, value in PAIR.items()}
    assert derive(image).cells == (cell(0, {0, 1}, memory=1024), cell(1, {2, 3}, memory=3072))


def test_flavor_and_image_may_each_give_one_of_the_lists():
    flavor = {spec: value for spec, value in PAIR.items() if "mem" not in spec}
    image = {spec.replace("hw:", "hw_"): value for spec, value in PAIR.items() if "mem" in spec}
    assert [each.memory for each in derive_with(flavor, image).cells] == [1024, 3072]


@pytest.mark.parametrize("name", ["numa_cpus", "numa_mem"])
def test_flavor_and_image_may_not_both_give_a_list(name):
    image = {f"hw_{name}.0": PAIR[f"hw:{name}.0"], f"hw_{name}.1": PAIR[f"hw:{name}.1"]}
    refused("ImageNUMATopologyForbidden", PAIR, image)


def test_one_node_is_split_as_written_where_a_page_size_makes_the_topology():
    assert derive(mem_page_size="4", numa_cpus__0="0-3", numa_mem__0="4096").cells == (cell(0, range(4), pagesize=4),)


# --- the records ----------------------------------------------------------------------------------


def test_topologies_are_values():
    one, other = derive(numa_nodes="2"), derive(numa_nodes="2")
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one


# --- JSON -----------------------------------------------------------------------------------------


def test_a_cell_needs_only_id_and_memory():
    assert topology_from_json({"cells": [{"id": 0, "memory": 512}]}) == InstanceTopology((cell(0, memory=512),))


def test_a_topology_is_read_from_json():
    data = {
        "cells": [
            {"id": 0, "memory": 512, "cpuset": [0], "pcpuset": [1], "pagesize": -2, "cpu_policy": "mixed"},
            {"id": 1, "memory": 256, "pcpuset": [2, 3], "pagesize": 2048, "cpu_policy": "mixed"},
        ],
        "emulator_threads_policy": "share",
    }
    cells = (cell(0, {0}, {1}, 512, LARGE, "mixed"), cell(1, (), {2, 3}, 256, 2048, "mixed"))
    assert topology_from_json(data) == InstanceTopology(cells, "share")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": None}, "cells[0].id"),
        ({"memory": -1}, "cells[0].memory"),
        ({"memory": "512"}, "cells[0].memory"),
        ({"cpuset": "0-3"}, "cells[0].cpuset"),
        ({"cpuset": [0, -1]}, "cells[0].cpuset[1]"),
        ({"cpuset": [0], "pcpuset": [0]}, "cells[0].pcpuset"),
        ({"pagesize": 0}, "cells[0].pagesize"),
        ({"pagesize": -4}, "cells[0].pagesize"),
        ({"cpu_policy": "odd"}, "cells[0].cpu_policy"),
        ({"cpu_thread_policy": "odd"}, "cells[0].cpu_thread_policy"),
        ({"cpusset": [0]}, "cells[0]"),
    ],
)
def test_a_bad_cell_is_an_error_with_its_place(change, field):
    with pytest.raises(FieldError) as caught:
        topology_from_json({"cells": [{"id": 0, "memory": 512} | change]})
    assert caught.value.field == f"numa_topology.{field}"


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"cells": []},
        {"cells": {}},
        {"cells": [{"id": 0, "memory": 1}, {"id": 0, "memory": 1}]},
        {"cells": [{"id": 0, "memory": 1}, {"id": 1, "memory": 1, "cpu_policy": "dedicated"}]},
        {"cells": [{"id": 0, "memory": 1}], "emulator_threads_policy": "odd"},
        {"cells": [{"id": 0, "memory": 1}], "emulator": "share"},
    ],
)
def test_a_bad_topology_is_an_error(data):
    with pytest.raises(FieldError, match="numa_topology"):
        topology_from_json(data)
