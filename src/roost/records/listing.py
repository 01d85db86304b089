# SPDX-License-Identifier: Apache-2.0
"""Pages of servers and migrations: filters, order and the row after which a page begins, as conditions in SQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, false, func, or_

from roost.errors import BadInput, nearest
from roost.records.server import DELETED, has_status
from roost.records.text_search import LIKE_ESCAPE, TextSearch
from roost.store.columns import json_text
from roost.store.pages import SortKey
from roost.store.schema.servers import migrations, servers

SORT_KEYS = {
    "created_at": servers.c.created_at,
    "updated_at": servers.c.updated_at,
    "launched_at": servers.c.launched_at,
    "uuid": servers.c.uuid,
    "display_name": servers.c.name,
    "name": servers.c.name,
    "display_description": servers.c.description,
    "vm_state": servers.c.vm_state,
    "task_state": servers.c.task_state,
    "power_state": servers.c.power_state,
    "host": servers.c.host,
    "node": servers.c.node,
    "availability_zone": servers.c.availability_zone,
    "project_id": servers.c.project_id,
    "user_id": servers.c.user_id,
    "image_ref": servers.c.image_id,
    "hostname": servers.c.hostname,
    "launch_index": servers.c.launch_index,
    "access_ip_v4": servers.c.access_ip_v4,
    "access_ip_v6": servers.c.access_ip_v6,
    "auto_disk_config": servers.c.disk_config,
    "terminated_at": servers.c.deleted_at,
}
"""What servers can be sorted by, in the words of nova's API -> column."""
ASCENDING, DESCENDING = "asc", "desc"
NEWEST_FIRST = (("created_at", DESCENDING),)
_ALMOST_A_SECOND = timedelta(microseconds=999_999)
_LAST_SECOND = datetime.max.replace(tzinfo=UTC) - _ALMOST_A_SECOND
_METADATA_KEY = re.compile(r'[^"\\]+')
PATTERN_COLUMNS = {
    name: servers.c[name] for name in ("name", "description", "hostname", "access_ip_v4", "access_ip_v6")
}
"""What can be searched by a regular expression -> column."""


@dataclass(frozen=True)
class ServerFilters:
    """Which servers a list has; None: any."""

    name: str | None = None
    """Exactly this one."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Key of PATTERN_COLUMNS -> a regular expression that is found in it; see `text_search.py`."""
    uuids: Collection[str] | None = None
    statuses: Collection[str] | None = None
    vm_states: Collection[str] | None = None
    task_states: Collection[str | None] | None = None
    host: str | None = None
    node: str | None = None
    flavor: str | None = None
    """Its flavorid; of a flavor without one, its name."""
    image: str | None = None
    """Its id."""
    availability_zone: str | None = None
    project_id: str | None = None
    user_id: str | None = None
    reservation_id: str | None = None
    launch_indexes: Collection[int | None] | None = None
    power_states: Collection[str | None] | None = None
    disk_configs: Collection[str | None] | None = None
    created_at: datetime | None = None
    """Within the second that begins then, as `launched_at` and `terminated_at`."""
    launched_at: datetime | None = None
    terminated_at: datetime | None = None
    deleted: bool | None = False
    """Only those that are deleted, or only those that are not."""
    changes_since: datetime | None = None
    changes_before: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Entries that a server has, all of them."""


_EQUAL = ("name", "host", "node", "availability_zone", "project_id", "user_id", "reservation_id")
_EQUAL_COLUMNS = {name: servers.c[name] for name in _EQUAL} | {"image": servers.c.image_id}
_IN_COLUMNS = {
    "uuids": servers.c.uuid,
    "vm_states": servers.c.vm_state,
    "task_states": servers.c.task_state,
    "launch_indexes": servers.c.launch_index,
    "power_states": servers.c.power_state,
    "disk_configs": servers.c.disk_config,
}
_TIME_COLUMNS = {
    "created_at": servers.c.created_at,
    "launched_at": servers.c.launched_at,
    "terminated_at": servers.c.deleted_at,
}


def server_conditions(dialect: str, wanted: ServerFilters) -> list[ColumnElement[bool]]:
    """The conditions of all filters that are set."""
    equal = {column: getattr(wanted, name) for name, column in _EQUAL_COLUMNS.items()}
    found = [column == value for column, value in equal.items() if value is not None]
    found += _changed_between(servers.c.updated_at, wanted.changes_since, wanted.changes_before)
    for name, column in _IN_COLUMNS.items():
        if (values := getattr(wanted, name)) is not None:
            found.append(_is_one_of(column, values))
    for name, column in _TIME_COLUMNS.items():
        if (moment := getattr(wanted, name)) is not None:
            found.append(column.between(moment, min(moment, _LAST_SECOND) + _ALMOST_A_SECOND))
    found += [_has_entry(dialect, key, value) for key, value in wanted.metadata.items()]
    if wanted.deleted is not None:
        is_deleted = servers.c.vm_state.is_not_distinct_from(DELETED)
        found.append(is_deleted if wanted.deleted else ~is_deleted)
    if wanted.statuses is not None:
        found.append(has_status(wanted.statuses))
    if wanted.flavor is not None:
        ids = (json_text(dialect, servers.c.flavor, key) for key in ("flavorid", "name"))
        found.append(func.coalesce(*ids) == wanted.flavor)
    return found


class PatternFilter:
    """Filters by regular expressions: what LIKE can say of them for the database, and the rest for rows it found."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        """BadInput for a pattern that is not understood."""
        searches = {PATTERN_COLUMNS[name]: TextSearch(name, pattern) for name, pattern in patterns.items()}
        self.conditions = [column.ilike(each.like.text, escape=LIKE_ESCAPE) for column, each in searches.items()]
        """Of all rows that match, and perhaps of others."""
        self._searches = {column: each for column, each in searches.items() if not each.like.is_exact}

    @property
    def columns(self) -> list[ColumnElement[Any]]:
        """Those whose values `matches` has to see; empty: the conditions say all."""
        return list(self._searches)

    def matches(self, values: Sequence[str]) -> bool:
        """Whether a row with these values of the columns matches."""
        return all(search.is_in(value) for search, value in zip(self._searches.values(), values, strict=True))


def _is_one_of(column: ColumnElement[Any], values: Collection[Any]) -> ColumnElement[bool]:
    """Whether a column has one of these values; None stands for no value."""
    named = column.in_([each for each in values if each is not None])
    return or_(named, column.is_(None)) if None in values else named


def _has_entry(dialect: str, key: str, value: str) -> ColumnElement[bool]:
    """Whether a server has an entry in its metadata; none has one whose key is not possible."""
    return json_text(dialect, servers.c.metadata, key) == value if _METADATA_KEY.fullmatch(key) else false()


@dataclass(frozen=True)
class MigrationFilters:
    """Which migrations a list has; None: any."""

    server_uuids: Collection[str] | None = None
    status: str | None = None
    host: str | None = None
    """Source or destination."""
    source_compute: str | None = None
    migration_type: str | None = None
    project_id: str | None = None
    """Of the server, as `user_id`."""
    user_id: str | None = None
    changes_since: datetime | None = None
    changes_before: datetime | None = None


def migration_conditions(wanted: MigrationFilters) -> list[ColumnElement[bool]]:
    """The conditions of all filters that are set, on migrations joined with their servers."""
    equal = {
        migrations.c.status: wanted.status,
        migrations.c.source_compute: wanted.source_compute,
        migrations.c.migration_type: wanted.migration_type,
        servers.c.project_id: wanted.project_id,
        servers.c.user_id: wanted.user_id,
    }
    found = [column == value for column, value in equal.items() if value is not None]
    found += _changed_between(migrations.c.updated_at, wanted.changes_since, wanted.changes_before)
    if wanted.server_uuids is not None:
        found.append(migrations.c.server_uuid.in_(wanted.server_uuids))
    if wanted.host is not None:
        found.append((migrations.c.source_compute == wanted.host) | (migrations.c.dest_compute == wanted.host))
    return found


def _changed_between(
    column: ColumnElement[Any], since: datetime | None, before: datetime | None
) -> list[ColumnElement[bool]]:
    bounds = (column >= since if since is not None else None, column <= before if before is not None else None)
    return [each for each in bounds if each is not None]


# --- order and pages ---------------------------------------------------------------------------------


def server_sort_keys(wanted: Sequence[tuple[str, str]]) -> list[SortKey]:
    """Keys for (name, direction) pairs, by which no two servers are equal; BadInput for one that does not exist."""
    keys = [SortKey(_sort_column(name), _is_descending(direction)) for name, direction in wanted]
    last_direction = keys[-1].is_descending if keys else False
    return [*keys, SortKey(servers.c.uuid, last_direction)]


def _sort_column(name: str) -> ColumnElement[Any]:
    if name not in SORT_KEYS:
        raise BadInput(f"sort_key: servers cannot be sorted by {name[:60]!r}", nearest(name, SORT_KEYS))
    return SORT_KEYS[name]


def _is_descending(direction: str) -> bool:
    if direction not in (ASCENDING, DESCENDING):
        raise BadInput(f"sort_dir: {direction[:60]!r} is no direction", "give asc or desc")
    return direction == DESCENDING


def unknown_marker(marker: str) -> BadInput:
    """The refusal of a page that begins after a row which is not there, in nova's words."""
    return BadInput(f"marker [{marker[:60]}] not found", "give the id of a row of the page before")
