# SPDX-License-Identifier: Apache-2.0
"""Sign-in: a password, a token or an application credential in, a new token out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TypeVar

from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import DatabaseError, SignInRefused, TokenRefused, UnknownName
from roost.identity.application_credentials import ApplicationCredentialStore
from roost.identity.attempts import AttemptLimiter, source_of
from roost.identity.passwords import DEFAULT_COST, ScryptCost, verify_password
from roost.identity.projects import ProjectStore
from roost.identity.roles import SYSTEM, UNSCOPED
from roost.identity.tokens import APPLICATION_CREDENTIAL, PASSWORD, TOKEN, IssuedToken, TokenStore, digest_of
from roost.identity.users import User, UserStore

LIFETIME_SECONDS = 3600.0
"""How long a token is valid; Keystone's default."""
PRUNING_SECONDS = 600.0
"""How often expired tokens are removed."""
Proof = TypeVar("Proof")


class SignIn:
    """Issues tokens for valid credentials. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        lifetime_seconds: float = LIFETIME_SECONDS,
        cost: ScryptCost = DEFAULT_COST,
    ) -> None:
        """`cost`: of a hash for a user that does not exist; that of an existing user is stored with it."""
        self._users, self._projects = UserStore(engine, clock), ProjectStore(engine, clock)
        self._credentials = ApplicationCredentialStore(engine, clock)
        self.tokens = TokenStore(engine, clock)
        self._clock, self._lifetime, self._cost = clock, lifetime_seconds, cost
        self._limiter = AttemptLimiter(clock)
        self._pruning, self._pruned_at = threading.Lock(), clock.monotonic()

    def with_password(self, user: str, password: str, scope: str | None, source: str = "") -> IssuedToken:
        """A token for a user, by name or id, who gives its password.

        `scope`: a project, by name or id, SYSTEM or UNSCOPED; None: the only one in which the user has a role, and
        UNSCOPED where there is none, or several. `source`: the address it comes from. SignInRefused says only that
        something is wrong; TooManyAttempts how long to wait.
        """
        found, stored = self._users.find_login(user)
        self._prove(found.id if found else user, source, lambda: verify_password(password, stored, self._cost))
        if found is None or not found.enabled:
            raise _refusal()
        with _proof_needed():
            return self._issue(found, scope, PASSWORD, stored)

    def with_token(self, secret: str, scope: str | None) -> IssuedToken:
        """A token in exchange for another of the same user; it expires with that one.

        `scope`: as with a password; None: what the given token is for. TokenRefused where that is not valid. A token
        of an application credential is good for its own project only.
        """
        given = self.tokens.authenticate(secret)
        own = SYSTEM if given.caller.is_system else given.caller.project_id
        target = own if scope is None else self._find_target(scope)
        if given.application_credential_id is None:
            grants = self._read_grants(given.caller.user_id)
        else:
            grants = {own: given.caller.roles}
        return self.tokens.issue(
            given.caller.user_id,
            target,
            _granted(grants, target),
            TOKEN,
            self._lifetime,
            not_after=given.expires_at,
            application_credential_id=given.application_credential_id,
            exchanged=given.digest,
        )

    def with_application_credential(
        self,
        secret: str,
        credential_id: str = "",
        name: str = "",
        user: str = "",
        source: str = "",
        scope: str | None = None,
    ) -> IssuedToken:
        """A token for the project of an application credential, which is named by its id, or by its name and user.

        `source`: the address it comes from. `scope`: SignInRefused for anything but that project.
        """
        key = credential_id or self._find_credential(user, name)
        found = self._prove(f"credential {key}", source, lambda: self._credentials.verify(key, secret))
        if scope is not None and self._find_target(scope) != found.project_id:
            raise _refusal()
        with _proof_needed():
            return self.tokens.issue(
                found.user_id,
                found.project_id,
                found.roles,
                APPLICATION_CREDENTIAL,
                self._lifetime,
                not_after=found.expires_at,
                application_credential_id=found.id,
            )

    def _find_credential(self, user: str, name: str) -> str:
        """The id of the credential; the name itself, which is no id, where there is none."""
        try:
            return self._credentials.find(self._users.find(user).id, name).id
        except UnknownName:
            return f"{user}/{name}"

    def _prove(self, name: str, source: str, proof: Callable[[], Proof | None]) -> Proof:
        """What the proof comes to; SignInRefused where that is false. After too many failures it is not tried."""
        key, source = digest_of(name), source_of(source)
        proven, is_success = None, None
        self._limiter.begin(key, source)
        try:
            proven = proof()
            is_success = bool(proven)
        finally:
            self._limiter.settle(key, source, is_success)
        if not proven:
            raise _refusal()
        self._prune_now_and_then()
        return proven

    def _issue(self, user: User, scope: str | None, method: str, password_hash: str | None) -> IssuedToken:
        grants = self._read_grants(user.id)
        if scope is None:
            with_roles = [target for target, roles in grants.items() if roles]
            target = with_roles[0] if len(with_roles) == 1 else UNSCOPED
        else:
            target = self._find_target(scope)
        roles = _granted(grants, target)
        return self.tokens.issue(user.id, target, roles, method, self._lifetime, password_hash=password_hash)

    def _read_grants(self, user_id: str) -> dict[str, frozenset[str]]:
        """What a user can get a token for -> the roles that it has there; UNSCOPED needs none."""
        return self._users.read_roles(user_id) | {UNSCOPED: frozenset()}

    def _find_target(self, scope: str) -> str:
        if scope in (SYSTEM, UNSCOPED):
            return scope
        try:
            return self._projects.find(scope).id
        except UnknownName:
            raise _refusal() from None

    def _prune_now_and_then(self) -> None:
        now = self._clock.monotonic()
        with self._pruning:
            if now - self._pruned_at < PRUNING_SECONDS:
                return
            self._pruned_at = now
        with suppress(DatabaseError):  # the next time will do
            self.tokens.prune_expired()


def _granted(grants: Mapping[str, frozenset[str]], target: str) -> frozenset[str]:
    """The roles of a token for the target; SignInRefused where none is to be had."""
    if target not in grants:
        raise _refusal()
    return grants[target]


@contextmanager
def _proof_needed() -> Iterator[None]:
    """Within it, a proof that has ended while the token was written is refused as a wrong one is."""
    try:
        yield
    except TokenRefused:
        raise _refusal() from None


def _refusal() -> SignInRefused:
    return SignInRefused("the user name, the secret or the project is wrong", "look at all three")
