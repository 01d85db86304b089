# SPDX-License-Identifier: Apache-2.0
"""Parses the request for new servers: what it names is looked up, what cannot be is refused with BadInput."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from roost.conductor.request_names import RequestNames, check_size
from roost.conductor.server_details import (
    LONGEST_NAME,
    Details,
    check_caller,
    check_name,
    hostnames_of,
    parse_details,
)
from roost.errors import BadInput, FieldError, nearest
from roost.messages.context import RequestContext
from roost.model import Flavor, Image, RequestSpec
from roost.model.request import Destination

MOST_SERVERS = 1000
"""Servers of one request."""
_KEYS = (
    *("name", "flavor", "image", "count", "min_count", "max_count", "hints", "group", "availability_zone", "host"),
    *("node", "description", "metadata", "reservation_id", "user_data", "hostname", "access_ip_v4", "access_ip_v6"),
    "disk_config",
)

_HINTS_OF_TEXTS = frozenset(
    ("group", "different_host", "same_host", "build_near_host_ip", "cidr", "target_cell", "different_cell")
)


class NewServers(NamedTuple):
    """Servers that are wanted, and the request by which each is placed."""

    names: list[str]
    hostnames: list[str]
    """Of their guests."""
    spec: RequestSpec
    details: Details


def parse_new_servers(context: RequestContext, request: Any, known: RequestNames) -> NewServers:
    """The servers that a request of `create_servers` asks for; BadInput where something in it is wrong."""
    if not isinstance(request, Mapping):
        raise FieldError("request", "is no object")
    for key in request:
        if key not in _KEYS:
            raise FieldError(str(key)[:60], "is not known", nearest(str(key), _KEYS))
    if request.get("user_data") is not None:
        raise FieldError("user_data", "is not supported", "leave it out")
    check_caller(context)
    details, names = parse_details(request), _names(check_name(request.get("name")), _count(request))
    if request.get("flavor") is None:
        raise FieldError("flavor", "is missing")
    flavor = known.find_flavor(context, request["flavor"])
    image = known.find_image(context, request.get("image"))
    check_image(flavor, image)
    hints = _hints(request.get("hints"))
    group = request.get("group") or next(iter(hints.pop("group", ())), None)
    found = known.find_group(context, group) if group is not None else None
    zone, host, node = (request.get(name) for name in ("availability_zone", "host", "node"))
    place = known.find_place(context, zone, host, node)
    spec = RequestSpec(
        flavor=flavor,
        image=image,
        project_id=context.project_id or None,
        user_id=context.user_id or None,
        availability_zone=place.zone,
        scheduler_hints={**hints, "group": (str(found.uuid),)} if found else hints,
        instance_group=found,
        force_hosts=(place.host,) if place.host else None,
        force_nodes=(place.node,) if place.node else None,
        requested_destination=Destination(*place.destination) if place.destination else None,
    )
    return NewServers(names, hostnames_of(names, details.hostname), spec, details)


def _count(request: Mapping[str, Any]) -> int:
    """How many servers are wanted: `count`, or `max_count`, which is at least `min_count`, as nova has it.

    All of them are placed or none: `min_count` would count where a quota allows fewer, and there are no quotas.
    """
    numbers = {name: request.get(name) for name in ("count", "min_count", "max_count")}
    for name, wanted in numbers.items():
        is_number = isinstance(wanted, int) and not isinstance(wanted, bool)
        if wanted is not None and not (is_number and 1 <= wanted <= MOST_SERVERS):
            raise FieldError(name, f"{str(wanted)[:20]} is not possible", f"give a number from 1 to {MOST_SERVERS}")
    count, least, most = numbers.values()
    if count is not None and (least or most):
        raise FieldError("count", "is given beside min_count or max_count", "leave it out")
    if (least or 1) > (most or MOST_SERVERS):
        raise FieldError("min_count", "min_count must be <= max_count")
    return count or most or least or 1


def _names(name: str, count: int) -> list[str]:
    """The name of each server: NAME, or NAME-1, NAME-2 and so on for several."""
    names = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
    if len(names[-1]) > LONGEST_NAME:
        problem = f"is too long with the number of the last server, {count}"
        raise FieldError("name", problem, f"{LONGEST_NAME} characters with the number")
    return names


def _hints(hints: Any) -> dict[str, tuple[str, ...]]:
    """Scheduler hints, each a list of texts; those that begin with _nova are nova's own, and dropped."""
    if hints is None:
        return {}
    if not isinstance(hints, Mapping):
        raise FieldError("hints", "is no object")
    check_size("hints", hints)
    found = {str(name): value for name, value in hints.items() if not str(name).startswith("_nova")}
    return {name: _texts(name, value) for name, value in found.items() if value is not None}


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """The values of a hint: a text or a list of texts; of hints that are not nova's also numbers and objects."""
    return tuple(_text(name, each) for each in (value if isinstance(value, (list, tuple)) else [value]))


def _text(name: str, value: Any) -> str:
    """A value of a hint as the text that filters read; that of an object is JSON."""
    if isinstance(value, str):
        return value
    if name in _HINTS_OF_TEXTS or not isinstance(value, (int, float, Mapping)):
        raise FieldError(f"hints.{name}", "is no text and no list of texts")
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def check_image(flavor: Flavor, image: Image | None) -> None:
    """Refuse an image that needs more memory or disk than the flavor has, in nova's words."""
    if image is None:
        return
    if flavor.memory_mb < (image.min_ram or 0):
        raise BadInput("Flavor's memory is too small for requested image.", f"it needs {image.min_ram} MiB")
    if flavor.root_gb and flavor.root_gb < (image.min_disk or 0):
        raise BadInput("Flavor's disk is too small for requested image.", f"it needs {image.min_disk} GiB")
