# SPDX-License-Identifier: Apache-2.0
"""RequestSpec, from the wire and back. Start reading here: everything else in this folder hangs on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.errors import FieldError
from roost.model import RequestSpec, checks
from roost.wire import values
from roost.wire.envelope import close_envelope, open_envelope
from roost.wire.flavor_image_group import (
    flavor_from_object,
    flavor_to_object,
    group_from_object,
    group_to_object,
    image_from_object,
    image_to_object,
)
from roost.wire.numa_pci import (
    pci_requests_from_object,
    pci_requests_to_object,
    topology_from_object,
    topology_to_object,
)
from roost.wire.parse_cache import remembered
from roost.wire.request_parts import (
    destination_from_object,
    destination_to_object,
    level_params_from_object,
    level_params_to_object,
    limits_from_object,
    limits_to_object,
    network_metadata_from_object,
    network_metadata_to_object,
    networks_from_object,
    networks_to_object,
    request_group_to_object,
    request_groups_from_object,
    retry_from_object,
    retry_to_object,
    security_groups_from_object,
    security_groups_to_object,
)


def instance_count(value: Any, where: str) -> int:
    """How many instances; null is one."""
    if value is None:
        return 1
    return checks.whole_number(values.number(value, where), where, least=1, most=values.MOST_INSTANCES)


def hints(value: Any, where: str) -> dict[str, tuple[str, ...]]:
    """Hints as lists of texts; single values are wrapped, those without a value are left out."""
    found = {}
    for name, value_of_hint in values.mapping(value, where).items():
        if value_of_hint is not None:
            is_list = isinstance(value_of_hint, (list, tuple, set, frozenset))
            found[name] = _hint_texts(value_of_hint if is_list else [value_of_hint], f"{where}.{name}")
    return found


def _hint_texts(value: Any, where: str) -> tuple[str, ...]:
    found = []
    for at, each in enumerate(values.listed(value, where)):
        text = values.optional_text(each, f"{where}[{at}]")
        if text is None:
            raise FieldError(f"{where}[{at}]", "has no value", "leave it out")
        found.append(text)
    return tuple(found)


_FIELDS: Mapping[str, values.Take] = {
    "flavor": remembered(flavor_from_object),
    "image": remembered(image_from_object),
    "num_instances": instance_count,
    **dict.fromkeys(("instance_uuid", "project_id", "user_id", "availability_zone"), values.optional_text),
    "scheduler_hints": hints,
    "instance_group": group_from_object,
    **dict.fromkeys(("ignore_hosts", "force_hosts", "force_nodes"), values.optional_texts),
    "requested_destination": destination_from_object,
    "retry": retry_from_object,
    "is_bfv": values.flag,
    "numa_topology": topology_from_object,
    "pci_requests": pci_requests_from_object,
    "requested_resources": request_groups_from_object,
    "request_level_params": remembered(level_params_from_object),
    "network_metadata": network_metadata_from_object,
    "limits": limits_from_object,
    "security_groups": remembered(security_groups_from_object),
    "requested_networks": networks_from_object,
}
"""Field -> how it is taken."""

_NULL_OR_LIST = ("pci_requests", "requested_resources", "scheduler_hints")
"""Fields that are null or empty on the wire, which is the same here."""


def request_from_object(primitive: Any, where: str = "spec_obj") -> RequestSpec:
    """The request in a message: RequestSpec 1.x. Errors name the path, such as `spec_obj.flavor.memory_mb`."""
    data = open_envelope(primitive, "RequestSpec", where).data
    if data.get("flavor") is None:
        raise FieldError(f"{where}.flavor", "is missing", "a request cannot do without it")
    spec = values.made(RequestSpec, where, **values.taken(_FIELDS, data, where))
    nulls: dict[str, Any] = {name: None for name in _NULL_OR_LIST if name in data and data[name] is None}
    others = {"id": values.optional_number(data["id"], f"{where}.id")} if "id" in data else {}
    return spec.received(data, nulls | others)


def request_to_object(spec: RequestSpec) -> dict[str, Any]:
    """The request as a RequestSpec that nova understands; one that came in a message has the same fields as there."""
    sent = spec.sent
    held = _held(spec)
    if sent is None:
        unset = [name for name, value in held.items() if value is None and name in _NOT_NULL]
        return close_envelope("RequestSpec", {name: each for name, each in held.items() if name not in unset})
    usual = _held(RequestSpec(flavor=spec.flavor))
    usual["pci_requests"] = pci_requests_to_object((), spec.instance_uuid)
    kept = {name: value for name, value in held.items() if name in sent.names or value != usual[name]}
    others = {name: each for name, each in sent.others.items() if name not in held or not getattr(spec, name)}
    return close_envelope("RequestSpec", kept | others)


_NOT_NULL = ("instance_uuid", "network_metadata", "requested_networks")
"""Fields that nova takes with a value or not at all."""


def _held(spec: RequestSpec) -> dict[str, Any]:
    names = ("num_instances", "instance_uuid", "project_id", "user_id", "availability_zone", "is_bfv")
    plain: dict[str, Any] = {name: getattr(spec, name) for name in names}
    for name in ("ignore_hosts", "force_hosts", "force_nodes"):
        hosts = getattr(spec, name)
        plain[name] = None if hosts is None else list(hosts)
    uuid, networks = spec.instance_uuid, spec.network_metadata
    return plain | {
        "scheduler_hints": {name: list(each) for name, each in spec.scheduler_hints.items()},
        "flavor": flavor_to_object(spec.flavor),
        "image": image_to_object(spec.image),
        "instance_group": group_to_object(spec.instance_group),
        "requested_destination": destination_to_object(spec.requested_destination),
        "retry": retry_to_object(spec.retry),
        "limits": limits_to_object(spec.limits),
        "numa_topology": topology_to_object(spec.numa_topology, uuid),
        "pci_requests": pci_requests_to_object(spec.pci_requests, uuid),
        "requested_resources": [request_group_to_object(each) for each in spec.requested_resources],
        "request_level_params": level_params_to_object(spec.request_level_params),
        "network_metadata": None if networks is None else network_metadata_to_object(networks),
        "security_groups": security_groups_to_object(spec.security_groups),
        "requested_networks": networks_to_object(spec.requested_networks),
    }
