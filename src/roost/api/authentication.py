# SPDX-License-Identifier: Apache-2.0
"""Who a token belongs to. `[api] auth_strategy` says which of these is asked."""

from __future__ import annotations

from typing import Protocol

from roost.errors import TokenRefused
from roost.records.tokens import Caller, TokenStore

LONGEST_NAME = 255


class Authenticator(Protocol):
    """Knows the callers of tokens."""

    @property
    def sign_in_address(self) -> str | None:
        """Where a token can be got; None: from this API."""

    def authenticate(self, token: str) -> Caller:
        """Who this token belongs to. TokenRefused for one that is unknown, expired or revoked.

        It may wait for a database or for Keystone, so it is called in a thread.
        """


class OwnTokens:
    """Tokens of Roost's own users. Each is looked up each time, so one that was revoked is refused at once."""

    sign_in_address: str | None = None

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens

    def authenticate(self, token: str) -> Caller:
        """The caller; TokenRefused for a token that is unknown, expired or revoked."""
        return self._tokens.authenticate(token).caller


class NoAuth:
    """Everybody is an administrator: `noauth2`, on loopback addresses alone.

    A token may say who the caller wants to be: USER or USER:PROJECT.
    """

    sign_in_address: str | None = None

    def authenticate(self, token: str) -> Caller:
        """An administrator with the names in the token; TokenRefused for one that is too long to be a name."""
        if len(token) > LONGEST_NAME:
            raise TokenRefused(f"the token has more than {LONGEST_NAME} characters")
        user, _, project = token.partition(":")
        own = project or user
        return Caller(user, user, own, own, frozenset({"admin", "member", "reader"}))
