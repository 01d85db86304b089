# SPDX-License-Identifier: Apache-2.0
"""A request in the form of nova releases before Mitaka: the dicts `filter_properties` and `request_spec`.

`as_...` functions make the dicts that filters of that time read: complete, plain data. `to_...` functions make the
dicts that were sent: without empty members, and with objects where nova had objects.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from roost.model.kinds import FrozenDict

if TYPE_CHECKING:
    from roost.model.flavor import Flavor
    from roost.model.image import Image
    from roost.model.request import RequestSpec


class LegacyDicts(NamedTuple):
    """The dicts that a legacy request came in, unchanged: plugins may read members that Roost does not parse."""

    request_spec: Mapping[str, Any] = FrozenDict()
    filter_properties: Mapping[str, Any] = FrozenDict()


class FlavorDict(dict[str, Any]):
    """A flavor as a dict whose members are attributes too: some nova releases sent an object instead of a dict."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the flavor has no {name!r}") from None


def as_filter_properties(spec: RequestSpec) -> dict[str, Any]:
    """The filter_properties dict that filters read, with the request_spec dict in it."""
    sent = copy.deepcopy(dict(spec.older_form.filter_properties))
    hints = {name: spec.get_scheduler_hint(name) for name in spec.scheduler_hints}
    request = as_request_spec(spec)
    properties: dict[str, Any] = {
        "os_type": request["instance_properties"]["os_type"],
        **sent,
        "instance_type": request["instance_type"],
        "scheduler_hints": hints,
        "instance_properties": request["instance_properties"],
        "request_spec": request,
        "project_id": spec.project_id,
        "ignore_hosts": list(spec.ignore_hosts or ()),
        "force_hosts": list(spec.force_hosts or ()),
        "force_nodes": list(spec.force_nodes or ()),
        "limits": spec.limits.to_dict() if spec.limits else {},
        "config_options": spec.config_options,
        "pci_requests": spec.pci_requests,
    }
    return properties | _retry_of(spec) | _group_of(spec)


def to_filter_properties(spec: RequestSpec) -> dict[str, Any]:
    """The filter_properties dict as sent next to request_spec, without empty members."""
    hints = {name: spec.get_scheduler_hint(name) for name in spec.scheduler_hints}
    properties: dict[str, Any] = {
        "ignore_hosts": list(spec.ignore_hosts or ()),
        "force_hosts": list(spec.force_hosts or ()),
        "force_nodes": list(spec.force_nodes or ()),
        "limits": spec.limits.to_dict() if spec.limits else {},
        "scheduler_hints": hints,
        "requested_destination": spec.requested_destination,
    }
    return {name: value for name, value in properties.items() if value} | _retry_of(spec) | _group_of(spec)


def _retry_of(spec: RequestSpec) -> dict[str, Any]:
    if not spec.retry:
        return {}
    tried = [[host, node or None] for host, node in spec.retry.hosts]
    return {"retry": {"num_attempts": spec.retry.num_attempts, "hosts": tried}}


def _group_of(spec: RequestSpec) -> dict[str, Any]:
    group = spec.instance_group
    if not group:
        return {}
    return {
        "group_updated": True,
        "group_uuid": group.uuid,
        "group_hosts": set(group.hosts),
        "group_policies": set(group.policies),
        "group_members": set(group.members),
    }


def to_request_spec(spec: RequestSpec) -> dict[str, Any]:
    """The request_spec dict as sent; flavor, NUMA topology and PCI requests are objects in it."""
    sizes = ("root_gb", "ephemeral_gb", "memory_mb", "vcpus")
    return {
        "num_instances": spec.num_instances,
        "image": _image_dict(spec.image) if spec.image else {},
        "instance_properties": {
            "numa_topology": spec.numa_topology,
            "pci_requests": spec.pci_requests or None,
            "project_id": spec.project_id,
            "user_id": spec.user_id,
            "availability_zone": spec.availability_zone,
            "uuid": spec.instance_uuid,
            **{size: getattr(spec, size) for size in sizes},
        },
        "instance_type": spec.flavor,
    }


def _image_dict(image: Image) -> dict[str, Any]:
    """The fields of an image that have a value, with the properties under their modern names."""
    names = ("id", "name", "status", "container_format", "disk_format", "min_ram", "min_disk", "size")
    known = {name: value for name in names if (value := getattr(image, name)) not in (None, "")}
    others = dict(image.sent.others) if image.sent else {}
    return known | others | {"properties": image.properties.to_dict()}


def as_request_spec(spec: RequestSpec) -> dict[str, Any]:
    """The request_spec dict that filters read: image, flavor and the properties of the (first) instance."""
    sent = copy.deepcopy(dict(spec.older_form.request_spec))
    return {
        **sent,
        "image": _as_image(spec.image, sent.get("image")),
        "instance_properties": _as_instance(spec, sent.get("instance_properties")),
        "instance_type": _as_flavor(spec.flavor, sent.get("instance_type")),
        "num_instances": spec.num_instances,
        "instance_uuids": sent.get("instance_uuids") or ([spec.instance_uuid] if spec.instance_uuid else []),
    }


def _as_image(image: Image | None, sent: Any) -> dict[str, Any]:
    known = {"id": image.id, "name": image.name, "properties": image.properties.to_dict()} if image else {}
    return known | _plain_dict(sent)


def _as_instance(spec: RequestSpec, sent: Any) -> dict[str, Any]:
    image, said = spec.image, _plain_dict(sent)
    for name in ("numa_topology", "pci_requests"):  # filters read objects, in whatever form they were sent
        if name in said:
            said[name] = getattr(spec, name) or None
    return {
        "os_type": image.properties.get("os_type") if image else None,
        "image_ref": image.id if image else None,
        "system_metadata": {},
        **{size: getattr(spec.flavor, size) for size in ("memory_mb", "vcpus", "root_gb", "ephemeral_gb")},
        **said,
        "uuid": spec.instance_uuid,
        **{name: getattr(spec, name) for name in ("project_id", "user_id", "availability_zone")},
    }


def _as_flavor(flavor: Flavor, sent: Any) -> FlavorDict:
    held = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name", "id", "flavorid")
    others = {name: flavor.unheld_value(name) for name in flavor.unheld}
    known = {name: getattr(flavor, name) for name in held} | {"extra_specs": dict(flavor.extra_specs)}
    return FlavorDict(others | _plain_dict(sent) | known)


def _plain_dict(sent: Any) -> dict[str, Any]:
    """A copy of the dict that was sent for a record; empty if a versioned object was sent."""
    is_plain = isinstance(sent, Mapping) and "nova_object.data" not in sent
    return dict(sent) if is_plain else {}
