# SPDX-License-Identifier: Apache-2.0
"""Projects in the database: what servers belong to, and where users have roles."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, insert, select, update

from roost.clock import Clock
from roost.errors import BadInput, Conflict, UnknownName
from roost.identity.names import check_name, read_named
from roost.identity.roles import SYSTEM
from roost.store.schema import projects, role_assignments, tokens
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing


@dataclass(frozen=True)
class Project:
    """A project of Roost's own; sign-in to one that is not enabled is refused."""

    id: str
    name: str
    enabled: bool = True
    created_at: datetime | None = None


class ProjectStore:
    """Projects in one database. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: stamps records where the database has no clock of its own (SQLite)."""
        self._engine, self._times = engine, StoreClock(engine, clock)

    def create(self, name: str) -> Project:
        """A new project with a new id; Conflict where the name is taken, BadInput where it cannot be one."""
        check_name(projects.c.name, name, "project")
        if name == SYSTEM:
            raise BadInput(f"no project can be named {SYSTEM!r}", "the word stands for the cloud as a whole")
        key = str(uuid.uuid4())

        def insert_one(connection: Connection) -> Project:
            if connection.execute(select(projects.c.id).where(projects.c.name == name)).first():
                raise Conflict(f"there is a project {name!r} already")
            connection.execute(insert(projects).values(id=key, name=name, created_at=self._times.stamp()))
            return read_project(connection, key)

        return write(self._engine, insert_one)

    def list_projects(self) -> list[Project]:
        """All projects, by name."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return [_project(row) for row in connection.execute(select(projects).order_by(projects.c.name))]

    def find(self, name_or_id: str) -> Project:
        """The project with this id or name; UnknownName where there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_project(connection, name_or_id)

    def set_enabled(self, name_or_id: str, is_enabled: bool) -> Project:
        """Let users sign in to the project, or refuse them and all its tokens."""
        with writing(self._engine) as connection:
            found = read_project(connection, name_or_id)
            connection.execute(update(projects).where(projects.c.id == found.id).values(enabled=is_enabled))
            return read_project(connection, found.id)

    def delete(self, name_or_id: str) -> Project:
        """Delete a project with all roles in it, its tokens and application credentials. Its servers stay."""
        with writing(self._engine) as connection:
            found = read_project(connection, name_or_id)
            for table in (tokens, role_assignments):
                connection.execute(delete(table).where(table.c.target_id == found.id))
            connection.execute(delete(projects).where(projects.c.id == found.id))
            return found


def read_project(connection: Connection, name_or_id: str) -> Project:
    """The project with this id or, failing that, this name; UnknownName where there is none."""
    row = read_named(connection, projects, name_or_id)
    if row is None:
        raise UnknownName(f"there is no project {name_or_id[:60]!r}", "see roost project list")
    return _project(row)


def _project(row: Row[Any]) -> Project:
    return Project(row.id, row.name, row.enabled, row.created_at)
