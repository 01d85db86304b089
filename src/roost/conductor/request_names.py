# SPDX-License-Identifier: Apache-2.0
"""What a request of a client names - servers, flavors, images, groups, zones - looked up in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Engine

from roost.conductor.move_errors import refuse_unless_admin
from roost.conductor.servers_view import find_server
from roost.errors import BadInput, FieldError, UnknownName, nearest
from roost.inventory import find_group, find_node_ids, read_flavors, read_images, read_zones
from roost.model import Flavor, Image, ServerGroup
from roost.model.json_records import from_json
from roost.rpc.context import RequestContext
from roost.servers import Server, ServerStore
from roost.store.error_mapping import database_errors

MOST_ENTRIES, MOST_BYTES = 128, 65536
"""Of hints, extra specs and properties: entries, and bytes as JSON."""
Describe = Callable[[RequestContext, Server], dict[str, Any]]


class WantedPlace(NamedTuple):
    """Where a caller wants servers: an availability zone, a forced host and node, or a host if it passes filters."""

    zone: str | None = None
    host: str | None = None
    """Forced: filters are skipped."""
    node: str | None = None
    destination: str | None = None
    """Host that has to pass all filters."""


class RequestNames:
    """Finds what clients name; UnknownName with the nearest name where there is none. Thread-safe."""

    def __init__(self, engine: Engine, store: ServerStore, default_zone: str, describe: Describe) -> None:
        """`default_zone`: of hosts whose aggregates name none. `describe`: a server as clients see it."""
        self._engine, self._store, self._default_zone, self._describe = engine, store, default_zone, describe

    def describe_server(self, context: RequestContext, server: Server) -> dict[str, Any]:
        """A server as clients see it."""
        return self._describe(context, server)

    def find_server(self, context: RequestContext, name_or_uuid: str) -> Server:
        """A server that the caller may see, by uuid or name."""
        return find_server(self._store, context, name_or_uuid)

    def find_flavor(self, context: RequestContext, wanted: Any) -> Flavor:
        """A flavor by its name or id; for admins, also as its fields."""
        if isinstance(wanted, Mapping):
            _check_fields(context, "flavor", wanted, "extra_specs")
            return from_json(Flavor, wanted, "flavor")
        known = read_flavors(self._engine)
        for flavor in known:
            if wanted in (flavor.name, flavor.flavorid or flavor.name):
                return flavor
        names = [flavor.name for flavor in known]
        raise UnknownName(f"flavor: there is no {str(wanted)[:60]!r}", nearest(str(wanted), names))

    def find_image(self, context: RequestContext, wanted: Any) -> Image | None:
        """An image by its name or id; for admins, also as its fields. None for None."""
        if wanted is None:
            return None
        if isinstance(wanted, Mapping):
            _check_fields(context, "image", wanted, "properties")
            return from_json(Image, wanted, "image")
        known = read_images(self._engine)
        for image in known:
            if wanted in (image.id, image.name):
                return image
        names = [image.name for image in known]
        raise UnknownName(f"image: there is no {str(wanted)[:60]!r}", nearest(str(wanted), names))

    def find_group(self, context: RequestContext, wanted: Any) -> ServerGroup:
        """A server group that the caller may use, by its uuid or name."""
        if not isinstance(wanted, str):
            raise FieldError("group", "is no name", "give the uuid or the name of one server group")
        return find_group(self._engine, wanted, None if context.is_admin else context.project_id)

    def find_place(self, context: RequestContext, zone: Any, host: Any = None) -> WantedPlace:
        """Where servers shall be, from "ZONE[:HOST[:NODE]]" and from a host by name; only admins may name one."""
        place = _parse_zone(zone)
        if host is not None:
            if place.host or place.node:
                raise BadInput("host: the availability zone names a host, too", "name it once")
            place = place._replace(destination=as_name("host", host))
        if any(place[1:]) and not context.is_admin:
            raise BadInput("only an admin may name a host", "give a zone alone")
        if place.host or place.destination:
            self._check_host(place.host or str(place.destination))
        if place.host or place.node:  # the zone of a forced host is not compared with the named one
            return place._replace(zone=None)
        if place.zone is not None:
            known = read_zones(self._engine, self._default_zone)
            if place.zone not in known:
                problem = f"availability_zone: {place.zone[:60]!r} is not available"
                raise UnknownName(problem, nearest(place.zone, known))
        return place

    def _check_host(self, host: str) -> None:
        with database_errors(self._engine), self._engine.connect() as connection:
            if not find_node_ids(connection, [host]):
                raise UnknownName(f"Compute host {host[:60]} could not be found.", "roost host list shows them")


def _parse_zone(text: Any) -> WantedPlace:
    """Zone, host and node of "zone", "zone:host", "zone:host:node" or "zone::node"; empty parts are None."""
    if text is None or text == "":
        return WantedPlace()
    parts = as_name("availability_zone", text).split(":")
    if len(parts) > 3:
        raise FieldError("availability_zone", f"{text[:60]!r} has too many colons", "write ZONE:HOST:NODE")
    return WantedPlace(*(part or None for part in parts))


def _check_fields(context: RequestContext, field: str, wanted: Mapping[str, Any], free: str) -> None:
    """Refuse a flavor or an image that is given as its fields, to all but admins: it may name any trait or host.

    `free`: the field whose keys are free.
    """
    refuse_unless_admin(context, f"give a {field} as its fields")
    check_size(f"{field}.{free}", wanted.get(free) or {})
    check_size(field, wanted)


def check_size(field: str, value: Any) -> None:
    """Refuse what has too many entries or bytes for a record that is read with each step of a server."""
    if isinstance(value, Mapping) and len(value) > MOST_ENTRIES:
        raise FieldError(field, f"has {len(value)} entries", f"at most {MOST_ENTRIES}")
    size = len(json.dumps(value, default=str))
    if size > MOST_BYTES:
        raise FieldError(field, f"has {size} bytes as JSON", f"at most {MOST_BYTES}")


def as_name(field: str, value: Any) -> str:
    """A text of 1 to 255 characters; FieldError for anything else."""
    if not isinstance(value, str) or not value or len(value) > 255:
        raise FieldError(field, f"{str(value)[:60]!r} is no name")
    return value
