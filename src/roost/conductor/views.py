# SPDX-License-Identifier: Apache-2.0
"""What clients see of a cloud: servers, migrations, hosts, flavors, images, and snapshots of it all.

Of hosts: whether they are up and enabled, what they have and what of it is used. Hosts, reasons and snapshots are for
admins.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.options import ConductorSettings
from roost.conductor.parts import Record
from roost.errors import BadInput, FieldError, UnknownName, nearest
from roost.hosts import HostRecord
from roost.hosts.record import describe_host
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.model.descriptions import describe_flavor, describe_image
from roost.options.files import Sections
from roost.records.catalogue import read_flavors, read_images
from roost.records.fleet_export import take_snapshot
from roost.records.listing import ServerFilters
from roost.records.node_reader import read_nodes
from roost.records.node_writer import find_node_ids
from roost.records.outages import read_heartbeat_rule
from roost.records.server import Server
from roost.records.server_views import describe_fully, describe_migration, describe_server, shows_fault
from roost.records.servers import ServerStore
from roost.records.services import read_last_heartbeats, set_service_flags
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors


class HostsView:
    """Lists, shows and disables hosts; lists flavors and images."""

    def __init__(self, engine: Engine, clock: Clock, settings: ConductorSettings) -> None:
        self._engine, self._clock, self._settings = engine, clock, settings
        self._times = StoreClock(engine, clock)
        self.methods: Mapping[str, Method] = {
            "list_hosts": self.list_hosts,
            "get_host": self.get_host,
            "set_host": self.set_host,
            "list_flavors": self.list_flavors,
            "list_images": self.list_images,
        }

    def list_hosts(self, context: RequestContext) -> Record:
        """All hosts, by name: {"hosts": [...]}."""
        _check_admin(context)
        return {"hosts": self._read(None)}

    def get_host(self, context: RequestContext, host: str) -> Record:
        """One host, by its first node; UnknownName where there is none."""
        _check_admin(context)
        if not isinstance(host, str):
            raise FieldError("host", "is no name")
        found = self._read([host])
        if not found:
            known = [each["host"] for each in self._read(None)]
            raise UnknownName(f"Compute host {host[:60]} could not be found.", nearest(host, known))
        return found[0]

    def set_host(
        self,
        context: RequestContext,
        host: str,
        disabled: bool | None = None,
        reason: str | None = None,
        forced_down: bool | None = None,
        dry_run: bool = False,
    ) -> Record:
        """Set the flags of a host that are given: the host as it is then."""
        found = self.get_host(context, host)
        for field, value in (("disabled", disabled), ("forced_down", forced_down)):
            if value is not None and not isinstance(value, bool):
                raise FieldError(field, f"{str(value)[:60]!r} is neither true nor false")
        if reason is not None and not (isinstance(reason, str) and reason.isprintable() and len(reason) <= 255):
            raise FieldError("reason", "cannot be kept", "at most 255 printable characters")
        is_disabled = found["status"] == "disabled" if disabled is None else disabled
        if reason is not None and not is_disabled:
            raise BadInput(f"host {host}: a reason, and it is not disabled", "disable it, or leave out the reason")
        if dry_run:
            wanted = {"disabled": disabled, "reason": reason, "forced_down": forced_down}
            changes = ", ".join(f"{name}: {value}" for name, value in wanted.items() if value is not None)
            step = {"server": None, "name": found["host"], "action": "set host", "host": found["host"]}
            return {"plan": [step | {"summary": changes or "nothing changes"}]}
        set_service_flags(
            self._engine,
            found["host"],
            disabled=disabled,
            disabled_reason=reason,
            forced_down=forced_down,
            now=self._clock.now(),
        )
        return self.get_host(context, host)

    def _read(self, hosts: Collection[str] | None) -> list[Record]:
        down_after = self._settings.seconds_until_down
        with database_errors(self._engine), self._engine.connect() as connection:
            ids = None if hosts is None else find_node_ids(connection, hosts)
            if ids is not None and not ids:
                return []
            rule = read_heartbeat_rule(connection, self._times, down_after)
            nodes = [each.record for each in read_nodes(connection, ids, rule=rule)]
            seen = {each.host: each.seen_at for each in read_last_heartbeats(connection, hosts)}
        nodes.sort(key=lambda record: (record.host, record.nodename))
        return [self._describe(each, seen.get(each.host)) for each in nodes]

    def _describe(self, record: HostRecord, seen_at: datetime | None) -> Record:
        settings = self._settings
        return describe_host(
            record,
            seconds_until_down=settings.seconds_until_down,
            default_zone=settings.default_zone,
            seen_at=seen_at,
        )

    # --- catalogue ---------------------------------------------------------------------------------------

    def list_flavors(self, context: RequestContext) -> Record:
        """All flavors: {"flavors": [...]}."""
        return {"flavors": [describe_flavor(each) for each in read_flavors(self._engine)]}

    def list_images(self, context: RequestContext) -> Record:
        """All images: {"images": [...]}."""
        return {"images": [describe_image(each) for each in read_images(self._engine)]}


def _check_admin(context: RequestContext) -> None:
    if not context.is_admin:
        raise BadInput("only an admin may look at hosts", "ask as an admin")


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


class Snapshots:
    """Answers `get_snapshot`."""

    def __init__(self, engine: Engine, clock: Clock, configured: Sections) -> None:
        """`configured`: the options by which a scheduler decides, where none has recorded its own."""
        self._engine, self._times, self._configured = engine, StoreClock(engine, clock), configured
        self.methods: Mapping[str, Method] = {"get_snapshot": self.get_snapshot}

    def get_snapshot(self, context: RequestContext) -> Record:
        """The content of a snapshot file, as base64: {"snapshot": text}."""
        if not context.is_admin:
            raise BadInput("only an admin may take a snapshot", "ask as an admin")
        return {"snapshot": b64encode(take_snapshot(self._engine, self._times, self._configured).to_bytes()).decode()}
