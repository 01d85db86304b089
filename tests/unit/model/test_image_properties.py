# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roost.errors import FieldError
from roost.model.image_properties import ImageProperties, parse_properties
from roost.model.image_property_table import PROPERTY_NAMES
from roost.model.image_property_values import (
    ImagePropertyError,
    parse_cpu_set,
    parse_version_predicate,
    version_satisfies,
)

# An independent copy of the property table, after the specification: a typo in either copy fails a test.

INTEGERS = """
    hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets hw_cpu_threads
    hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count
    hw_video_ram img_compression_level img_version
"""
TEXTS = """
    hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_machine_type hw_mem_page_size img_owner_id
    img_root_device_name img_signature os_admin_user os_command_line os_distro
    hw_ephemeral_encryption_secret_uuid img_signature_certificate_uuid
"""
BOOLEANS = """
    hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory
    hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled
    hw_virtio_packed_ring img_bdm_v2 img_bittorrent img_cache_in_nova img_hide_hypervisor_id
    img_linked_clone img_use_agent os_require_quiesce os_skip_agent_inject_files_at_boot
    os_skip_agent_inject_ssh
"""
ONE_OF = {
    "hw_architecture": (
        "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips"
        " mipsel mips64 mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x"
        " sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa xtensaeb"
    ),
    "hw_cdrom_bus": "fdc ide sata scsi usb virtio xen lxc uml",
    "hw_cpu_policy": "dedicated shared mixed",
    "hw_cpu_thread_policy": "prefer isolate require",
    "hw_disk_bus": "fdc ide sata scsi usb virtio xen lxc uml",
    "hw_emulation_architecture": (
        "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips"
        " mipsel mips64 mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x"
        " sh4 sh4eb sparc sparc64 unicore32 x86_64 xtensa xtensaeb"
    ),
    "hw_ephemeral_encryption_format": "plain luks luksv2",
    "hw_firmware_type": "uefi bios",
    "hw_floppy_bus": "fdc ide sata scsi usb virtio xen lxc uml",
    "hw_input_bus": "usb virtio",
    "hw_maxphysaddr_mode": "passthrough emulate",
    "hw_mem_encryption_model": "amd-sev amd-sev-es amd-sev-snp intel-tdx",
    "hw_pci_numa_affinity_policy": "required legacy preferred socket",
    "hw_pointer_model": "usbtablet",
    "hw_rescue_bus": "fdc ide sata scsi usb virtio xen lxc uml",
    "hw_rescue_device": "cdrom disk floppy fs lun",
    "hw_rng_model": "virtio",
    "hw_scsi_model": ("buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi"),
    "hw_sound_model": "sb16 es1370 pcspk ac97 ich6 ich9 usb virtio",
    "hw_tpm_model": "tpm-tis tpm-crb",
    "hw_tpm_version": "1.2 2.0",
    "hw_usb_model": "none nec-xhci qemu-xhci",
    "hw_video_model": "cirrus qxl vga vmvga xen virtio gop none bochs",
    "hw_vif_model": (
        "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet vmxnet3 igb"
    ),
    "hw_viommu_model": "intel smmuv3 virtio auto",
    "hw_vm_mode": "hvm xen uml exe",
    "hw_watchdog_action": "none pause poweroff reset disabled",
    "img_config_drive": "optional mandatory",
    "img_hv_type": (
        "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test"
        " uml vbox vz vmware xen zvm prsm"
    ),
    "img_signature_hash_method": "SHA-224 SHA-256 SHA-384 SHA-512",
    "img_signature_key_type": (
        "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
    ),
    "os_secure_boot": "required disabled optional",
    "os_type": "linux windows",
}
LEGACY = {
    "architecture": "hw_architecture",
    "auto_disk_config": "hw_auto_disk_config",
    "bdm_v2": "img_bdm_v2",
    "bittorrent": "img_bittorrent",
    "block_device_mapping": "img_block_device_mapping",
    "cache_in_nova": "img_cache_in_nova",
    "hypervisor_type": "img_hv_type",
    "hypervisor_version_requires": "img_hv_requested_version",
    "ipxe_boot": "hw_ipxe_boot",
    "mappings": "img_mappings",
    "owner_id": "img_owner_id",
    "root_device_name": "img_root_device_name",
    "vm_mode": "hw_vm_mode",
    "vmware_disktype": "hw_disk_type",
    "vmware_image_version": "img_version",
    "vmware_linked_clone": "img_linked_clone",
    "vmware_ostype": "os_distro",
    "xenapi_device_id": "hw_device_id",
    "xenapi_image_compression_level": "img_compression_level",
    "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
    "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
    "xenapi_use_agent": "img_use_agent",
}
ANY_CASE = ["hw_architecture", "hw_emulation_architecture", "hw_scsi_model", "hw_vif_model", "hw_vm_mode"]
ANY_CASE += ["img_hv_type", "os_type"]
MAP_LISTS = ["img_block_device_mapping", "img_mappings"]
PER_NODE = ["hw_numa_cpus", "hw_numa_mem"]

EXAMPLES = {
    **dict.fromkeys(INTEGERS.split(), ("4", 4)),
    **dict.fromkeys(TEXTS.split(), ("some text", "some text")),
    **dict.fromkeys(BOOLEANS.split(), ("true", True)),
    **{name: (words.split()[0], words.split()[0]) for name, words in ONE_OF.items()},
    **{name: ([{"a": "b"}], ({"a": "b"},)) for name in MAP_LISTS},
    "img_hv_requested_version": (">=6.0", ">=6.0"),
    "traits_required": (["CUSTOM_GOLD"], ("CUSTOM_GOLD",)),
}
"""Property -> a raw value and what becomes of it, for all that are not written per node."""


def take(name, value):
    return parse_properties({name: value})[name]


def refusal(**properties):
    with pytest.raises(ImagePropertyError) as caught:
        parse_properties(properties)
    return caught.value


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


# --- integers, texts, booleans ----------------------------------------------------------------------


@pytest.mark.parametrize(("raw", "number"), [("4", 4), (4, 4), ("-1", -1), (-1, -1), ("0", 0), (" 4 ", 4)])
def test_an_integer_is_read_as_python_reads_its_text(raw, number):
    assert take("hw_cpu_cores", raw) == number


@pytest.mark.parametrize("name", INTEGERS.split())
@pytest.mark.parametrize("raw", ["4.0", "x", "", 4.5, 4.0, True, [4]])
def test_what_is_no_integer_is_refused_as_one(name, raw):
    assert refusal(**{name: raw}).nova_type == "ValueError"


def test_an_integer_too_long_to_print_is_refused():
    assert refusal(hw_cpu_cores=10**5000).problem == "a number of thousands of digits is not an integer"


@pytest.mark.parametrize("name", TEXTS.split())
@pytest.mark.parametrize(("raw", "text"), [("", ""), ("any Thing", "any Thing"), (4, "4"), (1.5, "1.5")])
def test_a_text_may_be_anything_and_a_number_becomes_its_text(name, raw, text):
    assert take(name, raw) == text


@pytest.mark.parametrize("raw", [["a"], {"a": "b"}, b"a", 10**5000], ids=["list", "map", "bytes", "huge"])
def test_what_has_no_text_of_its_own_is_no_text(raw):
    assert refusal(os_distro=raw).field == "properties.os_distro"


@pytest.mark.parametrize("name", BOOLEANS.split())
@pytest.mark.parametrize("raw", ["true", "yes", "on", "1", "t", "y", "TRUE", "Yes", "oN", True, 1])
def test_a_true_word_in_any_case_is_true(name, raw):
    assert take(name, raw) is True


@pytest.mark.parametrize("raw", ["false", "no", "off", "0", "maybe", "", "truth", "2", False, 0, 2, 1.5, [], {}])
def test_everything_else_is_false_and_no_error(raw):
    assert take("hw_boot_menu", raw) is False


# --- one of -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "word"), [(name, word) for name in ONE_OF for word in ONE_OF[name].split()])
def test_each_allowed_word_is_taken_as_it_is(name, word):
    assert take(name, word) == word


@pytest.mark.parametrize("name", sorted(set(ONE_OF) - set(ANY_CASE) - {"hw_tpm_version"}))
def test_words_are_case_sensitive(name):
    assert refusal(**{name: EXAMPLES[name][0].swapcase()}).nova_type == "ValueError"


@pytest.mark.parametrize("name", ANY_CASE)
def test_some_properties_are_lower_cased_first(name):
    assert take(name, EXAMPLES[name][0].upper()) == EXAMPLES[name][1]


@pytest.mark.parametrize("name", sorted(ONE_OF))
@pytest.mark.parametrize("raw", ["", "bogus", " ", 4, 2.0, True, ["virtio"]])
def test_a_word_outside_the_list_is_refused(name, raw):
    assert refusal(**{name: raw}).field == f"properties.{name}"


@pytest.mark.parametrize("name", ["hw_architecture", "hw_emulation_architecture"])
@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("i386", "i686"),
        ("i486", "i686"),
        ("i586", "i686"),
        ("x86_32", "i686"),
        ("x86_32p", "i686"),
        ("amd64", "x86_64"),
        ("AMD64", "x86_64"),
    ],
)
def test_an_architecture_gets_its_canonical_name(name, raw, canonical):
    assert take(name, raw) == canonical


@pytest.mark.parametrize("raw", ["x86", "arm64", ""])
def test_an_architecture_outside_the_list_is_refused(raw):
    assert refusal(hw_architecture=raw).nova_type == "ValueError"


@pytest.mark.parametrize(
    ("name", "raw", "canonical"),
    [
        ("img_hv_type", "xapi", "xen"),
        ("img_hv_type", "XAPI", "xen"),
        ("hw_vm_mode", "pv", "xen"),
        ("hw_vm_mode", "hv", "hvm"),
        ("hw_vm_mode", "baremetal", "hvm"),
        ("hw_vif_model", "VirtualE1000", "e1000"),
        ("hw_vif_model", "VirtualE1000e", "e1000e"),
        ("hw_vif_model", "VirtualPCNet32", "pcnet"),
        ("hw_vif_model", "VirtualSriovEthernetCard", "sriov"),
        ("hw_vif_model", "VirtualVmxnet", "vmxnet"),
        ("hw_vif_model", "VirtualVmxnet3", "vmxnet3"),
        ("hw_scsi_model", "lsiLogicsas", "lsisas1068"),
        ("hw_scsi_model", "paraVirtual", "vmpvscsi"),
    ],
)
def test_another_spelling_gives_the_canonical_word(name, raw, canonical):
    assert take(name, raw) == canonical


# --- versions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", [">=6.0", ">=1.0, <2.0", "> 6", "!=6.2.0", "== 7", " <=2 ,>1 ", ">=2.12,<=6.2.1"])
def test_a_version_predicate_is_kept_as_it_is_written(raw):
    assert take("img_hv_requested_version", raw) == raw


@pytest.mark.parametrize("raw", ["6.0", "", "~=6", ">=", ">=x", ">=6.0,", ">=6.0 <7", "=6", ">=6.", ">=-1", 6.0])
def test_what_is_no_version_predicate_is_refused(raw):
    assert refusal(img_hv_requested_version=raw).nova_type == "ValueError"


def test_a_predicate_is_read_as_operators_and_numbers():
    assert parse_version_predicate(">=6.0, <7") == ((">=", (6, 0)), ("<", (7,)))


@pytest.mark.parametrize(
    ("text", "version", "holds"),
    [
        (">=6.0,<6.2", (6, 2, 1), False),
        ("<=6.2", (6, 2, 1), False),
        ("> 6", (6, 2, 1), True),
        (">=6.0, <7", (6, 2, 1), True),
        ("==6.2", (6, 2, 0), True),
        ("==6.2.0", (6, 2), True),
        ("!=6.2.0.0", (6, 2), False),
        (">6.2", (6, 2, 0), False),
        (">=6.2.0", (6, 2), True),
        ("<6.10", (6, 9), True),
        ("==0", (0, 0, 0), True),
        (">0", (0, 0, 1), True),
    ],
)
def test_versions_are_compared_number_by_number_without_zeros_at_the_end(text, version, holds):
    assert version_satisfies(version, parse_version_predicate(text)) is holds


def test_no_comparisons_hold_for_every_version():
    assert version_satisfies((1,), ())


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


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("3", {3}),
        ("0-3", {0, 1, 2, 3}),
        ("1-4,^2", {1, 3, 4}),
        ("^2,1-4", {1, 3, 4}),
        ("0-7,^2-5", {0, 1, 6, 7}),
        (" 1 , 3 - 4 ", {1, 3, 4}),
        ("1,,2,", {1, 2}),
        ("2-2", {2}),
        ("^2", set()),
        ("", set()),
    ],
)
def test_a_cpu_set_is_a_list_of_numbers_ranges_and_exclusions(text, cpus):
    assert parse_cpu_set(text) == cpus


def test_a_cpu_set_of_one_may_be_a_number():
    assert parse_properties({"hw_numa_cpus.0": 3}).hw_numa_cpus == (frozenset({3}),)


@pytest.mark.parametrize("text", ["x", "3-1", "-1", "1-", "1-2-3", "^", "^^1", "1;2", "0x1", "1.0", [1], True, 1.5])
def test_a_cpu_set_that_cannot_be_read_is_an_invalid_in_nova(text):
    error = refusal(**{"hw_numa_cpus.0": text})
    assert (error.field, error.nova_type) == ("properties.hw_numa_cpus.0", "Invalid")


@pytest.mark.parametrize("text", ["65536", "0-999999999", "0-99999999999999999999"])
def test_a_cpu_set_stays_below_65536_cpus(text):
    assert refusal(**{"hw_numa_cpus.0": text}).nova_type == "Invalid"


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
