# SPDX-License-Identifier: Apache-2.0
"""Random requests: a few shapes that come again and again, some of which differ in a single field."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.parity.random_fleets import ADDRESSES, CLASSES, DEVICES, UUIDS

from roost.model import Destination, Flavor, Image, RequestSpec, Retry, ServerGroup
from roost.model.group import GROUP_POLICIES
from roost.model.numa import derive_topology
from roost.model.pci import PciRequest
from roost.model.request import RequestGroup, RequestLevelParams

Dice = random.Random
Names = Sequence[tuple[str, str]]
"""(host, node) of every row of the table."""

EXTRA_SPECS: tuple[dict[str, str], ...] = (
    {"ssd": "true"},
    {"aggregate_instance_extra_specs:ssd": "<or> true <or> false"},
    {"hypervisor_type": "QEMU"},
    {"capabilities:cpu_info:arch": "x86_64"},
    {"capabilities:free_ram_mb": ">= 2048"},
    {"gpu": ">= 1"},
    {"trait:CUSTOM_FAST": "required"},
    {"trait:CUSTOM_OLD": "forbidden"},
    {"trust:trusted_host": "trusted"},
    {"resources:CUSTOM_FPGA": "1"},
    {"resources:VGPU": "1", "resources:CUSTOM_FPGA": "2"},
    {"resources:VCPU": "0", "resources:MEMORY_MB": "256"},
    {"accel:device_profile": "gpu"},
)
ROOT_TRAITS = ("CUSTOM_FAST", "CUSTOM_OLD", "COMPUTE_ACCELERATORS")
AGGREGATE_UUIDS = tuple(f"uuid-of-agg{number}" for number in range(1, 6))
TOPOLOGIES: tuple[dict[str, str], ...] = (
    {"hw:numa_nodes": "1"},
    {"hw:numa_nodes": "2"},
    {"hw:cpu_policy": "dedicated"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"},
    {"hw:mem_page_size": "2048"},
)
PROPERTIES: tuple[dict[str, Any], ...] = (
    {},
    {"os_distro": "linux"},
    {"os_distro": "windows", "hw_disk_bus": "virtio"},
    {"hw_architecture": "aarch64"},
    {"img_hv_requested_version": ">=6.2.1", "img_hv_type": "kvm"},
    {"hw_maxphysaddr_bits": 42, "hw_architecture": "x86_64"},
)
QUERIES = (
    json.dumps([">=", "$free_ram_mb", 2048]),
    json.dumps(["and", ["<", "$num_io_ops", 5], ["not", "$service.disabled"]]),
    json.dumps(["=", "$stats.gpu", "1"]),
    json.dumps(["in", "$hypervisor_type", "QEMU", "KVM"]),
    json.dumps(["<", "$hypervisor_type", 3]),
    "nonsense",
)


def make_shapes(dice: Dice, names: Names, make: Callable[[], RequestSpec]) -> list[RequestSpec]:
    """Three to eight, one of them too large for any host; half of them take after one before."""
    shapes = [make()]
    for _ in range(dice.randint(1, 5)):
        shapes.append(vary(dice, names, dice.choice(shapes)) if dice.random() < 0.5 else make())
    huge = dice.choice([{"vcpus": 500}, {"memory_mb": 1_000_000}, {"root_gb": 50_000}])
    first = shapes[0]
    return [*shapes, replace(first, flavor=replace(first.flavor, **huge), numa_topology=None, pci_requests=())]


def make_shape(dice: Dice, names: Names, has_topologies: bool, has_devices: bool) -> RequestSpec:
    """Mostly with one or two conditions besides its size."""
    spec = RequestSpec(
        flavor=make_flavor(dice),
        num_instances=dice.choice([1, 1, 1, 1, 2, 3, 6]),
        project_id=dice.choice([None, "p1", "p2"]),
    )
    for _ in range(dice.choice([0, 0, 0, 1, 1, 3])):
        spec = vary(dice, names, spec)
    if has_topologies and dice.random() < 0.4:
        spec = with_topology(dice, names, spec)
    return with_devices(dice, names, spec) if has_devices and dice.random() < 0.3 else spec


def with_topology(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    flavor = replace(spec.flavor, vcpus=2, memory_mb=512, extra_specs=dice.choice(TOPOLOGIES))
    return replace(spec, flavor=flavor, image=None, numa_topology=derive_topology(flavor, None))


def with_devices(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    device, policy = dice.choice(DEVICES), dice.choice([None, None, "required", "preferred"])
    request = PciRequest(dice.choice([1, 2]), (device,), policy, request_id=dice.choice([None, "r1"]))
    return replace(spec, pci_requests=(request,))


def make_flavor(dice: Dice) -> Flavor:
    number = dice.choice([1, 2])
    return Flavor(
        vcpus=dice.choice([1, 1, 2, 4]),
        memory_mb=dice.choice([0, 256, 512, 1024]),
        root_gb=dice.choice([0, 1, 5]),
        ephemeral_gb=dice.choice([0, 0, 1]),
        swap=dice.choice([0, 0, 512, 1500]),
        name=["small", "large"][number - 1],
        id=number,
    )


# --- one thing otherwise ---------------------------------------------------------------------------------


def vary(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    """The same request with one field changed."""
    vary_one = vary_purpose if dice.random() < 0.03 else dice.choice(VARIATIONS)
    return vary_one(dice, names, spec)


def vary_size(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    field = dice.choice(["vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap"])
    return replace(spec, flavor=replace(spec.flavor, **{field: dice.choice([1, 2, 3])}))


def vary_flavor(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    other = dice.choice([{"id": 1}, {"id": 2}, {"id": None}, {"name": "small"}, {"name": "large"}])
    return replace(spec, flavor=replace(spec.flavor, **other))


def vary_extra_specs(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    """Some more of them, or the same in another order."""
    if dice.random() < 0.2:
        backwards = dict(reversed(spec.flavor.extra_specs.items()))
        return replace(spec, flavor=replace(spec.flavor, extra_specs=backwards))
    return with_extra_specs(spec, dice.choice(EXTRA_SPECS))


def with_extra_specs(spec: RequestSpec, more: Mapping[str, str]) -> RequestSpec:
    return replace(spec, flavor=replace(spec.flavor, extra_specs=dict(spec.flavor.extra_specs) | dict(more)))


def vary_image(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    disk_format = "qcow2" if dice.random() < 0.9 else None
    image = Image(id=dice.choice(["image1", "image2"]), properties=dice.choice(PROPERTIES), disk_format=disk_format)
    return replace(spec, image=dice.choice([image, image, None]))


def vary_distro(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    image = Image(properties={"os_distro": dice.choice(["linux", "windows"])}, disk_format="qcow2")
    return replace(spec, image=image)


def vary_hints(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    hints: list[dict[str, Any]] = [
        {},
        {"different_host": dice.sample(UUIDS, dice.choice([1, 3]))},
        {"same_host": dice.sample(UUIDS, dice.choice([3, 6]))},
        {"query": dice.choice(QUERIES)},
        {"build_near_host_ip": dice.choice(ADDRESSES), "cidr": dice.choice(["/24", "/16"])},
    ]
    return replace(spec, scheduler_hints=dice.choice(hints))


def vary_group(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    return vary_group_of(dice, spec, dice.choice(GROUP_POLICIES))


def vary_group_of(dice: Dice, spec: RequestSpec, policy: str) -> RequestSpec:
    """Who is in it, and where, is settled when the request is made."""
    number = dice.choice([1, 2])
    rules = {"max_server_per_host": 2} if policy == "anti-affinity" and dice.random() < 0.3 else {}
    return replace(spec, instance_group=ServerGroup(policy, uuid=f"{policy}{number}", rules=rules))


def vary_names(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    hosts = [host for host, _ in dice.sample(list(names), dice.choice([1, 3]))]
    host, node = dice.choice(names)
    fields: list[dict[str, Any]] = [
        {"ignore_hosts": [each.upper() for each in hosts]},
        {"ignore_hosts": hosts},
        {"retry": Retry(hosts=dice.sample(list(names), dice.choice([1, 3])))},
        {"retry": Retry(num_attempts=2)},
        {"requested_destination": Destination(host=host, node=dice.choice([None, node]))},
        {"requested_destination": Destination(cell="cell1", allow_cross_cell_move=dice.random() < 0.7)},
    ]
    if dice.random() < 0.2:
        fields = [{"force_hosts": hosts}, {"force_nodes": [node]}]
    return replace(spec, **dice.choice(fields))


def vary_needs(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    """What a port or a device profile brings along, or conditions on the whole host."""
    fields: list[dict[str, Any]] = [
        {"requested_resources": ()},
        {"requested_resources": [make_group(dice) for _ in range(dice.choice([1, 1, 2]))]},
        {"request_level_params": RequestLevelParams()},
        {"request_level_params": RequestLevelParams(root_required=dice.sample(ROOT_TRAITS, 1))},
        {"request_level_params": RequestLevelParams(root_forbidden=dice.sample(ROOT_TRAITS, 1))},
        {"requested_destination": make_destination(dice)},
    ]
    return replace(spec, **dice.choice(fields))


def make_group(dice: Dice) -> RequestGroup:
    amounts = {dice.choice([*CLASSES, "VCPU", "MEMORY_MB"]): dice.choice([1, 2, 64])}
    conditions: list[dict[str, Any]] = [
        {},
        {},
        {"required_traits": dice.sample(ROOT_TRAITS, 1)},
        {"forbidden_traits": dice.sample(ROOT_TRAITS, 1)},
        {"aggregates": [dice.sample(AGGREGATE_UUIDS, 2)]},
        {"forbidden_aggregates": dice.sample(AGGREGATE_UUIDS, 1)},
    ]
    return RequestGroup(dice.choice([amounts, amounts, {}]), requester_id="port1", **dice.choice(conditions))


def make_destination(dice: Dice) -> Destination:
    one, other, third = dice.sample(AGGREGATE_UUIDS, 3)
    aggregates = dice.choice([(), (one,), (f"{one},{other}",), (f"{one},{other}", third)])
    return Destination(aggregates=aggregates, forbidden_aggregates=dice.choice([(), (), (third,)]))


def vary_field(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    fields: list[dict[str, Any]] = [
        {"availability_zone": "az1"},
        {"availability_zone": "nova"},
        {"availability_zone": None},
        {"project_id": "p1"},
        {"project_id": "p2"},
        {"user_id": "somebody"},
        {"is_bfv": True},
        {"num_instances": dice.choice([1, 2, 5])},
    ]
    return replace(spec, **dice.choice(fields))


def vary_purpose(dice: Dice, names: Names, spec: RequestSpec) -> RequestSpec:
    """An instance that gets another image where it is: this only asks whether it may."""
    host, node = dice.choice(names)
    where = Destination(host=host, node=node)
    hints = dict(spec.scheduler_hints) | {"_nova_check_type": ["rebuild"]}
    return replace(spec, requested_destination=where, scheduler_hints=hints, num_instances=1)


VARIATIONS: tuple[Callable[[Dice, Names, RequestSpec], RequestSpec], ...] = (
    *(vary_size, vary_size, vary_flavor, vary_extra_specs, vary_extra_specs, vary_image, vary_image, vary_hints),
    *(vary_group, vary_group, vary_names, vary_field, vary_field, vary_field, vary_needs, vary_needs),
)
