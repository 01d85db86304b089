# SPDX-License-Identifier: Apache-2.0
"""Users in the database, with their passwords and with their roles in projects and in the system."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Row, delete, insert, select, update

from roost.clock import Clock
from roost.errors import Conflict, UnknownName
from roost.identity.names import check_name, read_named
from roost.identity.passwords import DEFAULT_COST, ScryptCost, hash_password
from roost.identity.projects import read_project
from roost.identity.roles import SYSTEM, check_role
from roost.store.schema import projects, role_assignments, tokens, users
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing


@dataclass(frozen=True)
class User:
    """A user of Roost's own; one that is not enabled can neither sign in nor use a token."""

    id: str
    name: str
    enabled: bool = True
    created_at: datetime | None = None


class Assignment(NamedTuple):
    """A role that a user has in a project, or in the system."""

    user_id: str
    target_id: str
    """The id of a project, or SYSTEM."""
    target_name: str
    role: str


class UserStore:
    """Users and their roles in one database. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock, cost: ScryptCost = DEFAULT_COST) -> None:
        """`clock`: stamps records where the database has no clock of its own. `cost`: of hashing new passwords."""
        self._engine, self._times, self._cost = engine, StoreClock(engine, clock), cost

    def create(self, name: str, password: str | None, roles: Mapping[str, str]) -> User:
        """A new user with a new id. `roles`: project, by name or id, or SYSTEM -> role there.

        Conflict where the name is taken, UnknownName for a project, BadInput for a name, password or role. Without a
        password there is no sign-in as that user; tokens can be made for it.
        """
        check_name(users.c.name, name, "user")
        for role in roles.values():
            check_role(role)
        hashed = None if password is None else hash_password(password, self._cost)
        key = str(uuid.uuid4())

        def insert_one(connection: Connection) -> User:
            if connection.execute(select(users.c.id).where(users.c.name == name)).first():
                raise Conflict(f"there is a user {name!r} already")
            row = {"id": key, "name": name, "password_hash": hashed, "created_at": self._times.stamp()}
            connection.execute(insert(users).values(row))
            for target, role in roles.items():
                _write_role(connection, key, target, role)
            return read_user(connection, key)

        return write(self._engine, insert_one)

    def list_users(self) -> list[User]:
        """All users, by name."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return [User(*row) for row in connection.execute(_SELECT.order_by(users.c.name))]

    def find(self, name_or_id: str) -> User:
        """The user with this id or name; UnknownName where there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return read_user(connection, name_or_id)

    def find_login(self, name_or_id: str) -> tuple[User | None, str | None]:
        """The user with this id or name and the hash of its password; None for what there is not."""
        with database_errors(self._engine), self._engine.connect() as connection:
            row = read_named(connection, users, name_or_id)
        return (None, None) if row is None else (_user(row), row.password_hash)

    def delete(self, name_or_id: str) -> User:
        """Delete a user with its roles, tokens and application credentials."""
        with writing(self._engine) as connection:
            found = read_user(connection, name_or_id)
            connection.execute(delete(users).where(users.c.id == found.id))
            return found

    def change(
        self,
        name_or_id: str,
        *,
        password: str | None = None,
        is_enabled: bool | None = None,
        roles: Mapping[str, str | None] = MappingProxyType({}),
    ) -> User:
        """Change what is given of a user, all of it or, where something is refused, none: the user then.

        A new password ends all tokens of the user, as the old one may have leaked. `roles`: project, by name or id,
        or SYSTEM -> the only role there; None: no role.
        """
        for wanted in filter(None, roles.values()):
            check_role(wanted)
        values: dict[str, Any] = {} if is_enabled is None else {"enabled": is_enabled}
        if password is not None:
            values["password_hash"] = hash_password(password, self._cost)
        with writing(self._engine) as connection:
            found = read_user(connection, name_or_id)
            if values:
                connection.execute(update(users).where(users.c.id == found.id).values(values))
            if password is not None:
                connection.execute(delete(tokens).where(tokens.c.user_id == found.id))
            for target, role in roles.items():
                _write_role(connection, found.id, target, role)
            return read_user(connection, found.id)

    def set_enabled(self, name_or_id: str, is_enabled: bool) -> User:
        """Let the user sign in, or refuse it and all its tokens."""
        return self.change(name_or_id, is_enabled=is_enabled)

    def set_password(self, name_or_id: str, password: str) -> User:
        """Set a new password; all tokens of the user are revoked, as the old one may have leaked."""
        return self.change(name_or_id, password=password)

    # --- roles -------------------------------------------------------------------------------------------

    def set_role(self, name_or_id: str, target: str, role: str | None) -> User:
        """Give the user this role, and no other, in a project, by name or id, or in SYSTEM; None: no role there."""
        return self.change(name_or_id, roles={target: role})

    def list_assignments(self, user_id: str | None = None) -> list[Assignment]:
        """Roles of one user or of all, by the name of their target."""
        name = projects.c.name
        columns = (role_assignments.c.user_id, role_assignments.c.target_id, name, role_assignments.c.role)
        wanted = select(*columns).outerjoin_from(
            role_assignments, projects, role_assignments.c.target_id == projects.c.id
        )
        if user_id is not None:
            wanted = wanted.where(role_assignments.c.user_id == user_id)
        with database_errors(self._engine), self._engine.connect() as connection:
            rows = connection.execute(wanted.order_by(name, role_assignments.c.role)).all()
        return [Assignment(row[0], row[1], row[2] or row[1], row[3]) for row in rows]

    def read_roles(self, user_id: str) -> dict[str, frozenset[str]]:
        """Id of an enabled project, or SYSTEM -> the roles that the user was given there, without implied ones."""
        joined = role_assignments.outerjoin(projects, role_assignments.c.target_id == projects.c.id)
        wanted = select(role_assignments.c.target_id, role_assignments.c.role).select_from(joined)
        counts = (role_assignments.c.target_id == SYSTEM) | projects.c.enabled.is_(True)
        found: dict[str, set[str]] = defaultdict(set)
        with database_errors(self._engine), self._engine.connect() as connection:
            for target, role in connection.execute(wanted.where(role_assignments.c.user_id == user_id, counts)):
                found[target].add(role)
        return {target: frozenset(roles) for target, roles in found.items()}


_SELECT = select(users.c.id, users.c.name, users.c.enabled, users.c.created_at)


def read_user(connection: Connection, name_or_id: str) -> User:
    """The user with this id or, failing that, this name; UnknownName where there is none."""
    row = read_named(connection, users, name_or_id)
    if row is None:
        raise UnknownName(f"there is no user {name_or_id[:60]!r}", "see roost user list")
    return _user(row)


def _user(row: Row[Any]) -> User:
    return User(row.id, row.name, row.enabled, row.created_at)


def _write_role(connection: Connection, user_id: str, target: str, role: str | None) -> None:
    """Replace the roles of a user in a target; of two that do so at once the user gets the later one, not both."""
    connection.execute(select(users.c.id).where(users.c.id == user_id).with_for_update())
    key = SYSTEM if target == SYSTEM else read_project(connection, target).id
    own = (role_assignments.c.user_id == user_id) & (role_assignments.c.target_id == key)
    connection.execute(delete(role_assignments).where(own))
    if role is not None:
        connection.execute(insert(role_assignments).values(user_id=user_id, target_id=key, role=role))
