# SPDX-License-Identifier: Apache-2.0
"""Sign-in: a password, a token or an application credential in, a new token out.

Failed sign-ins are slowed down: after some failures the next attempt has to wait, and longer after each further one.
An attempt counts from its begin: those that are made at the same moment are no more guesses than those that are made
one after another.
"""

from __future__ import annotations

import ipaddress
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import DatabaseError, SignInRefused, TokenRefused, TooManyAttempts, UnknownName
from roost.records.application_credentials import ApplicationCredentialStore
from roost.records.tokens import APPLICATION_CREDENTIAL, PASSWORD, TOKEN, IssuedToken, TokenStore, digest_of
from roost.records.users import (
    DEFAULT_COST,
    SYSTEM,
    UNSCOPED,
    ProjectStore,
    ScryptCost,
    User,
    UserStore,
    verify_password,
)

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


MOST_KEYS = 10_000
"""Names, and sources, whose failures are remembered; beyond that the one that failed longest ago is forgotten."""
FORGET_SECONDS = 900.0
"""Without a failure for that long, all is forgiven."""


@dataclass(frozen=True)
class Patience:
    """How many failures are free, and how long the wait after them may become; it doubles from one second."""

    free_failures: int
    longest_wait_seconds: float

    def wait_seconds(self, failures: int) -> float:
        """How long the next attempt has to wait after so many failures."""
        beyond = failures - self.free_failures
        return 0.0 if beyond < 0 else min(2.0 ** min(beyond, 30), self.longest_wait_seconds)


OF_ONE_NAME = Patience(free_failures=5, longest_wait_seconds=60.0)
"""A stranger can keep a user from signing in, so the wait stays short; it still leaves 1,440 guesses a day."""
OF_ONE_SOURCE = Patience(free_failures=100, longest_wait_seconds=4.0)
"""For one password tried with many names: the wait is for the address it comes from, not for everybody."""


@dataclass
class _Failures:
    count: int
    last_at: float


class AttemptLimiter:
    """Counts failed sign-ins by user name and by source, in this process. Thread-safe; its memory is bounded."""

    def __init__(self, clock: Clock) -> None:
        """`clock`: whose monotonic time the waits are measured by."""
        self._clock, self._settled = clock, threading.Condition()
        self._names, self._sources = _Tally(OF_ONE_NAME), _Tally(OF_ONE_SOURCE)

    def begin(self, name: str, source: str = "") -> None:
        """Begin an attempt, which `settle` has to end. `source`: the address that it comes from.

        TooManyAttempts, with the time to wait, while sign-ins of this name or from this source have to wait. Blocks
        while so many of them are under way that, if all fail, this one has to wait.
        """
        with self._settled:
            while True:
                now = self._clock.monotonic()
                wait = max(self._names.rest(name, now), self._sources.rest(source, now))
                if wait > 0:
                    raise TooManyAttempts("too many failed sign-ins", wait)
                if self._names.has_room(name, now) and self._sources.has_room(source, now):
                    break
                self._settled.wait()
            self._names.under_way[name] += 1
            self._sources.under_way[source] += 1

    def settle(self, name: str, source: str = "", is_success: bool | None = None) -> None:
        """End an attempt. A success forgives the failures of its name, those of others not; None: it was neither."""
        now = self._clock.monotonic()
        with self._settled:
            for tally, key in ((self._names, name), (self._sources, source)):
                tally.end(key)
                if is_success is False:
                    tally.add(key, now)
            if is_success:
                self._names.forget(name)
            self._settled.notify_all()


class _Tally:
    """Failures by key, the latest last."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self.under_way: Counter[str] = Counter()
        """Key -> attempts that were begun and not settled."""

    def __len__(self) -> int:
        return len(self._failures)

    def rest(self, key: str, now: float) -> float:
        """How long to wait until the next attempt; 0 or less: none."""
        known = self._known(key, now)
        return 0.0 if known is None else known.last_at + self._patience.wait_seconds(known.count) - now

    def has_room(self, key: str, now: float) -> bool:
        """Whether one more attempt can begin, even if all that are under way fail. A single one always can."""
        known = self._known(key, now)
        failures = self.under_way[key] + (known.count if known else 0)
        return not self.under_way[key] or failures < self._patience.free_failures

    def end(self, key: str) -> None:
        """Count an attempt no longer as under way."""
        self.under_way[key] -= 1
        if not self.under_way[key]:
            del self.under_way[key]

    def _known(self, key: str, now: float) -> _Failures | None:
        known = self._failures.get(key)
        return None if known is None or now - known.last_at >= FORGET_SECONDS else known

    def add(self, key: str, now: float) -> None:
        """Count one more failure."""
        known = self._known(key, now)
        self._failures.pop(key, None)
        self._failures[key] = _Failures(known.count + 1 if known else 1, now)
        while len(self._failures) > MOST_KEYS:
            self._failures.popitem(last=False)

    def forget(self, key: str) -> None:
        """Forgive the failures of a key."""
        self._failures.pop(key, None)


def source_of(address: str) -> str:
    """Whose failures are counted together: of IPv6 a network of 64 bits, for one client has all of its addresses."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    mapped = found.ipv4_mapped  # how a socket for both versions names clients that use IPv4
    return str(mapped or ipaddress.ip_network((found.packed[:8] + bytes(8), 64)))
