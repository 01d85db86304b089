# SPDX-License-Identifier: Apache-2.0
"""Lists and shows servers and migrations to clients. Hosts and reasons are for admins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roost.conductor.parts import Record
from roost.errors import FieldError, nearest
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.records.listing import ServerFilters
from roost.records.server import Server
from roost.records.server_views import describe_fully, describe_migration, describe_server, shows_fault
from roost.records.servers import ServerStore

_FILTERS = ("host", "project_id", "status", "name", "after", "limit")
MOST_LISTED = 1000
BY_UUID = (("uuid", "asc"),)


def find_server(store: ServerStore, context: RequestContext, name_or_uuid: Any) -> Server:
    """A server that the caller may see, by uuid or name; UnknownName otherwise."""
    if not isinstance(name_or_uuid, str) or not name_or_uuid:
        raise FieldError("server", "is no name", "give the uuid or the name of a server")
    return store.resolve(name_or_uuid, None if context.is_admin else context.project_id)


class ServersView:
    """Lists and shows servers and migrations."""

    def __init__(self, store: ServerStore) -> None:
        self._store = store
        self.methods: Mapping[str, Method] = {
            "list_servers": self.list_servers,
            "get_server": self.get_server,
            "list_migrations": self.list_migrations,
        }

    def list_servers(self, context: RequestContext, filters: Any = None) -> Record:
        """The servers that match all filters, by uuid: {"servers": [...]}; of the caller's project for others.

        `filters`: host, project_id, status, name; after and limit, for paging.
        """
        wanted = _checked_filters(filters)
        limit, after, status = (wanted.pop(name, None) for name in ("limit", "after", "status"))
        if not context.is_admin:
            wanted |= {"project_id": context.project_id}
            wanted.pop("host", None)
        matching = ServerFilters(**wanted, statuses=None if status is None else [status])
        most = MOST_LISTED if limit is None else min(int(limit), MOST_LISTED)
        found = self._store.list_page(matching, BY_UUID, after, most)
        faults = self._store.read_latest_faults([each.uuid for each in found if shows_fault(each)])
        return {"servers": [describe_server(each, faults.get(each.uuid), context.is_admin) for each in found]}

    def get_server(self, context: RequestContext, server: str) -> Record:
        """One server, by uuid or name; for admins with its migrations, and its latest fault whatever its status.

        So an admin learns why a move was undone, after which the server is what it was before.
        """
        found = find_server(self._store, context, server)
        if not context.is_admin:
            return self.describe_server(context, found)
        fault = self._store.read_latest_faults([found.uuid]).get(found.uuid)
        return describe_fully(found, fault, self._store.list_migrations(found.uuid))

    def describe_server(self, context: RequestContext, server: Server) -> Record:
        """A server as the caller sees it."""
        faults = self._store.read_latest_faults([server.uuid]) if shows_fault(server) else {}
        return describe_server(server, faults.get(server.uuid), context.is_admin)

    def list_migrations(self, context: RequestContext, server: str | None = None, host: str | None = None) -> Record:
        """Migrations of a server, from or to a host, or all, the latest first: {"migrations": [...]}.

        Hosts are for admins.
        """
        uuid = find_server(self._store, context, server).uuid if server else None
        if not isinstance(host, str | None):
            raise FieldError("host", f"{str(host)[:60]!r} is no name")
        wanted = host if context.is_admin else None  # else the answer would tell where a server was
        found = self._store.list_migrations(uuid, wanted) if uuid or context.is_admin else []
        return {"migrations": [describe_migration(each, context.is_admin) for each in found]}


def _checked_filters(filters: Any) -> dict[str, Any]:
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        raise FieldError("filters", "is no object")
    for name, value in filters.items():
        if name not in _FILTERS:
            raise FieldError(f"filters.{str(name)[:40]}", "is not known", nearest(str(name), _FILTERS))
        if name == "limit" and not str(value).isdecimal():
            raise FieldError("filters.limit", f"{str(value)[:20]!r} is no number")
        if name != "limit" and not isinstance(value, str | None):
            raise FieldError(f"filters.{name}", f"{str(value)[:20]!r} is no text")
    return {name: value for name, value in filters.items() if value is not None}
