# SPDX-License-Identifier: Apache-2.0
"""The image properties of the specification with examples of their values, and helpers that parse one property."""

from __future__ import annotations

import pytest

from roost.model.image import parse_properties
from roost.model.image_property_values import ImagePropertyError

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
