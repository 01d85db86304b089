# SPDX-License-Identifier: Apache-2.0
"""The servers of a lost host, as requests to place them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from roost.errors import BadInput, FieldError, UnsupportedPolicy
from roost.hosts import HostTable
from roost.hosts.instances import Instance, flavors_by_key
from roost.model.flavor import Flavor
from roost.model.group import ServerGroup
from roost.model.image import Image, parse_properties
from roost.model.request import RequestSpec
from roost.model.resources import DISK_GB, MEMORY_MB, VCPU

Prepare = Callable[[RequestSpec], RequestSpec]
"""Completes a request before hosts are chosen; BadInput for an impossible one, UnsupportedPolicy among that."""


@dataclass(frozen=True)
class Displaced:
    """The servers of one host."""

    requests: tuple[RequestSpec, ...]
    """To place them again, the largest first: by memory, then CPUs, then disk."""
    unknown: int
    """How many servers there are besides, of which neither flavor nor size is known, or no valid request comes."""
    has_unlisted_use: bool
    """Whether more memory or CPUs of the host are in use than these servers account for."""


def displaced_servers(table: HostTable, row: int, group_of: Mapping[str, ServerGroup], prepare: Prepare) -> Displaced:
    """The servers on a row of the table. `group_of`: instance uuid -> its server group.

    The zone and the hints that a server was asked for with are not recorded on its host: it may go anywhere.
    """
    instances = list(table.instances.get(row, {}).values())
    found = (_request_for(table, each, group_of.get(each.uuid), prepare) for each in instances)
    requests = sorted((spec for spec in found if spec is not None), key=_largest_first)
    has_unlisted_use = _has_unlisted_use(table, row, requests)
    return Displaced(tuple(requests), len(instances) - len(requests), has_unlisted_use)


def _request_for(
    table: HostTable, instance: Instance, group: ServerGroup | None, prepare: Prepare
) -> RequestSpec | None:
    """A request for a server as it is; None where its size is not known, or its flavor not valid."""
    flavor = _flavor_of(table, instance)
    if flavor is None:
        return None
    local_gb = flavor.ephemeral_gb + -(-flavor.swap // 1024)
    spec = RequestSpec(
        flavor=flavor,
        image=_image_of(instance),
        instance_uuid=instance.uuid,
        project_id=instance.project_id,
        is_bfv=bool(instance.resources and flavor.root_gb and instance.resources.get(DISK_GB, 0) == local_gb),
    )
    try:
        return prepare(spec if group is None else spec.with_group(group))
    except UnsupportedPolicy:  # no enabled plugin enforces it
        return prepare(spec)
    except BadInput:
        return None


def _flavor_of(table: HostTable, instance: Instance) -> Flavor | None:
    """The flavor of a server, or one of the size of what it holds; None where both are unknown."""
    known = instance.flavor or flavors_by_key(table.flavors).get(instance.flavor_id)
    if known is not None or not instance.resources:
        return known
    held = dict(instance.resources)
    vcpus, memory_mb, disk_gb = (held.pop(name, 0) for name in (VCPU, MEMORY_MB, DISK_GB))
    others = {f"resources:{name}": str(amount) for name, amount in held.items()}
    return Flavor(vcpus, memory_mb, disk_gb, extra_specs=others)


def _image_of(instance: Instance) -> Image | None:
    if not (instance.image_ref or instance.image_props):
        return None
    try:
        return Image(id=instance.image_ref, properties=parse_properties(instance.image_props))
    except FieldError:  # a property that only another release of nova knows
        return Image(id=instance.image_ref)


def _largest_first(spec: RequestSpec) -> tuple[int, int, int, str]:
    memory_mb, vcpus, disk_gb = (spec.amounts.get(name, 0) for name in (MEMORY_MB, VCPU, DISK_GB))
    return -memory_mb, -vcpus, -disk_gb, str(spec.instance_uuid)


def _has_unlisted_use(table: HostTable, row: int, requests: list[RequestSpec]) -> bool:
    if table.is_bare_metal[row]:
        return False
    columns = {name: f"allocated:{name}" for name in (VCPU, MEMORY_MB)}
    used = {name: table.buffers[column][row] for name, column in columns.items() if column in table.numbers}
    return any(amount > sum(spec.amounts.get(name, 0) for spec in requests) for name, amount in used.items())
