# SPDX-License-Identifier: Apache-2.0
"""The table of image properties: names, converters of their values, and legacy names."""

from __future__ import annotations

from collections.abc import Mapping

from roost.model.image_property_values import (
    Converter,
    one_of,
    to_boolean,
    to_cpu_set,
    to_integer,
    to_map_list,
    to_text,
    to_text_list,
    to_version_predicate,
)

_ARCHITECTURE_WORDS = (
    "alpha armv6 armv7l armv7b aarch64 cris i686 ia64 lm32 m68k microblaze microblazeel mips mipsel mips64"
    " mips64el openrisc parisc parisc64 ppc ppcle ppc64 ppc64le ppcemb s390 s390x sh4 sh4eb sparc sparc64"
    " unicore32 x86_64 xtensa xtensaeb"
)
ARCHITECTURES = tuple(_ARCHITECTURE_WORDS.split())
"""The canonical names of CPU architectures."""

_to_architecture = one_of(
    _ARCHITECTURE_WORDS,
    any_case=True,
    **dict.fromkeys(("i386", "i486", "i586", "x86_32", "x86_32p"), "i686"),
    amd64="x86_64",
)
_to_bus = one_of("fdc ide sata scsi usb virtio xen lxc uml")

_BOOLEAN_PROPERTIES = """
    hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory
    hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled
    hw_virtio_packed_ring img_bdm_v2 img_bittorrent img_cache_in_nova img_hide_hypervisor_id
    img_linked_clone img_use_agent os_require_quiesce os_skip_agent_inject_files_at_boot
    os_skip_agent_inject_ssh
"""
_INTEGER_PROPERTIES = """
    hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets hw_cpu_threads
    hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports hw_serial_port_count
    hw_video_ram img_compression_level img_version
"""
_TEXT_PROPERTIES = """
    hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_ephemeral_encryption_secret_uuid
    hw_machine_type hw_mem_page_size img_owner_id img_root_device_name img_signature
    img_signature_certificate_uuid os_admin_user os_command_line os_distro
"""

CONVERTERS: Mapping[str, Converter] = {
    **dict.fromkeys(_BOOLEAN_PROPERTIES.split(), to_boolean),
    **dict.fromkeys(_INTEGER_PROPERTIES.split(), to_integer),
    **dict.fromkeys(_TEXT_PROPERTIES.split(), to_text),
    **dict.fromkeys(("hw_architecture", "hw_emulation_architecture"), _to_architecture),
    **dict.fromkeys(("hw_cdrom_bus", "hw_disk_bus", "hw_floppy_bus", "hw_rescue_bus"), _to_bus),
    "hw_cpu_policy": one_of("dedicated shared mixed"),
    "hw_cpu_thread_policy": one_of("prefer isolate require"),
    "hw_ephemeral_encryption_format": one_of("plain luks luksv2"),
    "hw_firmware_type": one_of("uefi bios"),
    "hw_input_bus": one_of("usb virtio"),
    "hw_maxphysaddr_mode": one_of("passthrough emulate"),
    "hw_mem_encryption_model": one_of("amd-sev amd-sev-es amd-sev-snp intel-tdx"),
    "hw_pci_numa_affinity_policy": one_of("required legacy preferred socket"),
    "hw_pointer_model": one_of("usbtablet"),
    "hw_rescue_device": one_of("cdrom disk floppy fs lun"),
    "hw_rng_model": one_of("virtio"),
    "hw_scsi_model": one_of(
        "buslogic ibmvscsi lsilogic lsisas1068 lsisas1078 virtio-scsi vmpvscsi",
        any_case=True,
        lsilogicsas="lsisas1068",
        paravirtual="vmpvscsi",
    ),
    "hw_sound_model": one_of("sb16 es1370 pcspk ac97 ich6 ich9 usb virtio"),
    "hw_tpm_model": one_of("tpm-tis tpm-crb"),
    "hw_tpm_version": one_of("1.2 2.0"),
    "hw_usb_model": one_of("none nec-xhci qemu-xhci"),
    "hw_video_model": one_of("cirrus qxl vga vmvga xen virtio gop none bochs"),
    "hw_vif_model": one_of(
        "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov vmxnet vmxnet3 igb",
        any_case=True,
        virtuale1000="e1000",
        virtuale1000e="e1000e",
        virtualpcnet32="pcnet",
        virtualsriovethernetcard="sriov",
        virtualvmxnet="vmxnet",
        virtualvmxnet3="vmxnet3",
    ),
    "hw_viommu_model": one_of("intel smmuv3 virtio auto"),
    "hw_vm_mode": one_of("hvm xen uml exe", any_case=True, pv="xen", hv="hvm", baremetal="hvm"),
    "hw_watchdog_action": one_of("none pause poweroff reset disabled"),
    "img_block_device_mapping": to_map_list,
    "img_config_drive": one_of("optional mandatory"),
    "img_hv_requested_version": to_version_predicate,
    "img_hv_type": one_of(
        "baremetal bhyve docker fake hyperv ironic kqemu kvm lxc lxd openvz parallels phyp qemu test uml vbox"
        " vz vmware xen zvm prsm",
        any_case=True,
        xapi="xen",
    ),
    "img_mappings": to_map_list,
    "img_signature_hash_method": one_of("SHA-224 SHA-256 SHA-384 SHA-512"),
    "img_signature_key_type": one_of(
        "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1 ECC_SECT571K1 ECC_SECT571R1 RSA-PSS"
    ),
    "os_secure_boot": one_of("required disabled optional"),
    "os_type": one_of("linux windows", any_case=True),
    "traits_required": to_text_list,
}
"""Property -> converter of its value."""

CONVERTERS_PER_NODE: Mapping[str, Converter] = {"hw_numa_cpus": to_cpu_set, "hw_numa_mem": to_integer}
"""Property with one value per NUMA node (`hw_numa_mem.0`, `hw_numa_mem.1`, ...) -> converter of one value."""

MAP_LIST_PROPERTIES = frozenset({"img_block_device_mapping", "img_mappings"})
"""Properties whose value is a list of mappings."""

PROPERTY_NAMES = frozenset((*CONVERTERS, *CONVERTERS_PER_NODE))
"""The names of all properties that are parsed; any other property of an image is dropped."""

LEGACY_NAMES: Mapping[str, str] = {
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
"""Legacy name -> modern name. If an image has a property under both names, the modern one wins."""
