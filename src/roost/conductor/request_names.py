# SPDX-License-Identifier: Apache-2.0
"""What a request of a client names - servers, flavors, images, groups, zones - looked up in the database."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Engine

from roost.conductor.move_errors import refuse_unless_admin
from roost.conductor.servers_view import find_server
from roost.errors import BadInput, FieldError, UnknownName, nearest
from roost.messages.context import RequestContext
from roost.model import Flavor, Image, ServerGroup
from roost.model.json_records import from_json
from roost.records.aggregates import read_zones
from roost.records.catalogue import find_group, read_flavors, read_images
from roost.records.node_writer import find_host
from roost.records.server import Server
from roost.records.servers import ServerStore
from roost.store.transactions import database_errors

MOST_ENTRIES, MOST_BYTES = 128, 65536
"""Of hints, extra specs and properties: entries, and bytes as JSON."""
Named = TypeVar("Named", Flavor, Image)
Describe = Callable[[RequestContext, Server], dict[str, Any]]


class WantedPlace(NamedTuple):
    """Where a caller wants servers: an availability zone, a forced host and node, or a host if it passes filters."""

    zone: str | None = None
    host: str | None = None
    """Forced: filters are skipped."""
    node: str | None = None
    destination: tuple[str, str | None] | None = None
    """Host that has to pass all filters, and its node; None: any."""


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
        """A flavor that the caller may use, by its id or name; for admins, also as its fields."""
        if isinstance(wanted, Mapping):
            _check_fields(context, "flavor", wanted, "extra_specs")
            return from_json(Flavor, wanted, "flavor")
        known = read_flavors(self._engine, only_public=not context.is_admin)
        return _named("flavor", wanted, {each.flavorid or each.name: each for each in known})

    def find_image(self, context: RequestContext, wanted: Any) -> Image | None:
        """An image that the caller may use, by its id or name; for admins, also as its fields. None for None."""
        if wanted is None:
            return None
        if isinstance(wanted, Mapping):
            _check_fields(context, "image", wanted, "properties")
            return from_json(Image, wanted, "image")
        known = read_images(self._engine, None if context.is_admin else context.project_id)
        return _named("image", wanted, {str(each.id): each for each in known})

    def find_group(self, context: RequestContext, wanted: Any) -> ServerGroup:
        """A server group that the caller may use, by its uuid or name."""
        if not isinstance(wanted, str):
            raise FieldError("group", "is no name", "give the uuid or the name of one server group")
        return find_group(self._engine, wanted, None if context.is_admin else context.project_id)

    def find_place(self, context: RequestContext, zone: Any, host: Any = None, node: Any = None) -> WantedPlace:
        """Where servers shall be: "ZONE[:HOST[:NODE]]", and a host and a node that have to pass all filters.

        Callers without the right to name hosts may give a zone alone.
        """
        place = _parse_zone(zone)
        names_host, names_destination = bool(place.host or place.node), host is not None or node is not None
        if names_host and names_destination:
            raise BadInput("host: the availability zone names a host, too", "name it once")
        if (names_host or names_destination) and not context.may_name_hosts:
            raise BadInput("only an admin may name a host", "give a zone alone")
        if names_destination:
            place = place._replace(destination=self._find_destination(host, node))
        if place.host:
            self._find_host(place.host)
        if names_host:  # the zone of a forced host is not compared with the named one
            return place._replace(zone=None)
        return place if place.zone is None else place._replace(zone=self.find_zone(place.zone))

    def _find_destination(self, host: Any, node: Any) -> tuple[str, str | None]:
        """The named host and node; of a node alone the host that has it."""
        wanted = None if host is None else as_name("host", host)
        return self._find_host(wanted, None if node is None else as_name("node", node)), node

    def _find_host(self, host: str | None, node: str | None = None) -> str:
        """The host that has this name and such a node, None: any; UnknownName if there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            found = find_host(connection, host, node)
        if found is None:
            problem = f"Compute host {str(node or host)[:60]} could not be found."
            raise UnknownName(problem, "roost host list shows them")
        return found

    def find_zone(self, zone: Any) -> str:
        """An availability zone by its name; UnknownName where there is none."""
        wanted, known = as_name("availability_zone", zone), read_zones(self._engine, self._default_zone)
        if wanted not in known:
            raise UnknownName(f"availability_zone: {wanted[:60]!r} is not available", nearest(wanted, known))
        return wanted


def _named(noun: str, wanted: Any, known: Mapping[str, Named]) -> Named:
    """What has this id or, failing that, this name; no name can stand for the id of another. `known`: by id."""
    found = known.get(wanted) if isinstance(wanted, str) else None
    if found is None:
        found = next((each for each in known.values() if each.name == wanted), None)
    if found is None:
        names = [each.name for each in known.values()]
        raise UnknownName(f"{noun}: there is no {str(wanted)[:60]!r}", nearest(str(wanted), names))
    return found


def _parse_zone(text: Any) -> WantedPlace:
    """Zone, host and node of "zone", "zone:host", "zone:host:node" or "zone::node"; empty parts are None."""
    if text is None or text == "":
        return WantedPlace()
    parts = as_name("availability_zone", text).split(":")
    if len(parts) > 3:
        raise FieldError("availability_zone", f"{text[:60]!r} has too many colons", "write ZONE:HOST:NODE")
    zone, host, node, *_ = (*(part or None for part in parts), None, None)
    return WantedPlace(zone, host, node)


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
