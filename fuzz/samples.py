# SPDX-License-Identifier: Apache-2.0
"""Valid values that the fuzzer mutates: numbers, words, extra specs, hints, image properties, a whole request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

NUMBERS = (
    "0 1 2 4 8 -1 +3 007 1.5 -0.0 1e3 1e309 nan NaN inf -Infinity 1_000 0x10 4.0 65535 65536 9223372036854775808"
    " \u0663 \uff11\uff12 \u00b2 \u00bd"  # digits of other scripts, and characters that look like digits
).split()
"""Texts that some parsers accept as numbers."""

WORDS = (
    "true false yes no on off t 1.2 2.0 required forbidden dedicated shared mixed prefer require isolate share legacy"
    " preferred socket small large any uefi bios q35 kvm xen hvm x86_64 amd64 virtio luks plain trusted unknown a,b"
).split()

OPERATORS = "= == != >= <= s== s!= s< s<= s> s>= <in> <all-in> <or> > <".split()

EXTRA_SPECS: dict[str, Sequence[str]] = {
    "hw:cpu_policy": ("dedicated", "shared", "mixed"),
    "hw:cpu_thread_policy": ("prefer", "require", "isolate"),
    "hw:cpu_dedicated_mask": ("^0", "1-3", "0,2"),
    "hw:cpu_realtime": ("yes", "no"),
    "hw:cpu_realtime_mask": ("^0", "1-3"),
    "hw:emulator_threads_policy": ("share", "isolate"),
    "hw:mem_page_size": ("small", "large", "any", "2048", "2MB", "1GB", "4KiB"),
    "hw:locked_memory": ("true", "false"),
    "hw:mem_encryption": ("true", "false"),
    "hw:pmem": ("small", ""),
    "hw:numa_nodes": ("1", "2", "4"),
    "hw:numa_cpus.0": ("0-1", "0", "0,1"),
    "hw:numa_cpus.1": ("2-3", "1-3"),
    "hw:numa_mem.0": ("1024", "512"),
    "hw:numa_mem.1": ("1024", "3072"),
    "hw:pci_numa_affinity_policy": ("legacy", "required", "preferred", "socket"),
    "pci_passthrough:alias": ("gpu:1", "nic:2", "gpu:1,nic:1", " gpu :2"),
    "hw:maxphysaddr_bits": ("46", "52"),
    "hw:virtio_packed_ring": ("true", "no"),
    "hw:ephemeral_encryption": ("true", "no"),
    "hw:ephemeral_encryption_format": ("luks", "plain"),
    "hw:sound_model": ("virtio", "usb"),
    "hw:tpm_version": ("1.2", "2.0"),
    "hw:tpm_model": ("tpm-tis", "tpm-crb"),
    "hw:tpm_secret_security": ("user", "host"),
    "accel:device_profile": ("gpu",),
    "resources:VCPU": ("2", "0"),
    "resources1:PCPU": ("4", "1"),
    "resources:CUSTOM_THING": ("1",),
    "trait:HW_CPU_HYPERTHREADING": ("required", "forbidden"),
    "trait1:CUSTOM_X": ("required",),
    "trust:trusted_host": ("trusted", "unknown"),
    "capabilities:hypervisor_type": ("QEMU", "s== QEMU", "<or> QEMU <or> KVM"),
    "capabilities:cpu_info:arch": ("x86_64", "<in> 86"),
    "capabilities:cpu_info:maxphysaddr:bits": (">= 40",),
    "capabilities:stats:gpu": (">= 1",),
    "capabilities:numa_topology:cells": ("x",),
    "free_ram_mb": (">= 1024", "== 8192"),
    "host": ("a", "s!= b"),
    "gpu": (">= 1", "2"),
    "ssd": ("true", "<or> true <or> yes"),
    "aggregate_instance_extra_specs:max_io_ops_per_host": (">= 2",),
}

QUERY_NAMES = (
    "$free_ram_mb $stats.gpu $host $service.disabled $nosuch $ $.. $stats. $cpu_info.arch $instances.u1.uuid"
    " $numa_topology $pci_stats $aggregates $limits.x $supported_instances $metrics"
).split()

HINTS: dict[str, Sequence[str]] = {
    "different_host": ("u1", "u9"),
    "same_host": ("u1", "u3"),
    "build_near_host_ip": ("10.4.7.1", "fd00::1", "10.4"),
    "cidr": ("/24", "/64", "/255.255.0.0"),
    "_nova_check_type": ("rebuild",),
    "group": ("g1",),
}

REQUEST: dict[str, Any] = {
    "flavor": {
        "id": 3,
        "name": "m1",
        "vcpus": 4,
        "memory_mb": 2048,
        "root_gb": 10,
        "ephemeral_gb": 0,
        "swap": 512,
        "extra_specs": {"hw:numa_nodes": "2", "ssd": "true"},
    },
    "image": {"id": "image1", "disk_format": "qcow2", "properties": {"hw_architecture": "x86_64", "os_distro": "x"}},
    "num_instances": 2,
    "instance_uuid": "u1",
    "project_id": "p1",
    "availability_zone": "az1",
    "scheduler_hints": {"query": ['["=", 1, 1]'], "same_host": ["u1"]},
    "instance_group": {
        "policy": "anti-affinity",
        "members": ["u1"],
        "hosts": ["a"],
        "rules": {"max_server_per_host": "2"},
    },
    "ignore_hosts": ["c"],
    "force_hosts": None,
    "force_nodes": None,
    "requested_destination": {"host": "a", "node": None, "cell": "cell1"},
    "retry": {"num_attempts": 2, "hosts": [["a", "a"]]},
    "is_bfv": False,
    "pci_requests": [
        {
            "count": 1,
            "spec": [{"vendor_id": "10de", "product_id": "1eb8"}],
            "numa_policy": "legacy",
            "request_id": "r",
        }
    ],
    "numa_topology": {
        "cells": [
            {"id": 0, "cpuset": [0], "pcpuset": [1], "memory": 512, "pagesize": None, "cpu_policy": "mixed"},
            {"id": 1, "cpuset": [2], "pcpuset": [3], "memory": 512, "pagesize": -1, "cpu_policy": "mixed"},
        ],
        "emulator_threads_policy": "isolate",
    },
}
"""A valid request with all fields."""

GOOD_PROPERTIES = {
    "hw_architecture": ("x86_64", "amd64", "aarch64"),
    "architecture": ("x86_64", "amd64"),
    "hypervisor_type": ("kvm", "xapi"),
    "img_hv_type": ("kvm", "qemu", "xapi"),
    "hw_vm_mode": ("hvm", "xen", "pv"),
    "hw_cpu_policy": ("dedicated", "shared", "mixed"),
    "hw_cpu_thread_policy": ("prefer", "require", "isolate"),
    "hw_disk_bus": ("virtio", "scsi"),
    "hw_vif_model": ("e1000", "VirtualE1000"),
    "hw_viommu_model": ("intel", "auto"),
    "hw_pci_numa_affinity_policy": ("required", "socket"),
    "hw_ephemeral_encryption_format": ("luks", "plain"),
    "hw_sound_model": ("virtio", "usb"),
    "hw_tpm_version": ("1.2", "2.0"),
    "hw_tpm_model": ("tpm-tis", "tpm-crb"),
    "os_type": ("linux", "windows"),
    "hw_numa_cpus": ("0-1", "0"),
    "hw_numa_mem": ("1024", 512),
    "img_hv_requested_version": (">=6.0,<7", "==1"),
    "hw_maxphysaddr_bits": (46, "52"),
    "traits_required": (["T1"], []),
    "img_mappings": ([{"virtual": "root", "device": "sda"}],),
    "img_block_device_mapping": ([{"device_name": "vda"}],),
    "hw_mem_page_size": ("2048", "any"),
    "hw_numa_nodes": ("2", 1),
}

ALIAS = {
    "name": "gpu",
    "vendor_id": "10de",
    "product_id": "1eb8",
    "device_type": "type-PF",
    "numa_policy": "required",
    "live_migratable": "yes",
}
