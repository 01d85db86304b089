# SPDX-License-Identifier: Apache-2.0
"""Requests of many kinds, drawn from a seed, for a cloud with some servers on it."""

import random
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from tests.nova_stack.asking import request

PLAIN = ("1,512,1", "2,2048,10", "4,8192,20", "8,16384,50", "1,30000,1", "12,512,1", "1,512,300")
SMALL = PLAIN[:3]
EXTRA_SPECS = (
    {"aggregate_instance_extra_specs:disk": "ssd"},
    {"aggregate_instance_extra_specs:disk": "tape"},
    {"capabilities:hypervisor_type": "fake"},
    {"capabilities:hypervisor_type": "s!= fake"},
    {"capabilities:free_ram_mb": ">= 20000"},
    {"capabilities:vcpus_total": "= 16"},
    {"trait:COMPUTE_NODE": "required"},
    {"trait:COMPUTE_NODE": "forbidden"},
    {"trait:HW_CPU_X86_AVX512F": "required"},
    {"resources:VCPU": "6"},
    {"resources:MEMORY_MB": "40000"},
)
IMAGE_PROPERTIES = (
    {"hw_architecture": "x86_64"},
    {"hw_architecture": "aarch64"},
    {"img_hv_type": "fake"},
    {"img_hv_type": "qemu"},
    {"hw_architecture": "x86_64", "img_hv_type": "fake", "hw_vm_mode": "hvm"},
)
NUMA = (
    {"hw:numa_nodes": "1"},
    {"hw:numa_nodes": "2"},
    {"hw:numa_nodes": "4"},
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
    {"hw:mem_page_size": "small"},
    {"hw:mem_page_size": "large"},
)


NAMING = {"ignore_hosts", "force_hosts", "destination"}
"""What a request says of hosts by name."""


class State(NamedTuple):
    """What requests can name."""

    hosts: list
    servers: dict
    """uuid -> host."""
    groups: dict
    """policy -> uuid of a server group."""
    members: dict
    """uuid of a server group -> hosts of its members."""


def make_requests(state, count, seed) -> Iterator[tuple]:
    """Kind of the request, and a function that makes it, each time for a new server."""
    rng = random.Random(seed)
    kinds = list(KINDS.items())
    for number in range(count):
        kind, choose = kinds[number % len(kinds)]
        chosen = choose(state, rng)
        if not NAMING & chosen.keys() and rng.random() < 0.5:  # or the best host would be the answer to most
            chosen["ignore_hosts"] = rng.sample(state.hosts, rng.randint(1, 5))
        yield kind, partial(request, **chosen)


def choose_plain(state, rng):
    return {"size": rng.choice(PLAIN)}


def choose_impossible(state, rng):
    return {"size": rng.choice(("4096,512,1", "1,9999999,1", "1,512,99999"))}


def choose_extra_specs(state, rng):
    return {"size": rng.choice(SMALL), "extra_specs": rng.choice(EXTRA_SPECS)}


def choose_image(state, rng):
    return {"size": rng.choice(SMALL), "image_properties": rng.choice(IMAGE_PROPERTIES)}


def choose_zone(state, rng):
    return {"size": rng.choice(SMALL), "zone": rng.choice(("zone-a", "nova", "nowhere"))}


def choose_group(state, rng):
    uuid = state.groups[rng.choice(sorted(state.groups))]
    return {
        "size": rng.choice(SMALL),
        "group": {"uuid": uuid, "hosts": sorted(set(state.members[uuid]))},
        "hints": {"group": [uuid]},
    }


def choose_hint(state, rng):
    servers = rng.sample(sorted(state.servers), rng.randint(1, 3))
    return {"size": rng.choice(SMALL), "hints": {rng.choice(("same_host", "different_host")): servers}}


def choose_ignored(state, rng):
    return {"size": rng.choice(SMALL), "ignore_hosts": rng.sample(state.hosts, rng.randint(1, 7))}


def choose_forced(state, rng):
    return {"size": rng.choice(PLAIN), "force_hosts": [rng.choice(state.hosts)]}


def choose_destination(state, rng):
    return {"size": rng.choice(PLAIN), "destination": rng.choice(state.hosts)}


def choose_numa(state, rng):
    return {"size": rng.choice(("4,2048,1", "8,4096,1")), "extra_specs": rng.choice(NUMA)}


KINDS = {
    "size": choose_plain,
    "too big": choose_impossible,
    "extra specs": choose_extra_specs,
    "image": choose_image,
    "zone": choose_zone,
    "server group": choose_group,
    "same or different host": choose_hint,
    "ignored hosts": choose_ignored,
    "forced host": choose_forced,
    "named host": choose_destination,
    "NUMA and pinned CPUs": choose_numa,
}
