# SPDX-License-Identifier: Apache-2.0
"""What clients name and write: servers, flavors, images and zones are looked up, names and metadata are checked.

`RequestNames` looks up what a request names. The rest is what clients write on servers and no rule reads - name,
description, metadata, host name, addresses and the like: `parse_details` for new servers, `ServerDetails` for those
that are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Engine

from roost.conductor.parts import ConductorParts, Record, refuse_unless_admin
from roost.conductor.views import find_server
from roost.errors import BadInput, FieldError, UnknownName, nearest
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.model import Flavor, Image, ServerGroup
from roost.model.json_records import from_json
from roost.records.aggregates import read_zones
from roost.records.catalogue import find_group, read_flavors, read_images
from roost.records.node_writer import find_host
from roost.records.server import Server, hostname_of
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


LONGEST_NAME = 255
MOST_METADATA = 128
"""Entries of the metadata of a server."""
_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")
_RESERVATION_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")
_HOSTNAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9]")
DISK_CONFIGS = ("AUTO", "MANUAL")


class WrittenDetails(NamedTuple):
    """What is written on each server of a request."""

    description: str | None = None
    metadata: Mapping[str, str] = {}
    reservation_id: str | None = None
    """None: the request has no id of its own, and is given one."""
    hostname: str | None = None
    """None: one is made of the name of each server."""
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    disk_config: str | None = None


class ServerDetails:
    """Changes of what clients write on a server: possible in every state, and at once."""

    def __init__(self, parts: ConductorParts) -> None:
        self._parts = parts
        self.methods: Mapping[str, Method] = {
            "update_server": self.update_server,
            "set_server_metadata": self.set_server_metadata,
            "delete_server_metadata": self.delete_server_metadata,
        }

    def update_server(self, context: RequestContext, server: str, changes: Any, dry_run: bool = False) -> Record:
        """Change what clients write on a server, but for its metadata: see `check_details` for the keys."""
        values = check_details(changes, UPDATABLE)
        return self._change(context, server, "update", lambda _: values, dry_run)

    def set_server_metadata(
        self, context: RequestContext, server: str, metadata: Any, replace: bool = False, dry_run: bool = False
    ) -> Record:
        """Add entries to the metadata of a server, or have it no others. FieldError where they would be too many."""
        added = check_metadata(metadata)

        def merge(found: Server) -> Record:
            return {"metadata": added if replace is True else check_metadata({**found.metadata, **added})}

        return self._change(context, server, "set metadata", merge, dry_run)

    def delete_server_metadata(self, context: RequestContext, server: str, key: str, dry_run: bool = False) -> Record:
        """Remove an entry from the metadata of a server; UnknownName where it has none with this key."""
        return self._change(context, server, "delete metadata", partial(_without, key), dry_run)

    def _change(
        self, context: RequestContext, server: str, action: str, change: Callable[[Server], Record], dry_run: bool
    ) -> Record:
        parts = self._parts
        found = parts.catalogue.find_server(context, server)
        if dry_run:
            change(found)
            return parts.planned(context, found, action, found.host)
        return parts.catalogue.describe_server(context, parts.store.change_details(found.uuid, change))


def _without(key: str, server: Server) -> Record:
    if key not in server.metadata:
        problem = f"server {server.uuid} has no metadata with the key {str(key)[:60]!r}"
        raise UnknownName(problem, nearest(str(key), server.metadata))
    return {"metadata": {name: value for name, value in server.metadata.items() if name != key}}


def parse_details(request: Mapping[str, Any]) -> WrittenDetails:
    """What a request for servers says of each; FieldError where something of it is not possible."""
    own = request.get("reservation_id")
    if own is not None and not (isinstance(own, str) and _RESERVATION_ID.fullmatch(own)):
        raise FieldError("reservation_id", "is no id", "give up to 64 letters, digits and hyphens, or leave it out")
    given = {name: request[name] for name in _CHECKS.keys() & request.keys() - {"name"} if request[name] is not None}
    return WrittenDetails(reservation_id=own, **check_details(given))


def check_details(given: Any, known: Collection[str] | None = None) -> dict[str, Any]:
    """What is to be written on a server, as the store takes it; FieldError for what is not possible.

    `given`: name, description, metadata, hostname, access_ip_v4, access_ip_v6 and disk_config, or some of them. Null
    and the empty text remove a description or an address. `known`: those of them that are taken; None: all.
    """
    if not isinstance(given, Mapping):
        raise FieldError("changes", "is no object")
    known = _CHECKS if known is None else known
    for key in given:
        if key not in known:
            raise FieldError(str(key)[:60], "is not known", nearest(str(key), known))
    return {key: _CHECKS[key](value) for key, value in given.items()}


def hostnames_of(names: Sequence[str], wanted: str | None) -> list[str]:
    """The host names of the guests of servers with these names. `wanted`: by the client; numbered for several."""
    if wanted is None:
        return [hostname_of(name) for name in names]
    if len(names) == 1:
        return [wanted]
    found = [f"{wanted}-{number}" for number in range(1, len(names) + 1)]
    return [check_hostname(each) for each in found]


def check_name(name: Any) -> str:
    """The name of a server; FieldError if it is none."""
    if not isinstance(name, str) or not name.strip() or not is_storable(name):
        raise FieldError("name", "is no name", f"give a text of 1 to {LONGEST_NAME} printable characters")
    return name


def check_description(description: Any) -> str | None:
    """The description of a server, None for none; FieldError if it is too long, or no text."""
    if description is not None and not (isinstance(description, str) and is_storable(description)):
        raise FieldError("description", "is no text", f"at most {LONGEST_NAME} printable characters")
    return description


def check_hostname(hostname: Any) -> str:
    """The host name of a guest, with or without a domain; FieldError if it is none."""
    if not (isinstance(hostname, str) and len(hostname) <= LONGEST_NAME and _HOSTNAME.fullmatch(hostname)):
        remedy = f"give 2 to {LONGEST_NAME} letters, digits, hyphens and dots, with a letter or digit at both ends"
        raise FieldError("hostname", f"{str(hostname)[:60]!r} is no host name", remedy)
    return hostname


def check_address(version: int, address: Any) -> str | None:
    """An address of this version of IP in its shortest form, None for none; FieldError if it is no such address."""
    if address is None or address == "":
        return None
    try:
        found = ip_address(address) if isinstance(address, str) and "%" not in address else None
    except ValueError:
        found = None
    if found is None or found.version != version:
        raise FieldError(f"access_ip_v{version}", f"{str(address)[:60]!r} is no IPv{version} address")
    return str(found)


def check_disk_config(disk_config: Any) -> str:
    """Who partitions the disk of a guest: AUTO or MANUAL; FieldError for anything else."""
    if disk_config not in DISK_CONFIGS:
        raise FieldError("disk_config", f"{str(disk_config)[:60]!r} is none", f"one of {', '.join(DISK_CONFIGS)}")
    return str(disk_config)


def check_metadata(metadata: Any) -> dict[str, str]:
    """Metadata of a server, empty for None; FieldError for too many entries, and for a bad key or value."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise FieldError("metadata", "is no object")
    if len(metadata) > MOST_METADATA:
        raise FieldError("metadata", f"has {len(metadata)} entries", f"at most {MOST_METADATA}")
    for key, value in metadata.items():
        if not isinstance(key, str) or not _METADATA_KEY.fullmatch(key):
            raise FieldError("metadata", f"{str(key)[:60]!r} is no key", "letters, digits, and any of -_:. and space")
        if not isinstance(value, str) or not _is_text(value):
            raise FieldError(f"metadata.{key[:60]}", "is no text", f"at most {LONGEST_NAME} characters")
    return dict(metadata)


def check_caller(context: RequestContext) -> None:
    """Refuse a project or user whose id does not fit into the record of a server."""
    for field, value in (("project_id", context.project_id), ("user_id", context.user_id)):
        if not is_storable(value):
            raise FieldError(field, "is no name", f"at most {LONGEST_NAME} printable characters")


def is_storable(text: str) -> bool:
    """Whether every database can hold a text, and a terminal show it."""
    return len(text) <= LONGEST_NAME and text.isprintable()


def _is_text(value: str) -> bool:
    """Whether a value can be stored: lines and tabs may be in it, no half characters."""
    return len(value) <= LONGEST_NAME and "\0" not in value and value.encode(errors="ignore").decode() == value


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "name": check_name,
    "description": check_description,
    "metadata": check_metadata,
    "hostname": check_hostname,
    "access_ip_v4": partial(check_address, 4),
    "access_ip_v6": partial(check_address, 6),
    "disk_config": check_disk_config,
}
"""What clients write on a server -> its check."""
UPDATABLE = _CHECKS.keys() - {"metadata"}
"""Metadata has methods of its own."""
