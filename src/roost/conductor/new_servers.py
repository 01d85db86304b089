# SPDX-License-Identifier: Apache-2.0
"""Parses the request for new servers: what it names is looked up, what cannot be is refused with BadInput."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from roost.conductor.request_names import RequestNames, check_size
from roost.errors import BadInput, FieldError, nearest
from roost.model import Flavor, Image, RequestSpec
from roost.model.request_parts import Destination
from roost.rpc.context import RequestContext

MOST_SERVERS = 1000
"""Servers of one request."""
LONGEST_NAME = 255
_KEYS = ("name", "flavor", "image", "count", "hints", "group", "availability_zone", "host", "user_data")


class NewServers(NamedTuple):
    """Servers that are wanted, and the request by which each is placed."""

    names: list[str]
    spec: RequestSpec


def parse_new_servers(context: RequestContext, request: Any, known: RequestNames) -> NewServers:
    """The servers that a request of `create_servers` asks for; BadInput where something in it is wrong."""
    if not isinstance(request, Mapping):
        raise FieldError("request", "is no object")
    for key in request:
        if key not in _KEYS:
            raise FieldError(str(key)[:60], "is not known", nearest(str(key), _KEYS))
    if request.get("user_data") is not None:
        raise FieldError("user_data", "is not supported", "leave it out")
    _check_caller(context)
    names = _names(request.get("name"), request.get("count"))
    if request.get("flavor") is None:
        raise FieldError("flavor", "is missing")
    flavor = known.find_flavor(context, request["flavor"])
    image = known.find_image(context, request.get("image"))
    _check_image(flavor, image)
    hints = _hints(request.get("hints"))
    group = request.get("group") or next(iter(hints.pop("group", ())), None)
    found = known.find_group(context, group) if group is not None else None
    zone, host = request.get("availability_zone"), request.get("host")
    place = known.find_place(context, zone, host)
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
        requested_destination=Destination(host=place.destination) if place.destination else None,
    )
    return NewServers(names, spec)


def _names(name: Any, count: Any) -> list[str]:
    """The name of each server: NAME, or NAME-1, NAME-2 and so on for several."""
    if not isinstance(name, str) or not name.strip() or not _is_storable(name):
        raise FieldError("name", "is no name", f"give a text of 1 to {LONGEST_NAME} printable characters")
    wanted = 1 if count is None else count
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= MOST_SERVERS:
        raise FieldError("count", f"{str(wanted)[:20]} is not possible", f"give a number from 1 to {MOST_SERVERS}")
    names = [name] if wanted == 1 else [f"{name}-{number}" for number in range(1, wanted + 1)]
    if len(names[-1]) > LONGEST_NAME:
        problem = f"is too long with the number of the last server, {wanted}"
        raise FieldError("name", problem, f"{LONGEST_NAME} characters with the number")
    return names


def _is_storable(text: str) -> bool:
    """Whether every database can hold a text, and a terminal show it."""
    return len(text) <= LONGEST_NAME and text.isprintable()


def _check_caller(context: RequestContext) -> None:
    for field, value in (("project_id", context.project_id), ("user_id", context.user_id)):
        if not _is_storable(value):
            raise FieldError(field, "is no name", f"at most {LONGEST_NAME} printable characters")


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
    listed = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(each, str) for each in listed):
        raise FieldError(f"hints.{name}", "is no text and no list of texts")
    return tuple(listed)


def _check_image(flavor: Flavor, image: Image | None) -> None:
    """Refuse an image that needs more memory or disk than the flavor has, in nova's words."""
    if image is None:
        return
    if flavor.memory_mb < (image.min_ram or 0):
        raise BadInput("Flavor's memory is too small for requested image.", f"it needs {image.min_ram} MiB")
    if flavor.root_gb and flavor.root_gb < (image.min_disk or 0):
        raise BadInput("Flavor's disk is too small for requested image.", f"it needs {image.min_disk} GiB")
