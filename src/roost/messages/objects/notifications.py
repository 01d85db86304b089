# SPDX-License-Identifier: Apache-2.0
"""Notifications about a request: the legacy dict and the versioned payload, written and read.

A payload is a RequestSpec object with gaps: it lacks is_bfv, the id of the flavor, ports and request-level
parameters. A RequestSpec that nova has stored for the same instance has the first two, and is read for what the
payload does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from roost.errors import FieldError
from roost.messages.objects.envelope import DATA, NAME, VERSIONS, close_envelope, is_envelope, open_envelope
from roost.messages.objects.flavor_image_group import flavor_to_object, image_to_object, plain_properties
from roost.messages.objects.numa_pci import (
    numa_cell_to_object,
    pci_requests_to_object,
    plain_alternatives,
    topology_to_object,
)
from roost.messages.objects.request import request_from_object
from roost.messages.objects.request_parts import cell_uuid
from roost.model import Flavor, Image, RequestSpec, ServerGroup
from roost.model.fields import MAPPING
from roost.model.image import ImageProperties
from roost.model.json_records import to_json
from roost.model.numa import InstanceCell, InstanceTopology
from roost.model.pci import PciRequest
from roost.model.request import Destination, Retry

PAYLOAD_VERSIONS: Mapping[str, str] = {
    "CellMappingPayload": "2.0",
    "DestinationPayload": "1.0",
    "FlavorPayload": "1.4",
    "ImageMetaPayload": "1.0",
    "ImageMetaPropsPayload": "1.20",
    "InstanceNUMACellPayload": "1.2",
    "InstanceNUMATopologyPayload": "1.0",
    "InstancePCIRequestPayload": "1.1",
    "InstancePCIRequestsPayload": "1.0",
    "RequestSpecPayload": "1.1",
    "SchedulerRetriesPayload": "1.0",
    "ServerGroupPayload": "1.1",
    "VirtCPUTopologyPayload": "1.0",
}

_FLAVOR_NAMES = (
    *("flavorid", "name", "memory_mb", "vcpus", "root_gb", "ephemeral_gb", "swap"),
    *("rxtx_factor", "vcpu_weight", "disabled", "is_public", "description"),
)
_IMAGE_NAMES = (
    *("id", "name", "status", "visibility", "protected", "checksum", "owner", "size", "virtual_size"),
    *("container_format", "disk_format", "created_at", "updated_at", "tags", "direct_url", "min_ram", "min_disk"),
)


def _payload(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return close_envelope(name, data, PAYLOAD_VERSIONS[name])


# --- legacy -------------------------------------------------------------------------------


def legacy_payload(spec: RequestSpec) -> dict[str, Any]:
    """The legacy payload `{"request_spec": ...}` as plain data."""
    request = spec.to_legacy_request_spec_dict()
    instance, uuid = request["instance_properties"], spec.instance_uuid_as_sent
    instance["uuid"] = uuid
    instance["numa_topology"] = _unwrapped(topology_to_object(spec.numa_topology, uuid))
    devices = pci_requests_to_object(spec.pci_requests, uuid) if spec.pci_requests else None
    instance["pci_requests"] = _unwrapped(devices)
    if spec.image:
        request["image"]["properties"] = plain_properties(spec.image.properties)
    request["instance_type"] = _unwrapped(flavor_to_object(spec.flavor))
    return {"request_spec": to_json(request)}


def _unwrapped(value: Any) -> Any:
    """The value with every versioned object replaced by a plain mapping of its fields."""
    if isinstance(value, Mapping):
        return {key: _unwrapped(each) for key, each in value.get(DATA, value).items()}
    return [_unwrapped(each) for each in value] if isinstance(value, list) else value


# --- versioned ---------------------------------------------------------------------------


def versioned_payload(spec: RequestSpec) -> dict[str, Any]:
    """The payload RequestSpecPayload 1.1. It has only the first of forced hosts and nodes, as in nova."""
    names, uuid = ("availability_zone", "num_instances", "project_id", "user_id"), spec.instance_uuid_as_sent
    data: dict[str, Any] = {name: getattr(spec, name) for name in names} | {"instance_uuid": uuid}
    for name in ("force_hosts", "force_nodes"):
        data[name] = next(iter(getattr(spec, name) or ()), None)
    data["ignore_hosts"] = None if spec.ignore_hosts is None else list(spec.ignore_hosts)
    has_hints = bool(spec.scheduler_hints) or not _was_null(spec, "scheduler_hints")
    data["scheduler_hints"] = {name: list(each) for name, each in spec.scheduler_hints.items()} if has_hints else None
    data["security_groups"] = [each.name or each.uuid for each in spec.security_groups]
    data["flavor"] = _flavor(spec.flavor)
    data["image"] = _image(spec.image) if spec.image else None
    data["instance_group"] = _group(spec.instance_group) if spec.instance_group else None
    data["numa_topology"] = _topology(spec.numa_topology, uuid) if spec.numa_topology else None
    has_devices = bool(spec.pci_requests) or (spec.sent is not None and not _was_null(spec, "pci_requests"))
    data["pci_requests"] = _devices(spec.pci_requests, uuid) if has_devices else None
    data["requested_destination"] = _destination(spec.requested_destination) if spec.requested_destination else None
    data["retry"] = _retry(spec.retry) if spec.retry else None
    return _payload("RequestSpecPayload", data)


def _was_null(spec: RequestSpec, name: str) -> bool:
    """Whether a field that is empty in the request was null in its message."""
    return spec.sent is not None and name in spec.sent.others


def _flavor(flavor: Flavor) -> dict[str, Any]:
    data = {name: getattr(flavor, name) for name in _FLAVOR_NAMES}
    projects = flavor.unheld_value("projects")
    data |= {"extra_specs": dict(flavor.extra_specs), "projects": projects if isinstance(projects, list) else []}
    return _payload("FlavorPayload", data)


def _image(image: Image) -> dict[str, Any]:
    known = image_to_object(image)
    held = known[DATA] if known else {}
    data = {name: held.get(name) for name in _IMAGE_NAMES}
    return _payload("ImageMetaPayload", data | {"properties": _properties(image.properties)})


def _properties(properties: ImageProperties) -> dict[str, Any]:
    return _payload("ImageMetaPropsPayload", plain_properties(properties))


def _group(group: ServerGroup) -> dict[str, Any]:
    names = ("uuid", "name", "policy", "policies", "user_id", "project_id")
    data = {name: getattr(group, name) for name in names}
    data |= {"members": list(group.members), "hosts": list(group.hosts)}
    return _payload("ServerGroupPayload", data | {"rules": {name: str(rule) for name, rule in group.rules.items()}})


def _topology(topology: InstanceTopology, instance_uuid: str | None) -> dict[str, Any]:
    cells = [_numa_cell(each) for each in topology.cells]
    data = {"cells": cells, "emulator_threads_policy": topology.emulator_threads_policy}
    return _payload("InstanceNUMATopologyPayload", data | {"instance_uuid": instance_uuid})


def _numa_cell(cell: InstanceCell) -> dict[str, Any]:
    names = ("cpu_pinning_raw", "cpuset_reserved", "cpu_policy", "cpu_thread_policy", "pagesize")
    data = dict.fromkeys(names) | numa_cell_to_object(cell)[DATA]
    parts = cell.unheld_value("cpu_topology")
    data["cpu_topology"] = _payload("VirtCPUTopologyPayload", parts[DATA]) if parts else None
    return _payload("InstanceNUMACellPayload", data)


def _devices(requests: Sequence[PciRequest], instance_uuid: str | None) -> dict[str, Any]:
    names = ("count", "alias_name", "request_id", "numa_policy")
    listed = [
        _payload(
            "InstancePCIRequestPayload",
            {name: getattr(each, name) for name in names} | {"spec": plain_alternatives(each)},
        )
        for each in requests
    ]
    return _payload("InstancePCIRequestsPayload", {"requests": listed, "instance_uuid": instance_uuid})


def _destination(destination: Destination) -> dict[str, Any]:
    cell = None
    if destination.cell:
        uuid = destination.cell_uuid or cell_uuid(destination.cell)
        cell = _payload("CellMappingPayload", {"name": destination.cell, "uuid": uuid, "disabled": False})
    data = {"host": destination.host, "node": destination.node, "cell": cell}
    return _payload("DestinationPayload", data | {"aggregates": list(destination.aggregates) or None})


def _retry(retry: Retry) -> dict[str, Any]:
    nodes = [node for _, node in retry.hosts]
    return _payload("SchedulerRetriesPayload", {"num_attempts": retry.num_attempts, "hosts": nodes})


PAYLOAD = "RequestSpecPayload"
_SUFFIX = "Payload"
_OBJECT_NAMES = {"ServerGroup": "InstanceGroup"}
"""Where the object has another name than its payload."""
_NOT_NOTIFIED = ("is_bfv", "request_level_params", "requested_resources", "requested_networks", "network_metadata")
"""Fields of a RequestSpec that its payload does not have."""


def request_from_payload(payload: Any, stored: Any = None, where: str = "payload") -> RequestSpec:
    """The request of a RequestSpecPayload 1.x. `stored`: the RequestSpec object that nova has stored for it.

    FieldError where the payload does not say enough: of hosts that were tried before it has the nodes only.
    """
    data = dict(open_payload(payload, PAYLOAD, where))
    retry = data.get("retry")
    if retry and open_payload(retry, "SchedulerRetriesPayload", f"{where}.retry").get("hosts"):
        raise FieldError(f"{where}.retry", "names nodes that were tried before, and not their hosts")
    for name in ("force_hosts", "force_nodes"):
        if isinstance(data.get(name), str):
            data[name] = [data[name]]
    known = open_envelope(stored, "RequestSpec", "request_specs.spec").data if stored is not None else {}
    gaps = {name: known[name] for name in _NOT_NOTIFIED if name in known}
    if _flavorid(known.get("flavor")) == _flavorid(data.get("flavor")) is not None:
        gaps["flavor"] = known["flavor"]
    held = {name: _as_object(value) for name, value in data.items()}
    return request_from_object(close_envelope("RequestSpec", held | gaps), where)


def _flavorid(flavor: Any) -> Any:
    data = flavor.get(DATA) if is_envelope(flavor) else None
    return data.get("flavorid") if isinstance(data, Mapping) else None


def open_payload(value: Any, name: str, where: str) -> Mapping[str, Any]:
    """The fields of a payload object of this class, of any version; FieldError for anything else."""
    if not is_envelope(value) or value[NAME] != name:
        raise FieldError(where, f"is no {name}")
    data: Mapping[str, Any] = MAPPING.strict(value.get(DATA), f"{where}.{DATA}")
    return data


def _as_object(value: Any) -> Any:
    """The value with payload objects replaced by the objects that they are payloads of; null fields are left out."""
    if isinstance(value, list):
        return [_as_object(each) for each in value]
    if not is_envelope(value):
        return value
    plain = str(value[NAME]).removesuffix(_SUFFIX)
    name = _OBJECT_NAMES.get(plain, plain)
    data = MAPPING.lenient(value.get(DATA), name)
    held = {field: _as_object(each) for field, each in data.items() if each is not None}
    return close_envelope(name, held, VERSIONS.get(name, "1.0"))
