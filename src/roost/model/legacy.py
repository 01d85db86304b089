# SPDX-License-Identifier: Apache-2.0
"""A request in the form that filters written before Mitaka expect: the filter_properties dict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roost.model.flavor import Flavor
    from roost.model.request import RequestSpec


def as_filter_properties(spec: RequestSpec) -> dict[str, Any]:
    """The whole dict, with the request_spec dict inside it."""
    hints = {name: spec.get_scheduler_hint(name) for name in spec.scheduler_hints}
    request = as_request_spec(spec)
    properties: dict[str, Any] = {
        "instance_type": request["instance_type"],
        "scheduler_hints": hints,
        "instance_properties": request["instance_properties"],
        "request_spec": request,
        "project_id": spec.project_id,
        "os_type": request["instance_properties"]["os_type"],
        "ignore_hosts": list(spec.ignore_hosts or ()),
        "force_hosts": list(spec.force_hosts or ()),
        "force_nodes": list(spec.force_nodes or ()),
        "limits": {},
        "config_options": {},
    }
    if spec.retry:
        tried = [list(pair) for pair in spec.retry.hosts]
        properties["retry"] = {"num_attempts": spec.retry.num_attempts, "hosts": tried}
    if group := spec.instance_group:
        properties |= {
            "group_updated": True,
            "group_uuid": group.uuid,
            "group_hosts": set(group.hosts),
            "group_policies": {group.policy},
            "group_members": set(group.members),
        }
    return properties


def as_request_spec(spec: RequestSpec) -> dict[str, Any]:
    """The inner dict: image, flavor and the properties of the (first) instance."""
    image = spec.image
    image_properties = image.properties.to_dict() if image else {}
    flavor = _flavor_dict(spec.flavor)
    return {
        "image": {"id": image.id, "name": image.name, "properties": image_properties} if image else {},
        "instance_properties": {
            "uuid": spec.instance_uuid,
            "project_id": spec.project_id,
            "user_id": spec.user_id,
            "availability_zone": spec.availability_zone,
            "os_type": image_properties.get("os_type"),
            "image_ref": image.id if image else None,
            "system_metadata": {},
            **{size: flavor[size] for size in ("memory_mb", "vcpus", "root_gb", "ephemeral_gb")},
        },
        "instance_type": flavor,
        "num_instances": spec.num_instances,
        "instance_uuids": [spec.instance_uuid] if spec.instance_uuid else [],
    }


def _flavor_dict(flavor: Flavor) -> dict[str, Any]:
    sizes = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name", "id", "flavorid")
    return {name: getattr(flavor, name) for name in sizes} | {"extra_specs": dict(flavor.extra_specs)}
