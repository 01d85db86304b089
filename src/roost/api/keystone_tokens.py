# SPDX-License-Identifier: Apache-2.0
"""Tokens of a real Keystone, validated with keystoneauth and remembered for a minute."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import AUTH_INTERFACE

from roost.clock import Clock
from roost.errors import IdentityUnavailable, TokenRefused
from roost.nova_cloud.keystone_section import KeystoneSection
from roost.options.files import one_line, read_file
from roost.records.tokens import Caller, digest_of

KEYSTONE_SECTION = KeystoneSection(
    "keystone_authtoken", "identity", ("internal", "public"), "write there what nova-api's nova.conf has"
)
CACHE_SECONDS = 60.0
"""How long a token is good without asking Keystone again, which is how late a revocation is noticed."""
MOST_CACHED = 10_000
MOST_CHECKS = 40 + 32
"""Threads of an API process that may ask Keystone at the same time: of requests, as anyio has them, and of event
streams, as asyncio has them at most."""
LONGEST_TOKEN = 8192
"""Characters of a token of Keystone."""


def open_keystone_tokens(files: Sequence[Path], clock: Clock) -> KeystoneTokens:
    """A validator by [keystone_authtoken] of these config files; OptionError where that is wrong."""
    sections = [read_file(file).get(KEYSTONE_SECTION.name, {}) for file in files]
    told = (
        section["www_authenticate_uri"][-1] for section in reversed(sections) if "www_authenticate_uri" in section
    )
    address = next(told, None) or KEYSTONE_SECTION.describe(files).get("auth_url")
    return KeystoneTokens(KEYSTONE_SECTION.make_adapter(files, MOST_CHECKS), clock, address)


class _Cached(NamedTuple):
    caller: Caller
    until: float
    """By the monotonic clock."""


class KeystoneTokens:
    """Tokens of a Keystone, which is asked for each once a minute. Thread-safe; the cache is bounded."""

    def __init__(self, adapter: Adapter, clock: Clock, sign_in_address: str | None = None) -> None:
        """`adapter`: of `KEYSTONE_SECTION`, with a user that may validate tokens. `clock`: by which answers age.

        `sign_in_address`: where clients get a token.
        """
        self.sign_in_address = sign_in_address
        self._session, self._override = adapter.session, adapter.endpoint_override
        self._clock, self._lock = clock, threading.Lock()
        self._cache: OrderedDict[str, _Cached] = OrderedDict()

    def authenticate(self, token: str) -> Caller:
        """The caller; TokenRefused where Keystone does not know the token, IdentityUnavailable without an answer."""
        if not token.isascii() or not token.isprintable() or not 0 < len(token) <= LONGEST_TOKEN:
            raise _refusal()
        digest, now = digest_of(token), self._clock.monotonic()
        with self._lock:
            known = self._cache.get(digest)
        if known is None or known.until <= now:
            known = self._ask(token, now)
            self._remember(digest, known)
        return known.caller

    def _remember(self, digest: str, found: _Cached) -> None:
        with self._lock:
            self._cache[digest] = found
            self._cache.move_to_end(digest)
            while len(self._cache) > MOST_CACHED:
                self._cache.popitem(last=False)

    def _ask(self, token: str, now: float) -> _Cached:
        record = self._validate(token)
        try:
            caller = _caller(record)
            left = (datetime.fromisoformat(record["expires_at"]) - self._clock.now()).total_seconds()
        except (KeyError, TypeError, ValueError) as error:
            raise IdentityUnavailable(f"Keystone's answer is not understood: {one_line(error)}") from None
        if left <= 0:
            raise _refusal()
        if not caller.project_id and not caller.is_system:
            raise TokenRefused("the token is for no project", "sign in to a project")
        return _Cached(caller, now + min(left, CACHE_SECONDS))

    def _validate(self, token: str) -> Any:
        """The record of a token as Keystone has it. A token of our own that expired is renewed by keystoneauth."""
        try:
            answer = self._session.get(
                "/auth/tokens?nocatalog",
                headers={"X-Subject-Token": token, "Accept": "application/json"},
                endpoint_filter={"interface": AUTH_INTERFACE, "version": (3, 0)},
                endpoint_override=self._override,
                raise_exc=False,
                log=False,
            )
        except exceptions.ClientException as error:
            raise IdentityUnavailable(
                f"Keystone cannot be asked: {one_line(error)}", "is it running, and is [keystone_authtoken] right?"
            ) from None
        if answer.status_code in (401, 404):
            raise _refusal()
        if answer.status_code != 200:
            raise IdentityUnavailable(f"Keystone answers with status {answer.status_code}")
        try:
            return answer.json()["token"]
        except (ValueError, KeyError, TypeError):
            raise IdentityUnavailable(
                "Keystone's answer is not understood", "is auth_url that of Keystone?"
            ) from None


def _caller(record: Any) -> Caller:
    project = record.get("project") or {"id": "", "name": ""}
    return Caller(
        user_id=str(record["user"]["id"]),
        user_name=str(record["user"]["name"]),
        project_id=str(project["id"]),
        project_name=str(project["name"]),
        roles=frozenset(str(each["name"]) for each in record.get("roles", ())),
        is_system=bool((record.get("system") or {}).get("all")),
    )


def _refusal() -> TokenRefused:
    return TokenRefused("the token is unknown, expired or revoked", "sign in again")
