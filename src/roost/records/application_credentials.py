# SPDX-License-Identifier: Apache-2.0
"""Application credentials: with one, a script signs in as a user, for one project, without the user's password."""

from __future__ import annotations

import hmac
import secrets
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, delete, insert, or_, select

from roost.clock import Clock
from roost.errors import BadInput, Conflict, Forbidden, UnknownName
from roost.model.uuids import canonical_uuid
from roost.records.tokens import digest_of
from roost.records.users import check_name, check_role, with_implied
from roost.store.columns import fits
from roost.store.schema.access import application_credentials as credentials
from roost.store.schema.access import role_assignments
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, write, writing

SECRET_BYTES = 32


@dataclass(frozen=True)
class ApplicationCredential:
    """A credential of a user for one project, without its secret."""

    id: str
    user_id: str
    project_id: str
    name: str
    roles: frozenset[str]
    expires_at: datetime | None = None
    created_at: datetime | None = None


class ApplicationCredentialStore:
    """Application credentials in one database. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: tells the time where the database has no clock of its own (SQLite)."""
        self._engine, self._times = engine, StoreClock(engine, clock)

    def create(
        self,
        user_id: str,
        project_id: str,
        name: str,
        roles: Collection[str] | None = None,
        expires_at: datetime | None = None,
    ) -> tuple[ApplicationCredential, str]:
        """A new credential and its secret, which is random and not kept.

        `roles`: None: all that the user has in the project; Forbidden for one that it has not. Conflict where the
        user has a credential of this name, BadInput for one that has expired already.
        """
        check_name(credentials.c.name, name, "application credential")
        for role in roles or ():
            check_role(role)
        key, secret = str(uuid.uuid4()), secrets.token_urlsafe(SECRET_BYTES)

        def insert_one(connection: Connection) -> ApplicationCredential:
            if expires_at is not None and expires_at <= self._times.read(connection):
                raise BadInput(f"expires_at: {expires_at:%Y-%m-%dT%H:%M:%SZ} is over", "give a time to come")
            _check_name_is_free(connection, user_id, name)
            row: dict[str, Any] = {
                "id": key,
                "user_id": user_id,
                "project_id": project_id,
                "name": name,
                "expires_at": expires_at,
            }
            row |= {"roles": _granted(connection, user_id, project_id, roles), "secret_digest": digest_of(secret)}
            connection.execute(insert(credentials).values(row | {"created_at": self._times.stamp()}))
            return _credential(connection.execute(select(credentials).where(credentials.c.id == key)).one())

        return write(self._engine, insert_one), secret

    def list_credentials(self, user_id: str) -> list[ApplicationCredential]:
        """All credentials of a user, by name."""
        wanted = select(credentials).where(credentials.c.user_id == user_id).order_by(credentials.c.name)
        with database_errors(self._engine), self._engine.connect() as connection:
            return [_credential(row) for row in connection.execute(wanted)]

    def find(self, user_id: str, name_or_id: str) -> ApplicationCredential:
        """The credential of this user with this id or name; UnknownName where there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            return _read(connection, user_id, name_or_id)

    def delete(self, user_id: str, name_or_id: str) -> None:
        """Delete a credential of this user, with all tokens that were issued for it."""
        with writing(self._engine) as connection:
            found = _read(connection, user_id, name_or_id)
            connection.execute(delete(credentials).where(credentials.c.id == found.id))

    def verify(self, credential_id: str, secret: str) -> ApplicationCredential | None:
        """The credential with this id if it has this secret, compared in constant time, and is not expired."""
        if not fits(credentials.c.id, credential_id):
            return None
        wanted = select(credentials, self._times.stamp().label("now"))
        with database_errors(self._engine), self._engine.connect() as connection:
            row = connection.execute(wanted.where(credentials.c.id == canonical_uuid(credential_id))).first()
        if row is None or not hmac.compare_digest(row.secret_digest, digest_of(secret)):
            return None
        return None if row.expires_at is not None and row.expires_at <= row.now else _credential(row)


def _check_name_is_free(connection: Connection, user_id: str, name: str) -> None:
    same = (credentials.c.user_id == user_id) & (credentials.c.name == name)
    if connection.execute(select(credentials.c.id).where(same)).first():
        raise Conflict(f"the user has an application credential {name!r} already")


def _granted(connection: Connection, user_id: str, project_id: str, roles: Collection[str] | None) -> list[str]:
    """The roles that a credential gets; Forbidden where the user lacks one, or has none."""
    own = (role_assignments.c.user_id == user_id) & (role_assignments.c.target_id == project_id)
    held = set(connection.scalars(select(role_assignments.c.role).where(own)))
    wanted = held if roles is None else set(roles)
    if not wanted or not wanted <= with_implied(held):
        lacking = ", ".join(sorted(wanted - with_implied(held))) or "a role"
        raise Forbidden(f"the user has not {lacking} in this project")
    return sorted(wanted)


def _read(connection: Connection, user_id: str, name_or_id: str) -> ApplicationCredential:
    is_meant = or_(credentials.c.id == canonical_uuid(name_or_id), credentials.c.name == name_or_id)
    wanted = select(credentials).where(credentials.c.user_id == user_id, is_meant)
    row = connection.execute(wanted).first() if fits(credentials.c.name, name_or_id) else None
    if row is None:
        raise UnknownName(f"there is no application credential {name_or_id[:60]!r}")
    return _credential(row)


def _credential(row: Row[Any]) -> ApplicationCredential:
    times = row.expires_at, row.created_at
    return ApplicationCredential(row.id, row.user_id, row.project_id, row.name, frozenset(row.roles), *times)
