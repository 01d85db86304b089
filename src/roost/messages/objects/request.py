# SPDX-License-Identifier: Apache-2.0
"""Conversion of RequestSpec from and to nova's object: the other modules of this package convert its parts.

Parsed values are cached, because thousands of requests contain the same few flavors and images.
"""

from __future__ import annotations

import json
import marshal
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from roost.errors import FieldError
from roost.messages.objects.envelope import close_envelope, open_envelope
from roost.messages.objects.flavor_image_group import (
    flavor_from_object,
    flavor_to_object,
    group_from_object,
    group_to_object,
    image_from_object,
    image_to_object,
)
from roost.messages.objects.numa_pci import (
    pci_requests_from_object,
    pci_requests_to_object,
    topology_from_object,
    topology_to_object,
)
from roost.messages.objects.request_parts import (
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
from roost.model import Flavor, Image, RequestSpec
from roost.model.fields import AMOUNT, OPTIONAL_AMOUNT, lenient_parsers, make_record, parse_present
from roost.model.kinds import Parser, WholeNumber

MAX_ENTRIES = 512
MAX_VALUE_BYTES = 16_384
"""Bytes of the largest value that is cached; limits the cache to some megabytes."""
_MARSHAL_VERSION = 2
"""Version of marshal's format. In later versions the bytes of equal values depend on reference counts."""
_ENCODER = json.JSONEncoder()


def memoised(parse: Parser) -> Parser:
    """A memoised parser, for JSON data and parsers that return immutable records. Errors are not cached."""
    cached: dict[bytes, Any] = {}

    def parse_memoised(value: Any, where: str) -> Any:
        if type(value) is not dict:
            return parse(value, where)
        try:
            key = marshal.dumps(value, _MARSHAL_VERSION)  # only a cache key; JSON takes seven times as long
        except ValueError:  # not plain data, or nested too deeply
            return parse(value, where)
        record = cached.get(key)
        if record is None:
            record = parse(value, where)
            if len(key) <= MAX_VALUE_BYTES and _is_json(value):
                if len(cached) >= MAX_ENTRIES:
                    cached.clear()
                cached[key] = record
        return record

    return parse_memoised


def _is_json(value: Any) -> bool:
    """Whether the value is JSON data. Only that is cached: marshal also writes sets, in arbitrary order."""
    try:
        _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


MOST_INSTANCES = 10_000
"""Limit per request: a larger number is taken for a mistake, and would block other requests for seconds."""
_COUNT = WholeNumber(least=1, most=MOST_INSTANCES)


def instance_count(value: Any, where: str) -> int:
    """The number of instances; 1 for null. FieldError above MOST_INSTANCES."""
    return 1 if value is None else _COUNT.strict(AMOUNT.lenient(value, where), where)


_FIELDS: Mapping[str, Parser] = {
    "flavor": memoised(flavor_from_object),
    "image": memoised(image_from_object),
    "num_instances": instance_count,
    **lenient_parsers(RequestSpec, "instance_uuid", "project_id", "user_id", "availability_zone", "scheduler_hints"),
    "instance_group": group_from_object,
    **lenient_parsers(RequestSpec, "ignore_hosts", "force_hosts", "force_nodes"),
    "requested_destination": destination_from_object,
    "retry": retry_from_object,
    **lenient_parsers(RequestSpec, "is_bfv"),
    "numa_topology": topology_from_object,
    "pci_requests": pci_requests_from_object,
    "requested_resources": request_groups_from_object,
    "request_level_params": memoised(level_params_from_object),
    "network_metadata": network_metadata_from_object,
    "limits": limits_from_object,
    "security_groups": memoised(security_groups_from_object),
    "requested_networks": networks_from_object,
}
"""Field of the object -> parser of its value."""

_NULL_OR_EMPTY = ("pci_requests", "requested_resources", "scheduler_hints")
"""Fields for which nova distinguishes null and empty, and RequestSpec does not."""


def request_from_object(primitive: Any, where: str = "spec_obj") -> RequestSpec:
    """The request of a RequestSpec 1.x object. Errors name the path, such as `spec_obj.flavor.memory_mb`."""
    data = open_envelope(primitive, "RequestSpec", where).data
    if data.get("flavor") is None:
        raise FieldError(f"{where}.flavor", "is missing", "a request cannot do without it")
    spec = make_record(RequestSpec, where, **parse_present(_FIELDS, data, where))
    nulls: dict[str, Any] = {name: None for name in _NULL_OR_EMPTY if name in data and data[name] is None}
    others: dict[str, Any] = {"id": OPTIONAL_AMOUNT.lenient(data["id"], f"{where}.id")} if "id" in data else {}
    if isinstance(uuid := data.get("instance_uuid"), str) and uuid != spec.instance_uuid:
        others["instance_uuid"] = uuid
    return spec.received(data, nulls | others)


def flavor_and_image_from_object(primitive: Any, where: str = "spec_obj") -> tuple[Flavor, Image | None]:
    """Flavor and image of a RequestSpec object, at a fifth of the cost of the whole request."""
    data = open_envelope(primitive, "RequestSpec", where).data
    if data.get("flavor") is None:
        raise FieldError(f"{where}.flavor", "is missing", "a request cannot do without it")
    return _FIELDS["flavor"](data["flavor"], f"{where}.flavor"), _FIELDS["image"](data.get("image"), f"{where}.image")


def hints_and_zone_from_object(primitive: Any, where: str = "spec_obj") -> tuple[dict[str, Any], str | None]:
    """Scheduler hints (tuples of texts) and wanted zone of a RequestSpec object, at a small part of the cost."""
    data = open_envelope(primitive, "RequestSpec", where).data
    names = ("scheduler_hints", "availability_zone")
    hints, zone = (None if data.get(name) is None else _FIELDS[name](data[name], f"{where}.{name}") for name in names)
    return dict(hints or {}), zone


def request_to_object(spec: RequestSpec) -> dict[str, Any]:
    """The RequestSpec object of a request. A request that was parsed from a message has the fields of the message."""
    sent = spec.sent
    held = _object_fields(spec)
    if sent is None:
        unset = [name for name, value in held.items() if value is None and name in _NOT_NULL]
        return close_envelope("RequestSpec", {name: each for name, each in held.items() if name not in unset})
    defaults = _default_fields() | {"pci_requests": pci_requests_to_object((), spec.instance_uuid_as_sent)}
    kept = {name: value for name, value in held.items() if name in sent.names or value != defaults.get(name)}
    others = {name: each for name, each in sent.others.items() if name not in held or not getattr(spec, name)}
    return close_envelope("RequestSpec", kept | others)


def request_to_short_object(spec: RequestSpec) -> dict[str, Any]:
    """The RequestSpec object of a request with the fields that ask for something; read again, it is an equal request.

    It takes less than half the time and space of all fields, of which few requests use many.
    """
    asked = [name for name in _WRITERS if getattr(spec, name) != _EMPTY[name]]
    others = {} if spec.sent is None else {name: each for name, each in spec.sent.others.items() if name not in asked}
    return close_envelope("RequestSpec", {name: _WRITERS[name](spec) for name in asked} | others)


@cache
def _default_fields() -> dict[str, Any]:
    """The fields of a request for which nothing is asked, without its flavor, which every request has."""
    fields = _object_fields(RequestSpec(flavor=Flavor(0, 0)))
    return {name: value for name, value in fields.items() if name != "flavor"}


_NOT_NULL = ("instance_uuid", "network_metadata", "requested_networks")
"""Fields that nova refuses as null: left out if they have no value."""


def _object_fields(spec: RequestSpec) -> dict[str, Any]:
    return {name: write(spec) for name, write in _WRITERS.items()}


def _hosts_of(name: str) -> Callable[[RequestSpec], list[str] | None]:
    return lambda spec: None if getattr(spec, name) is None else list(getattr(spec, name))


_WRITERS: Mapping[str, Callable[[RequestSpec], Any]] = {
    "num_instances": lambda spec: spec.num_instances,
    "instance_uuid": lambda spec: spec.instance_uuid_as_sent,
    "project_id": lambda spec: spec.project_id,
    "user_id": lambda spec: spec.user_id,
    "availability_zone": lambda spec: spec.availability_zone,
    "is_bfv": lambda spec: spec.is_bfv,
    **{name: _hosts_of(name) for name in ("ignore_hosts", "force_hosts", "force_nodes")},
    "scheduler_hints": lambda spec: {name: list(each) for name, each in spec.scheduler_hints.items()},
    "flavor": lambda spec: flavor_to_object(spec.flavor),
    "image": lambda spec: image_to_object(spec.image),
    "instance_group": lambda spec: group_to_object(spec.instance_group),
    "requested_destination": lambda spec: destination_to_object(spec.requested_destination),
    "retry": lambda spec: retry_to_object(spec.retry),
    "limits": lambda spec: limits_to_object(spec.limits),
    "numa_topology": lambda spec: topology_to_object(spec.numa_topology, spec.instance_uuid_as_sent),
    "pci_requests": lambda spec: pci_requests_to_object(spec.pci_requests, spec.instance_uuid_as_sent),
    "requested_resources": lambda spec: [request_group_to_object(each) for each in spec.requested_resources],
    "request_level_params": lambda spec: level_params_to_object(spec.request_level_params),
    "network_metadata": lambda spec: (
        None if spec.network_metadata is None else network_metadata_to_object(spec.network_metadata)
    ),
    "security_groups": lambda spec: security_groups_to_object(spec.security_groups),
    "requested_networks": lambda spec: networks_to_object(spec.requested_networks),
}
"""Field of the object -> what writes its value."""
_EMPTY = vars(RequestSpec(flavor=Flavor(0, 0))) | {"flavor": None}
"""The attributes of a request for which nothing is asked; each request has a flavor."""
