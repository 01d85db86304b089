# SPDX-License-Identifier: Apache-2.0
"""Lists of servers, page by page: what a query asks for, as filters of the store.

Other lists take from here how clients ask for a page, the link to the next one, and values of queries as clients send
them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode

from fastapi import Query, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from roost.api.call import Call, CurrentCall, answer
from roost.api.compute.body_types import LARGEST_NUMBER
from roost.api.compute.servers import describe_briefly, describe_servers
from roost.api.edge import has_no_text
from roost.errors import BadInput, Forbidden
from roost.records.listing import ASCENDING, DESCENDING, ServerFilters
from roost.records.server import NO_STATE, RUNNING, SHUTDOWN, Server

PageLimit = Annotated[int | None, Query(ge=0, le=LARGEST_NUMBER, description="entries at most")]
Marker = Annotated[str | None, Query(max_length=255, description="id of the last entry of the page before")]
Direction = Literal["asc", "desc"]


def page_size(call: Call, limit: int | None) -> int:
    """How many entries a page has at most: as many as were asked for, if no more than [api] max_limit."""
    most = call.parts.options.max_limit
    return most if limit is None else min(limit, most)


def next_links(call: Call, collection: str, ids: Sequence[str], size: int) -> dict[str, Any]:
    """`<collection>_links` with the address of the next page; empty if the page is not full, so it is the last one.

    `ids`: of the entries of this page, as markers name them.
    """
    if not ids or len(ids) < size:
        return {}
    path, _, query = call.url.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "marker"]
    address = call.link(f"{path}?{urlencode([*kept, ('marker', ids[-1])])}")
    return {f"{collection}_links": [{"rel": "next", "href": address}]}


TRUE_WORDS, FALSE_WORDS = ("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no")


def _parse_flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("", *TRUE_WORDS, *FALSE_WORDS):
        raise ValueError(f"{text[:40]!r} is neither true nor false")
    return text not in FALSE_WORDS


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError("the time is out of range") from None


Limit = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
QueryFlag = Annotated[bool, BeforeValidator(_parse_flag)]
"""True, too, where a client gives the key alone."""
QueryTime = Annotated[datetime, AfterValidator(_in_utc)]
"""ISO 8601; without a zone in UTC."""

INDEX, DETAIL = "os_compute_api:servers:index", "os_compute_api:servers:detail"
ALL_FILTERS = "os_compute_api:servers:allow_all_filters"
_ALL_PROJECTS = "{}:get_all_tenants"
_DELETED = "DELETED"
_KEYS_OF_ADMINS = ("host", "node")
_AS_THEY_ARE = (
    *("flavor", "image", "availability_zone", "reservation_id", "user_id", "created_at", "launched_at"),
    "terminated_at",
)
_OF_NO_SERVER = (
    *("ip", "ip6", "tags", "tags_any", "locked", "locked_by", "key_name", "config_drive", "kernel_id", "ramdisk_id"),
    "root_device_name",
)
_PATTERNS = {
    "display_name": "name",
    "name": "name",
    "display_description": "description",
    "description": "description",
    **{name: name for name in ("hostname", "access_ip_v4", "access_ip_v6")},
}
"""Key of a query -> what a regular expression is searched for in."""
_TWO_NAMES = (("name", "display_name"), ("description", "display_description"), ("project_id", "tenant_id"))
"""Keys of a query for one thing."""
_DISK_CONFIGS: Mapping[bool, tuple[str | None, ...]] = {True: ("AUTO",), False: ("MANUAL", None)}
_POWER_STATES: Mapping[int, tuple[str | None, ...]] = {0: (NO_STATE, None), 1: (RUNNING,), 4: (SHUTDOWN,)}
"""Number of nova's -> power states."""
Pattern = Annotated[
    str | None, Field(max_length=255, description="a regular expression that is found in it; case does not matter")
]


class ServerQuery(BaseModel):
    """What the lists of servers can be asked for; host, node, deleted and the project by administrators alone."""

    model_config = ConfigDict(populate_by_name=True)

    limit: Limit | None = None
    marker: str | None = None
    sort_key: list[str] = Field(default=[], max_length=20)
    sort_dir: list[str] = Field(default=[], max_length=20)
    name: Pattern = None
    display_name: Pattern = None
    description: Pattern = None
    display_description: Pattern = None
    hostname: Pattern = None
    access_ip_v4: Pattern = None
    access_ip_v6: Pattern = None
    status: list[str] = Field(default=[], max_length=50)
    vm_state: list[str] = Field(default=[], max_length=50)
    task_state: list[str] = Field(default=[], max_length=50)
    power_state: int | None = Field(None, description="0: none, 1: running, 4: shut down; no server has another one")
    launch_index: int | None = Field(None, ge=0, le=LARGEST_NUMBER)
    auto_disk_config: QueryFlag | None = None
    created_at: QueryTime | None = None
    launched_at: QueryTime | None = None
    terminated_at: QueryTime | None = None
    uuid: list[str] = Field(default=[], max_length=1000)
    flavor: str | None = None
    image: str | None = None
    host: str | None = None
    node: str | None = None
    availability_zone: str | None = None
    reservation_id: str | None = None
    project_id: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    metadata: str | None = Field(None, description="entries that a server has, as a JSON object")
    all_tenants: QueryFlag = False
    deleted: QueryFlag = False
    soft_deleted: QueryFlag = Field(False, description="no server is deleted softly: without an effect")
    changes_since: QueryTime | None = Field(None, alias="changes-since")
    changes_before: QueryTime | None = Field(None, alias="changes-before")
    ip: str | None = None
    ip6: str | None = None
    tags: str | None = None
    tags_any: str | None = Field(None, alias="tags-any")
    not_tags: str | None = Field(None, alias="not-tags")
    not_tags_any: str | None = Field(None, alias="not-tags-any")
    locked: QueryFlag | None = None
    locked_by: str | None = None
    key_name: str | None = None
    config_drive: QueryFlag | None = None
    kernel_id: str | None = None
    ramdisk_id: str | None = None
    root_device_name: str | None = None
    progress: int | None = Field(None, description="of all servers it is 0")


Query_ = Annotated[ServerQuery, Query()]


def list_servers(query: Query_, call: CurrentCall) -> Response:
    """Servers with their ids and names."""
    found, links = _read(call, query, INDEX)
    return answer({"servers": [describe_briefly(call, each) for each in found], **links})


def list_details(query: Query_, call: CurrentCall) -> Response:
    """Servers with all that is known of them."""
    found, links = _read(call, query, DETAIL)
    return answer({"servers": describe_servers(call, found), **links})


def _read(call: Call, query: ServerQuery, rule: str) -> tuple[list[Server], dict[str, Any]]:
    """A page, and the link to the next one. `rule`: of the list."""
    for one, other in _TWO_NAMES:
        if getattr(query, one) and getattr(query, other):
            raise BadInput(f"{one} and {other} are the same filter: give one of them")
    sees_all_filters = call.allows(ALL_FILTERS)
    wanted = _filters(call, query, rule, sees_all_filters)
    if _asks_for_what_none_has(query):
        return [], {}
    size = page_size(call, query.limit)
    found = call.parts.servers.list_page(wanted, _sort(query, sees_all_filters), query.marker, size)
    return found, next_links(call, "servers", [each.uuid for each in found], size)


def _filters(call: Call, query: ServerQuery, rule: str, sees_all_filters: bool) -> ServerFilters:
    common = {
        "patterns": {name: pattern for key, name in _PATTERNS.items() if (pattern := getattr(query, key))},
        "vm_states": query.vm_state or None,
        "task_states": query.task_state or None,
        "power_states": None if query.power_state is None else _POWER_STATES.get(query.power_state, ()),
        "launch_indexes": None if query.launch_index is None else [query.launch_index, query.launch_index or None],
        "disk_configs": None if query.auto_disk_config is None else _DISK_CONFIGS[query.auto_disk_config],
        "statuses": [each.upper() for each in query.status] or None,
        "uuids": query.uuid or None,
        "project_id": _project(call, query, rule, sees_all_filters),
        "changes_since": query.changes_since,
        "changes_before": query.changes_before,
        "deleted": _deleted(query, sees_all_filters),
        **{name: getattr(query, name) for name in _AS_THEY_ARE},
    }
    if sees_all_filters:
        common |= {name: getattr(query, name) for name in _KEYS_OF_ADMINS}
    return ServerFilters(**common, metadata=_metadata(query.metadata))


def _project(call: Call, query: ServerQuery, rule: str, sees_all_filters: bool) -> str | None:
    """Whose servers are listed; None: those of all projects, which needs a right of its own.

    Another project than the caller's can be named only together with all_tenants, as in nova.
    """
    if not query.all_tenants:
        return call.caller.project_id
    call.authorize(_ALL_PROJECTS.format(rule))
    return (query.project_id or query.tenant_id) if sees_all_filters else None


def _deleted(query: ServerQuery, sees_all_filters: bool) -> bool | None:
    """Which servers by their end: those left, those deleted, or both, where a client asks what has changed."""
    if _DELETED in (each.upper() for each in query.status):
        if not sees_all_filters:
            raise Forbidden("Only administrators may list deleted instances")
        return None if len(query.status) > 1 else True
    if sees_all_filters and "deleted" in query.model_fields_set:
        return query.deleted
    return None if query.changes_since or query.changes_before else False


def _metadata(text: str | None) -> dict[str, str]:
    """The entries of a filter by metadata, JSON in a query."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or len(found) > 20 or not all(map(_is_text, (*found, *found.values()))):
        raise BadInput(
            'Invalid input for field/attribute metadata. It is no object of at most 20 texts: {"KEY":"VALUE"}'
        )
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not has_no_text(value)


def _asks_for_what_none_has(query: ServerQuery) -> bool:
    """Whether a filter is about something that no server has, such as addresses, tags and locks."""
    return bool(query.progress) or any(getattr(query, name) for name in _OF_NO_SERVER)


def _sort(query: ServerQuery, sees_all_filters: bool) -> list[tuple[str, str]]:
    """Pairs of key and direction; the newest first where the query has none."""
    keys = [each for each in query.sort_key if sees_all_filters or each not in _KEYS_OF_ADMINS] or ["created_at"]
    directions = query.sort_dir or [DESCENDING]
    for each in directions:
        if each not in (ASCENDING, DESCENDING):
            raise BadInput(f"Unknown sort direction, must be '{DESCENDING}' or '{ASCENDING}'")
    return [(key, directions[min(at, len(directions) - 1)]) for at, key in enumerate(keys)]
