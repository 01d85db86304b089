# SPDX-License-Identifier: Apache-2.0
"""Migrations: all of them for administrators, and the live migrations of a server that are under way."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from roost.api.call import Call, CurrentCall, answer, owner_of
from roost.api.compute.body_types import LARGEST_NUMBER
from roost.api.compute.server_bodies import check_keys
from roost.api.compute.server_list import Limit, QueryFlag, QueryTime, next_links, page_size
from roost.api.microversions import naive_time, v
from roost.errors import UnknownName
from roost.model.uuids import canonical_uuid
from roost.records.listing import MigrationFilters
from roost.records.server import LIVE_MIGRATION, Migration, Server
from roost.records.server_views import ENDED

INDEX = "os_compute_api:os-migrations:index"
ALL_PROJECTS, HOSTS = f"{INDEX}:all_projects", f"{INDEX}:host"
INDEX_RUNNING, SHOW_RUNNING = "os_compute_api:servers:migrations:index", "os_compute_api:servers:migrations:show"
HOSTS_OF_RUNNING = f"{INDEX_RUNNING}:host"
_SINCE = {
    "limit": 59,
    "marker": 59,
    "changes_since": 59,
    "changes_before": 66,
    "user_id": 80,
    "project_id": 80,
}
"""Key of a query -> minor number of the microversion that brought it."""
_PLACES = ("source_compute", "source_node", "dest_compute", "dest_node")
_SIZES = [f"{kind}_{part}_bytes" for kind in ("memory", "disk") for part in ("total", "processed", "remaining")]

MigrationId = Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]


class MigrationQuery(BaseModel):
    """What the list of migrations can be asked for. Keys that are not known are ignored up to version 2.58."""

    model_config = ConfigDict(populate_by_name=True)

    limit: Limit | None = None
    marker: str | None = None
    status: str | None = None
    host: str | None = None
    source_compute: str | None = None
    instance_uuid: str | None = None
    migration_type: str | None = None
    user_id: str | None = None
    project_id: str | None = None
    hidden: QueryFlag = Field(False, description="no migration is hidden")
    changes_since: QueryTime | None = Field(None, alias="changes-since")
    changes_before: QueryTime | None = Field(None, alias="changes-before")


def list_migrations(query: Annotated[MigrationQuery, Query()], call: CurrentCall) -> Response:
    """Migrations of servers, the latest first: of all projects, or of the caller's."""
    is_paged = call.version >= v(59)
    if is_paged:
        check_keys(call, query, _SINCE, {})
    size = page_size(call, query.limit if is_paged else None)
    wanted, marker = _filters(call, query), query.marker if is_paged else None
    found = [] if query.hidden else call.parts.servers.list_migration_page(wanted, marker, size)
    links = next_links(call, "migrations", [each.uuid for each in found], size) if is_paged else {}
    shows_hosts = call.allows(HOSTS)
    return answer({"migrations": [_describe(call, each, shows_hosts) for each in found], **links})


def _filters(call: Call, query: MigrationQuery) -> MigrationFilters:
    if query.host is not None or query.source_compute is not None:
        call.authorize(HOSTS)
    names = ["status", "host", "source_compute", "migration_type"]
    names += ["changes_since", "changes_before"] if call.version >= v(59) else []
    names += ["project_id", "user_id"] if call.version >= v(80) else []
    wanted = {name: getattr(query, name) for name in names}
    if not call.allows(ALL_PROJECTS):
        wanted["project_id"] = call.caller.project_id
    uuids = None if query.instance_uuid is None else [canonical_uuid(query.instance_uuid)]
    return MigrationFilters(server_uuids=uuids, **wanted)


def list_running(server_id: str, call: CurrentCall) -> Response:
    """The live migrations of a server that are under way."""
    server = call.find_server(server_id, INDEX_RUNNING)
    shows_hosts = call.allows(HOSTS_OF_RUNNING, owner_of(server))
    return answer({"migrations": [_describe_running(call, each, shows_hosts) for each in _running(call, server)]})


def show_running(server_id: str, migration_id: MigrationId, call: CurrentCall) -> Response:
    """One live migration of a server that is under way."""
    for each in _running(call, call.find_server(server_id, SHOW_RUNNING)):
        if each.id == migration_id:
            return answer({"migration": _describe_running(call, each, True)})
    raise UnknownName(f"In-progress live migration {migration_id} is not found for server {server_id[:60]}.")


def _running(call: Call, server: Server) -> list[Migration]:
    wanted = MigrationFilters(server_uuids=[server.uuid], migration_type=LIVE_MIGRATION)
    return [each for each in call.parts.servers.list_migration_page(wanted) if _is_running(each)]


def _is_running(migration: Migration) -> bool:
    return migration.migration_type == LIVE_MIGRATION and migration.status not in ENDED


def _describe(call: Call, migration: Migration, shows_hosts: bool) -> dict[str, Any]:
    """A migration in the list of all."""
    found = {
        **_common(call, migration, shows_hosts),
        "instance_uuid": migration.server_uuid,
        "old_instance_type_id": (migration.old_flavor or {}).get("id"),
        "new_instance_type_id": (migration.new_flavor or {}).get("id"),
    }
    if call.version >= v(23):
        found["migration_type"] = migration.migration_type
        if _is_running(migration):
            path = f"/servers/{migration.server_uuid}/migrations/{migration.id}"
            addresses = {"self": f"/v2.1{path}", "bookmark": path}
            found["links"] = [{"rel": name, "href": call.link(each)} for name, each in addresses.items()]
    return found


def _describe_running(call: Call, migration: Migration, shows_hosts: bool) -> dict[str, Any]:
    """A live migration of a server; how far it has got is known to its hypervisor alone."""
    return {**_common(call, migration, shows_hosts), "server_uuid": migration.server_uuid, **dict.fromkeys(_SIZES)}


def _common(call: Call, migration: Migration, shows_hosts: bool) -> dict[str, Any]:
    found = {
        "id": migration.id,
        "status": migration.status,
        **{name: getattr(migration, name) if shows_hosts else None for name in _PLACES},
        "dest_host": None,
        "created_at": naive_time(migration.created_at),
        "updated_at": naive_time(migration.updated_at),
    }
    if call.version >= v(59):
        found["uuid"] = migration.uuid
    if call.version >= v(80):
        found |= {"user_id": migration.user_id, "project_id": migration.project_id}
    return found
