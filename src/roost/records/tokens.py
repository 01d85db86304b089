# SPDX-License-Identifier: Apache-2.0
"""Tokens in the database, and the caller of the API whose token was accepted.

Stored is the SHA-256 digest: who reads the database cannot use a token. A token is random and holds nothing; what it
allows is read anew for each request. So a token that was revoked, or whose user lost its rights, is refused at once.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Row, and_, delete, insert, or_, select, true

from roost.clock import Clock
from roost.errors import TokenRefused, UnknownName
from roost.records.users import SYSTEM, UNSCOPED, with_implied
from roost.store.columns import fits
from roost.store.schema.access import application_credentials, projects, role_assignments, tokens, users
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors, writing


@dataclass(frozen=True)
class Caller:
    """Who calls, for which project, with which roles there.

    A token is for one project, for the system, or unscoped, without any role. `project_id` is empty for the latter
    two, and `is_system` tells them apart.
    """

    user_id: str
    user_name: str
    project_id: str
    project_name: str
    roles: frozenset[str]
    is_system: bool = False

    @property
    def is_unscoped(self) -> bool:
        """Whether the token is for nothing: it says who calls, and is exchanged for one of a project."""
        return not self.project_id and not self.is_system


PASSWORD, TOKEN, APPLICATION_CREDENTIAL = "password", "token", "application_credential"
"""Methods of sign-in."""
RANDOM_BYTES = 32
PREFIX = "roost-"
"""Of each token, so that a search for leaked secrets finds it, and no command takes it for an option."""
LONGEST_TOKEN = 512
"""Characters of a token that is looked at."""
ID_LENGTH = 16
"""Digits of the digest by which people name a token."""


@dataclass(frozen=True)
class AcceptedToken:
    """A token that is valid now, without its secret: for whom it is, and until when."""

    digest: str
    caller: Caller
    method: str
    issued_at: datetime
    expires_at: datetime
    description: str | None = None
    application_credential_id: str | None = None
    application_credential_name: str | None = None

    @property
    def id(self) -> str:
        """By which people name the token: the first digits of its digest."""
        return self.digest[:ID_LENGTH]

    @property
    def is_for_something(self) -> bool:
        """Whether its user still has a role where it is for; an unscoped one needs none."""
        return bool(self.caller.roles) or self.caller.is_unscoped


@dataclass(frozen=True)
class IssuedToken:
    """A new token. Its secret is nowhere else, so it is shown once, and never in a log."""

    secret: str = field(repr=False)
    accepted: AcceptedToken


def digest_of(secret: str) -> str:
    """SHA-256 of a token, or of the secret of an application credential, in hexadecimal digits."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class TokenStore:
    """Tokens in one database. Thread-safe."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        """`clock`: tells the time where the database has no clock of its own (SQLite)."""
        self._engine, self._times = engine, StoreClock(engine, clock)

    def issue(
        self,
        user_id: str,
        target_id: str,
        roles: Iterable[str],
        method: str,
        lifetime_seconds: float,
        *,
        not_after: datetime | None = None,
        description: str | None = None,
        application_credential_id: str | None = None,
        password_hash: str | None = None,
        exchanged: str | None = None,
    ) -> IssuedToken:
        """A new token of a user for a project, by id, for SYSTEM or UNSCOPED; TokenRefused without a role there.

        It allows what these roles allow, and the user at the time of use. `not_after`: it expires then at the latest.
        What the user has proven must hold until the token is written, or else it is refused: the application
        credential exists, the hash of the password is `password_hash`, the token with the digest `exchanged` exists.
        """
        secret = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
        row: dict[str, Any] = {"user_id": user_id, "target_id": target_id, "roles": sorted(roles), "method": method}
        row |= {"description": description, "application_credential_id": application_credential_id}
        with writing(self._engine) as connection:
            _hold_proof(connection, user_id, application_credential_id, password_hash, exchanged)
            now = self._times.read(connection)
            expires_at = now + timedelta(seconds=lifetime_seconds)
            row |= {"expires_at": min(expires_at, not_after or expires_at), "created_at": now}
            connection.execute(insert(tokens).values(row | {"digest": digest_of(secret)}))
            return IssuedToken(secret, self._accept(connection, secret))

    def authenticate(self, secret: str) -> AcceptedToken:
        """The token with this secret; TokenRefused if it is not valid, or its user or project is disabled."""
        if not secret or len(secret) > LONGEST_TOKEN:
            raise _refusal()
        with database_errors(self._engine), self._engine.connect() as connection:
            return self._accept(connection, secret)

    def _accept(self, connection: Connection, secret: str) -> AcceptedToken:
        digest = digest_of(secret)
        present = self._times.stamp().label("now")
        rows = connection.execute(_SELECT.add_columns(present).where(tokens.c.digest == digest)).all()
        if not rows or not hmac.compare_digest(rows[0].digest, digest) or rows[0].expires_at <= rows[0].now:
            raise _refusal()
        found = _token(rows)
        if not found.is_for_something:
            raise _refusal()
        return found

    def list_tokens(self, user_id: str | None = None) -> list[AcceptedToken]:
        """Tokens that are valid, of one user or of all, those that expire last first."""
        wanted = _SELECT.where(tokens.c.expires_at > self._times.stamp())
        if user_id is not None:
            wanted = wanted.where(tokens.c.user_id == user_id)
        found: dict[str, list[Row[Any]]] = {}
        with database_errors(self._engine), self._engine.connect() as connection:
            for row in connection.execute(wanted.order_by(tokens.c.expires_at.desc(), tokens.c.digest)):
                found.setdefault(row.digest, []).append(row)
        return [token for rows in found.values() if (token := _token(rows)).is_for_something]

    def revoke(self, secret: str) -> None:
        """End a token; TokenRefused where there is none with this secret."""
        with writing(self._engine) as connection:
            if not connection.execute(delete(tokens).where(tokens.c.digest == digest_of(secret))).rowcount:
                raise _refusal()

    def revoke_by_id(self, token_id: str) -> str:
        """End the token that people name so: its digest. UnknownName where there is none, or several."""
        is_id = len(token_id) >= ID_LENGTH and fits(tokens.c.digest, token_id)
        wanted = select(tokens.c.digest).where(tokens.c.digest.startswith(token_id, autoescape=True))
        with writing(self._engine) as connection:
            found = connection.scalars(wanted.limit(2)).all() if is_id else []
            if len(found) != 1:
                raise UnknownName(f"there is no token {token_id[:60]!r}", "see roost token list")
            connection.execute(delete(tokens).where(tokens.c.digest == found[0]))
            return str(found[0])

    def prune_expired(self) -> int:
        """Remove tokens that have expired: how many."""
        with writing(self._engine) as connection:
            is_over = tokens.c.expires_at <= self._times.read(connection)
            return connection.execute(delete(tokens).where(is_over)).rowcount


def _hold_proof(
    connection: Connection, user_id: str, credential_id: str | None, password_hash: str | None, exchanged: str | None
) -> None:
    """Raise TokenRefused where a proof no longer holds. If it does, nothing changes it before the transaction ends.

    Who sets a password locks the user first, and then deletes the tokens: all that were written under this lock.
    """
    needed = [select(users.c.password_hash).where(users.c.id == user_id)]
    if exchanged is not None:
        needed.append(select(tokens.c.digest).where(tokens.c.digest == exchanged))
    if credential_id is not None:
        needed.append(select(application_credentials.c.id).where(application_credentials.c.id == credential_id))
    rows = [connection.execute(each.with_for_update(read=True)).first() for each in needed]
    if None in rows or (password_hash is not None and rows[0] != (password_hash,)):
        raise _refusal()


_HAS_NO_PROJECT = tokens.c.target_id.in_([SYSTEM, UNSCOPED])
_SELECT = (
    select(
        tokens,
        users.c.name.label("user_name"),
        projects.c.name.label("project_name"),
        role_assignments.c.role.label("present_role"),
        application_credentials.c.name.label("credential_name"),
    )
    .join_from(tokens, users, and_(tokens.c.user_id == users.c.id, users.c.enabled.is_(true())))
    .outerjoin(projects, tokens.c.target_id == projects.c.id)
    .outerjoin(application_credentials, tokens.c.application_credential_id == application_credentials.c.id)
    .outerjoin(
        role_assignments,
        and_(role_assignments.c.user_id == tokens.c.user_id, role_assignments.c.target_id == tokens.c.target_id),
    )
    .where(or_(_HAS_NO_PROJECT, projects.c.enabled.is_(true())))
)
"""Tokens of users and projects that are enabled: a row for each role that the user has there now."""


def _token(rows: Sequence[Row[Any]]) -> AcceptedToken:
    row = rows[0]
    present = with_implied(each.present_role for each in rows if each.present_role is not None)
    is_system = row.target_id == SYSTEM
    caller = Caller(
        user_id=row.user_id,
        user_name=row.user_name,
        project_id="" if is_system else row.target_id,
        project_name=row.project_name or "",
        roles=with_implied(row.roles) & present,
        is_system=is_system,
    )
    more = row.description, row.application_credential_id, row.credential_name
    return AcceptedToken(row.digest, caller, row.method, row.created_at, row.expires_at, *more)


def _refusal() -> TokenRefused:
    return TokenRefused("the token is unknown, expired or revoked", "sign in again")
