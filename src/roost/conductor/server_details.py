# SPDX-License-Identifier: Apache-2.0
"""What clients write on servers, and no rule reads: name, description, metadata, and the id of a request.

Start reading at `parse_details` for new servers, at `ServerDetails` for those that are there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from roost.conductor.parts import ConductorParts, Record
from roost.errors import FieldError, UnknownName, nearest
from roost.rpc.context import RequestContext
from roost.rpc.interface import Method
from roost.servers import Server

LONGEST_NAME = 255
MOST_METADATA = 128
"""Entries of the metadata of a server."""
_METADATA_KEY = re.compile(r"[a-zA-Z0-9\-_:. ]{1,255}")
_RESERVATION_ID = re.compile(r"[a-zA-Z0-9-]{1,64}")


class Details(NamedTuple):
    """What is written on each server of a request."""

    description: str | None = None
    metadata: Mapping[str, str] = {}
    reservation_id: str | None = None
    """None: the request has no id of its own, and is given one."""


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
        """Give a server another name or description: {"name": text, "description": text or None}, or one of them."""
        if not isinstance(changes, Mapping):
            raise FieldError("changes", "is no object")
        for key in changes:
            if key not in _CHECKS:
                raise FieldError(str(key)[:60], "is not known", nearest(str(key), _CHECKS))
        values = {key: _CHECKS[key](value) for key, value in changes.items()}
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


def parse_details(request: Mapping[str, Any]) -> Details:
    """Description, metadata and reservation_id of a request for servers; FieldError where one is not possible."""
    own = request.get("reservation_id")
    if own is not None and not (isinstance(own, str) and _RESERVATION_ID.fullmatch(own)):
        raise FieldError("reservation_id", "is no id", "give up to 64 letters, digits and hyphens, or leave it out")
    return Details(check_description(request.get("description")), check_metadata(request.get("metadata")), own)


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


_CHECKS: Mapping[str, Callable[[Any], str | None]] = {"name": check_name, "description": check_description}
"""What `update_server` takes -> its check."""
