# SPDX-License-Identifier: Apache-2.0
"""Random inputs: noise, good values, good values with mistakes in them, and what is far too large or too deep."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from roost.model.image_property_table import CONVERTERS, CONVERTERS_PER_NODE, LEGACY_NAMES

NUMBERS = (
    "0 1 2 4 8 -1 +3 007 1.5 -0.0 1e3 1e309 nan NaN inf -Infinity 1_000 0x10 4.0 65535 65536 9223372036854775808"
    " \u0663 \uff11\uff12 \u00b2 \u00bd"  # digits of other scripts, and what only looks like digits
).split()
"""Texts that are numbers to somebody."""

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
"""A good request with everything in it."""


# --- texts -------------------------------------------------------------------------------------------


def noise(chance: Random) -> str:
    """Any characters: letters, signs, blanks, NUL, other scripts, halves of surrogate pairs."""
    alphabets = (
        "abcxyz",
        "0123456789",
        " \t\n\r\0",
        "^-,:.=<>[]{}\"'$/%\\",
        "äßΩ漢字٣²\u2028",
        "\ud800\udfff\U0001f600",
    )
    return "".join(chance.choice(chance.choice(alphabets)) for _ in range(chance.randrange(12)))


def huge(chance: Random) -> str:
    """Very long, of one kind or of one pattern."""
    patterns = (
        "9",
        "a",
        ",",
        "^",
        " ",
        "0-65535,",
        "1-2,",
        "[",
        '{"a":',
        "<or> x ",
        "gpu:1,",
        "(",
        "\\",
        "ä",
        "1.",
        "$x.",
    )
    return chance.choice(patterns) * chance.choice((100, 1000, 4301, 10_000, 100_000))


def mutated(chance: Random, text: str) -> str:
    """The text with a mistake or two in it."""
    for _ in range(chance.randint(1, 2)):
        at = chance.randrange(len(text) + 1)
        end = min(len(text), at + chance.randint(1, 3))
        text = chance.choice(
            (
                text[:at] + text[end:],
                text[:at] + noise(chance) + text[at:],
                text[:at] + text[at:end] * chance.randint(2, 40) + text[end:],
                text[:at] + chance.choice(NUMBERS) + text[end:],
                text.swapcase(),
                text[::-1],
                f" {text}\n",
                text + text,
            )
        )
    return text


def text(chance: Random, good: Sequence[str] = ()) -> str:
    """A text for a place where one of the good ones belongs."""
    dice = chance.random()
    if dice < 0.3 and good:
        return chance.choice(good)
    if dice < 0.55 and good:
        return mutated(chance, chance.choice(good))
    if dice < 0.7:
        return chance.choice(NUMBERS)
    if dice < 0.8:
        return chance.choice(WORDS)
    if dice < 0.9:
        return " ".join([chance.choice(OPERATORS), *(chance.choice(NUMBERS) for _ in range(chance.randrange(3)))])
    return huge(chance) if dice < 0.93 else noise(chance)


# --- values ------------------------------------------------------------------------------------------


def deep(chance: Random, inner: Any = None) -> Any:
    """Nested far deeper than anybody means to."""
    for _ in range(chance.choice((10, 50, 70, 300, 900, 3000))):
        inner = [inner] if chance.random() < 0.5 else {"a": inner}
    return inner


def value(chance: Random, depth: int = 3) -> Any:
    """Anything that JSON can say."""
    dice = chance.random()
    if dice < 0.35:
        return text(chance)
    if dice < 0.6:
        return chance.choice(
            (
                0,
                1,
                2,
                -1,
                3.5,
                1e300,
                float("nan"),
                float("inf"),
                10**15,
                10**16,
                10**400,
                -(2**63),
                True,
                False,
                None,
            )
        )
    if dice < 0.61:
        return deep(chance)
    if dice < 0.62:
        return 10**4299 if chance.random() < 0.5 else list(range(chance.choice((1000, 20_000))))
    if not depth or dice < 0.7:
        return chance.choice(([], {}, "", None))
    if dice < 0.85:
        return [value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {noise(chance): value(chance, depth - 1) for _ in range(chance.randrange(4))}


def extra_specs(chance: Random) -> dict[str, str]:
    """Extra specs of a flavor; sometimes a key is not one."""
    found = {}
    for _ in range(chance.randrange(5)):
        key = chance.choice(list(EXTRA_SPECS))
        found[mutated(chance, key) if chance.random() < 0.1 else key] = text(chance, EXTRA_SPECS[key])
    return found


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


def image_properties(chance: Random) -> dict[str, Any]:
    """Raw properties of an image."""
    names = [
        *CONVERTERS,
        *LEGACY_NAMES,
        *(f"{name}.0" for name in CONVERTERS_PER_NODE),
        "vmware_adaptertype",
        "trait:X",
    ]
    found: dict[str, Any] = {}
    for _ in range(chance.randrange(5)):
        name = chance.choice(names)
        good = GOOD_PROPERTIES.get(name.removesuffix(".0"), WORDS)
        dice = chance.random()
        found[name] = chance.choice(good) if dice < 0.6 else text(chance, WORDS) if dice < 0.8 else value(chance)
    return found


def written(data: Any) -> str:
    """As JSON text; what json itself cannot write, as something that it cannot read."""
    try:
        return json.dumps(data)
    except RecursionError:
        return "[" * 3000


def query(chance: Random) -> str:
    """Text for the hint `query`: mostly JSON, mostly of the right shape."""
    dice = chance.random()
    if dice < 0.7:
        return written(call(chance, 4))
    if dice < 0.8:
        return mutated(chance, written(call(chance, 2)))
    if dice < 0.85:
        levels = chance.choice((10, 63, 64, 65, 200, 990, 5000))
        return '["and", ' * levels + "true" + "]" * levels
    if dice < 0.87:
        levels = chance.choice((100, 400, 900))
        return '["=", ' + ", ".join(['{"a": ' * levels + "1" + "}" * levels] * 2) + "]"
    if dice < 0.89:
        return '["in", ' + ", ".join(["1"] * chance.choice((100, 20_000, 40_000))) + "]"
    return written(value(chance)) if dice < 0.95 and chance.random() < 0.9 else text(chance)


def call(chance: Random, depth: int) -> Any:
    """An operator and its arguments."""
    if not depth or chance.random() < 0.3:
        leaves = (lambda: chance.choice(QUERY_NAMES), lambda: value(chance, 1), lambda: chance.randrange(10_000))
        return chance.choice(leaves)()
    operator = chance.choice(("and", "or", "not", "=", "<", ">", "<=", ">=", "in", "in", "!=", value(chance, 0)))
    return [operator, *(call(chance, depth - 1) for _ in range(chance.randrange(4)))]


def hints(chance: Random) -> dict[str, Any]:
    """Scheduler hints: one text, none, or several."""
    found: dict[str, Any] = {}
    for _ in range(chance.randrange(3)):
        name = chance.choice(list(HINTS))
        texts = [text(chance, HINTS[name]) for _ in range(chance.choice((0, 1, 1, 2)))]
        found[name] = texts[0] if len(texts) == 1 and chance.random() < 0.5 else texts
    if chance.random() < 0.5:
        found["query"] = query(chance)
    return found


def request(chance: Random) -> Any:
    """A request as JSON: the good one, with some of its parts changed, gone, or replaced by anything."""
    if chance.random() < 0.02:
        return value(chance)
    found = copy.deepcopy(REQUEST)
    for name in list(found):
        if name != "flavor" and chance.random() < 0.4:
            del found[name]
    if "instance_group" in found:
        found["instance_group"]["policy"] = chance.choice(("affinity", "anti-affinity", "legacy", None))
    if chance.random() < 0.5:
        found["flavor"]["extra_specs"] = extra_specs(chance)
        found["image"] = {"id": "image1", "disk_format": "raw", "properties": image_properties(chance)}
        found["scheduler_hints"] = hints(chance)
        return found
    for _ in range(chance.randint(1, 3)):
        change(chance, *somewhere(chance, found))
    return found


def change(chance: Random, place: Any, key: Any) -> None:
    """One thing in a mapping or a list is gone, or another, or there is one more."""
    dice = chance.random()
    if dice < 0.15:
        del place[key]
    elif dice < 0.3 and isinstance(place, dict):
        place[chance.choice((noise(chance), mutated(chance, str(key))))] = value(chance)
    elif dice < 0.5 and isinstance(place[key], str):
        place[key] = mutated(chance, place[key])
    elif dice < 0.7 and isinstance(place[key], int):
        place[key] = chance.choice((0, 1, 2, 3, 8, 64, 10**6, 10**15))
    else:
        place[key] = value(chance)


def somewhere(chance: Random, root: dict[str, Any]) -> tuple[Any, Any]:
    """A mapping or list inside, and one of its keys."""
    place: Any = None
    inside: Any = root or {"": None}
    while isinstance(inside, (dict, list)) and inside and (place is None or chance.random() < 0.6):
        place = inside
        key = chance.choice(list(inside)) if isinstance(inside, dict) else chance.randrange(len(inside))
        inside = place[key]
    return place, key


ALIAS = {
    "name": "gpu",
    "vendor_id": "10de",
    "product_id": "1eb8",
    "device_type": "type-PF",
    "numa_policy": "required",
    "live_migratable": "yes",
}


def pci_aliases(chance: Random) -> list[str]:
    """Lines of option [pci] alias."""
    lines = []
    for _ in range(chance.randint(1, 3)):
        alias: dict[str, Any] = {name: each for name, each in ALIAS.items() if chance.random() < 0.95}
        if chance.random() < 0.2:
            alias[chance.choice(list(ALIAS))] = value(chance)
        line = written(alias)
        lines.append(mutated(chance, line) if chance.random() < 0.1 else line)
    return lines


MAKERS: Mapping[str, Callable[[Random], Any]] = {
    "extra_specs": extra_specs,
    "image_properties": image_properties,
    "hints": hints,
    "pci_aliases": pci_aliases,
    "request": request,
}
"""Kind of input -> who makes it."""
