# SPDX-License-Identifier: Apache-2.0
"""Users and projects in the database, and the roles of users in projects and in the system, the cloud as a whole.

Servers belong to projects. Passwords are hashed by scrypt and stored with its parameters and salt, so that a later
version can raise the cost.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Engine, Row, Table, delete, insert, or_, select, update

from roost.clock import Clock
from roost.errors import BadInput, Conflict, UnknownName, nearest
from roost.model.uuids import canonical_uuid
from roost.store.columns import check_rows, fits
from roost.store.schema.access import projects, role_assignments, tokens, users
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing


def check_name(column: Column[Any], name: str, noun: str) -> None:
    """BadInput for a name that is empty, has spaces around it or cannot be stored in the column."""
    if not name or name != name.strip():
        raise BadInput(f"{noun} {name[:60]!r}: a name is not empty, and has no spaces around it")
    if not name.isprintable():
        raise BadInput(f"{noun} {name[:60]!r}: a name has printable characters only")
    check_rows(column.table, [column.name], [(name,)], lambda _: noun)


def read_named(connection: Connection, table: Table, name_or_id: str) -> Row[Any] | None:
    """The row with this id or, failing that, this name; None where there is none. An id comes in any spelling."""
    if not fits(table.c.name, name_or_id):
        return None
    key = canonical_uuid(name_or_id)
    rows = connection.execute(select(table).where(or_(table.c.id == key, table.c.name == name_or_id))).all()
    return min(rows, key=lambda row: bool(row.id != key), default=None)


SALT_BYTES = 16
HASH_BYTES = 32
LONGEST_PASSWORD = 1024
"""Characters; a longer one is refused, so that no client makes the server hash megabytes."""
MOST_THREADS = 4
"""Hashes are made in so many threads, or in as many as there are CPUs: each keeps a CPU busy."""
_HASHING = ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "scrypt")
"""Callers wait. Hashes made in their own threads would leave 16 MiB each in the malloc arenas of all of these."""


class ScryptCost(NamedTuple):
    """Parameters of scrypt: it takes 128 * n * r bytes of memory, and time in proportion to n * r * p."""

    n: int = 2**14
    r: int = 8
    p: int = 1


DEFAULT_COST = ScryptCost()
"""16 MiB and some 40 ms."""


def check_password(password: str) -> None:
    """BadInput for a password that is empty or too long."""
    if not password:
        raise BadInput("the password is empty")
    if len(password) > LONGEST_PASSWORD:
        raise BadInput(f"the password has {len(password)} characters", f"at most {LONGEST_PASSWORD}")


def hash_password(password: str, cost: ScryptCost = DEFAULT_COST) -> str:
    """The text to be stored: `scrypt$n$r$p$salt$hash`, the last two in base64. BadInput for an unfit password."""
    check_password(password)
    salt = os.urandom(SALT_BYTES)
    return "$".join(("scrypt", *map(str, cost), _as_text(salt), _as_text(_scrypt(password, salt, cost))))


def verify_password(password: str, stored: str | None, cost: ScryptCost = DEFAULT_COST) -> bool:
    """Whether this is the password that was stored, compared in constant time.

    None, of a user who has no password or does not exist: False, after the time that a hash of this cost takes.
    """
    known, salt, wanted = _parse(stored if stored is not None else _dummy_hash(cost))
    found = _scrypt(password[:LONGEST_PASSWORD], salt, known)
    return hmac.compare_digest(found, wanted) and stored is not None and len(password) <= LONGEST_PASSWORD


@cache
def _dummy_hash(cost: ScryptCost) -> str:
    return "$".join(("scrypt", *map(str, cost), _as_text(bytes(SALT_BYTES)), _as_text(bytes(HASH_BYTES))))


def _parse(stored: str) -> tuple[ScryptCost, bytes, bytes]:
    _, n, r, p, salt, wanted = stored.split("$")
    return ScryptCost(int(n), int(r), int(p)), base64.b64decode(salt), base64.b64decode(wanted)


def _scrypt(password: str, salt: bytes, cost: ScryptCost) -> bytes:
    memory = 128 * cost.r * (cost.n + cost.p + 2)  # as OpenSSL counts it
    secret = password.encode("utf-8", "surrogatepass")  # JSON may have half a character
    parameters = {"n": cost.n, "r": cost.r, "p": cost.p, "maxmem": memory, "dklen": HASH_BYTES}
    return _HASHING.submit(hashlib.scrypt, secret, salt=salt, **parameters).result()


def _as_text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


ADMIN, MEMBER, READER = "admin", "member", "reader"
ROLES = (ADMIN, MEMBER, READER)
"""Each role implies those after it."""
SYSTEM = "system"
"""The target of a role that is in no project; no project may have this name."""
UNSCOPED = ""
"""The target of a token for nothing: it says who its user is, and gives no role. No project has this id or name."""


def with_implied(roles: Iterable[str]) -> frozenset[str]:
    """The roles and all that they imply: a member may do what a reader may. An unknown role implies nothing."""
    given = frozenset(roles)
    highest = min((ROLES.index(each) for each in given if each in ROLES), default=len(ROLES))
    return given | frozenset(ROLES[highest:])


def check_role(role: str) -> None:
    """BadInput for a role that does not exist."""
    if role not in ROLES:
        raise BadInput(f"there is no role {role[:40]!r}", nearest(role, ROLES))


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
