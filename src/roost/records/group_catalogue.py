# SPDX-License-Identifier: Apache-2.0
"""Server groups as clients of the API see, create and delete them; members join and leave with claims.

Schedulers read a group with each request that names it, so no change of one is in the change log.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, delete, func, insert, or_, select, true, update

from roost.errors import BadInput, UnknownName
from roost.model.fields import Checked, OptionalText, Text
from roost.model.group import GROUP_POLICIES, MAX_SERVER, GroupRules
from roost.model.kinds import OneOf
from roost.model.uuids import canonical_uuid
from roost.records.servers import IS_LEFT
from roost.store.columns import check_rows
from roost.store.schema.servers import server_group_members, server_groups, servers
from roost.store.store_clock import PresentTime, stamp_of
from roost.store.transactions import database_errors, write

NEW_POLICIES = tuple(policy for policy in GROUP_POLICIES if policy != "legacy")
"""Policies of which a client may create groups."""
_POLICY = OneOf(NEW_POLICIES, "is no policy", f"one of {', '.join(NEW_POLICIES)}")


@dataclass(frozen=True)
class NewGroup(Checked):
    """A server group that a client creates, without members."""

    name: Text
    policy: Annotated[str, _POLICY]
    rules: Annotated[Mapping[str, Any], GroupRules()] = field(default_factory=dict)
    """`max_server_per_host`, for anti-affinity alone."""
    project_id: OptionalText = None
    user_id: OptionalText = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rules and self.policy != "anti-affinity":
            raise BadInput("Only anti-affinity policy supports rules.")


class GroupRecord(NamedTuple):
    """A server group in the database, with everything that clients are shown of it."""

    id: int
    uuid: str
    name: str
    policy: str | None
    rules: dict[str, int]
    members: tuple[str, ...]
    """Uuids of its servers that are not deleted, sorted; for a project only its own."""
    project_id: str | None
    user_id: str | None
    created_at: datetime | None


_GROUP = server_groups.c
_SELECT = select(server_groups).order_by(_GROUP.id)


# --- write -------------------------------------------------------------------------------------------


def create_group(engine: Engine, wanted: NewGroup, now: PresentTime) -> GroupRecord:
    """Insert a server group with a new uuid; names need not be unique."""
    row = {each: getattr(wanted, each) for each in ("name", "policy", "project_id", "user_id")}
    row |= {"uuid": str(uuid.uuid4()), MAX_SERVER: wanted.rules.get(MAX_SERVER)}
    check_rows(server_groups, tuple(row), [tuple(row.values())], lambda _: "server group")

    def insert_one(connection: Connection) -> GroupRecord:
        connection.execute(insert(server_groups).values(**row, created_at=stamp_of(now)))
        return _find(connection, row["uuid"], None)

    return write(engine, insert_one)


def adopt_group(engine: Engine, name: str, project_id: str, user_id: str) -> None:
    """Give groups with this name that have no owner, as imported ones, to a user of a project."""
    orphans = (_GROUP.name == name, _GROUP.project_id.is_(None), _GROUP.user_id.is_(None))
    owner = {"project_id": project_id, "user_id": user_id}
    write(engine, lambda connection: connection.execute(update(server_groups).where(*orphans).values(owner)))


def delete_group(engine: Engine, group_uuid: str, project_id: str | None = None) -> None:
    """Delete a server group; its members stay where they are. UnknownName if there is none that is visible.

    `project_id`: whose groups are visible, and those of no project; None: all are.
    """

    def delete_one(connection: Connection) -> None:
        # The lock that claims take first; by a unique key alone, so that MariaDB locks no other group.
        wanted = select(_GROUP.id, _GROUP.project_id).where(_GROUP.uuid == canonical_uuid(group_uuid))
        row = connection.execute(wanted.with_for_update()).first()
        if row is None or (project_id is not None and row.project_id not in (None, project_id)):
            raise _unknown(group_uuid)
        connection.execute(delete(server_groups).where(_GROUP.id == row.id))

    write(engine, delete_one)


def _unknown(group_uuid: str) -> UnknownName:
    return UnknownName(f"Instance group {group_uuid} could not be found.")


# --- read --------------------------------------------------------------------------------------------


def get_group(engine: Engine, group_uuid: str, project_id: str | None = None) -> GroupRecord:
    """The server group with this uuid; UnknownName if there is none that is visible.

    `project_id`: whose groups are visible, and those of no project; None: all are.
    """
    with database_errors(engine), engine.connect() as connection:
        return _find(connection, group_uuid, project_id)


def list_groups(
    engine: Engine, project_id: str | None = None, *, offset: int = 0, limit: int | None = None
) -> list[GroupRecord]:
    """Server groups by age: of a project and of no project, or all if it is None."""
    page = _SELECT.where(_is_visible(project_id)).offset(offset).limit(limit)
    with database_errors(engine), engine.connect() as connection:
        return _read(connection, page, project_id)


def read_groups_of_server(engine: Engine, server_uuid: str) -> list[str]:
    """Uuids of the server groups that a server is a member of."""
    member = server_group_members.c
    wanted = select(_GROUP.uuid).join(server_group_members, member.group_id == _GROUP.id)
    with database_errors(engine), engine.connect() as connection:
        return list(connection.scalars(wanted.where(member.server_uuid == server_uuid).order_by(_GROUP.id)))


def count_groups(engine: Engine, project_id: str) -> int:
    """How many server groups a project has."""
    wanted = select(func.count()).select_from(server_groups).where(_GROUP.project_id == project_id)
    with database_errors(engine), engine.connect() as connection:
        return connection.execute(wanted).scalar_one()


def _is_visible(project_id: str | None) -> ColumnElement[bool]:
    return true() if project_id is None else or_(_GROUP.project_id.is_(None), _GROUP.project_id == project_id)


def _find(connection: Connection, group_uuid: str, project_id: str | None) -> GroupRecord:
    own = _SELECT.where(_GROUP.uuid == canonical_uuid(group_uuid), _is_visible(project_id))
    found = _read(connection, own, project_id)
    if not found:
        raise _unknown(group_uuid)
    return found[0]


def _read(connection: Connection, wanted: Select[Any], project_id: str | None) -> list[GroupRecord]:
    """The groups that a SELECT finds, in its order, in two statements; with members of this project, or of all."""
    rows = connection.execute(wanted).all()
    groups, member = wanted.subquery(), server_group_members.c
    parts = (
        select(member.group_id, member.server_uuid)
        .join(groups, groups.c.id == member.group_id)
        .join(servers, servers.c.uuid == member.server_uuid)
        .where(IS_LEFT, true() if project_id is None else servers.c.project_id == project_id)
    )
    members: dict[int, list[str]] = defaultdict(list)
    for group_id, server_uuid in connection.execute(parts.order_by(member.server_uuid)):
        members[group_id].append(server_uuid)
    return [_record(row, tuple(members[row.id])) for row in rows]


def _record(row: Any, members: tuple[str, ...]) -> GroupRecord:
    rules = {} if row.max_server_per_host is None else {MAX_SERVER: row.max_server_per_host}
    return GroupRecord(
        row.id, row.uuid, row.name, row.policy, rules, members, row.project_id, row.user_id, row.created_at
    )
