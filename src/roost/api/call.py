# SPDX-License-Identifier: Apache-2.0
"""One call of the API as handlers see it: who calls, in which version, and what they may ask for.

`Admission`, the dependency that each route has, lets callers in before the body is looked at: it judges the token
first, then the version, then the rule, and then the form of the body; what is in it, and whose it is, is for the
handler. `[api] auth_strategy` says which `Authenticator` is asked whose a token is.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from fastapi import Depends, Request, Response
from sqlalchemy import Engine

from roost.api.bounded_work import BoundedWork
from roost.api.edge import Exchange
from roost.api.microversions import NEWEST, Microversion
from roost.api.options import ApiOptions
from roost.api.policy import Policy
from roost.client.interface import CloudClient
from roost.clock import Clock
from roost.errors import BadInput, Forbidden, TokenRefused, UnknownName, nearest
from roost.messages.context import RequestContext
from roost.model.uuids import canonical_uuid, is_uuid
from roost.options.settings import Settings
from roost.records.server import DELETED, Server
from roost.records.servers import ServerStore
from roost.records.sign_in import SignIn
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


Target = Mapping[str, str | None]
"""What a rule is about: project_id and user_id of its owner."""


@dataclass(frozen=True)
class ApiParts:
    """What handlers share."""

    settings: Settings
    options: ApiOptions
    engine: Engine
    clock: Clock
    authenticator: Authenticator
    policy: Policy
    client_for: Callable[[RequestContext], CloudClient]
    servers: ServerStore
    sign_in: SignIn | None
    """What issues tokens; None with a Keystone, which does it itself, and under noauth2."""
    is_stopping: threading.Event = field(default_factory=threading.Event)
    config_files: Sequence[Path] = ()
    """Say where plugins are."""
    fleet_work: BoundedWork = field(default_factory=BoundedWork)
    """Answers that look at the whole fleet take part of it."""


@dataclass(frozen=True)
class Call:
    """A call whose caller is known and may make it."""

    parts: ApiParts
    caller: Caller
    version: Microversion
    request_id: str
    base_url: str
    """Scheme, host and prefix of links, without a slash at its end."""
    url: str
    """Path and query as they were sent."""

    @property
    def is_admin(self) -> bool:
        """Whether the caller sees what belongs to others."""
        return self.parts.policy.is_admin(self.caller)

    @property
    def own_target(self) -> Target:
        """The caller's own project and user, as the owner that a rule is about."""
        return {"project_id": self.caller.project_id, "user_id": self.caller.user_id}

    def authorize(self, rule: str, target: Target | None = None) -> None:
        """Raise Forbidden unless the rule allows the caller what belongs to `target`, by default to themselves."""
        self.parts.policy.authorize(self.caller, rule, self.own_target if target is None else target)

    def allows(self, rule: str, target: Target | None = None) -> bool:
        """Whether the rule allows it."""
        return self.parts.policy.allows(self.caller, rule, self.own_target if target is None else target)

    def find_server(self, uuid: str, rule: str) -> Server:
        """The server with this uuid; UnknownName for one that the caller may not see, Forbidden by the rule."""
        known = self.parts.servers.find([canonical_uuid(uuid)]) if is_uuid(uuid) else []
        found = next((each for each in known if self.may_see(each.project_id)), None)
        if found is None or found.vm_state == DELETED:
            raise UnknownName(f"Instance {uuid[:60]} could not be found.")
        self.authorize_for(rule, found)
        return found

    def authorize_for(self, rule: str, server: Server) -> None:
        """Raise Forbidden unless the rule allows it for this server."""
        self.authorize(rule, owner_of(server))

    def may_see(self, project_id: str | None) -> bool:
        """Whether something of this project is visible to the caller."""
        return self.is_admin or (bool(self.caller.project_id) and project_id == self.caller.project_id)

    def context(self, **rights: bool) -> RequestContext:
        """The context of messages to conductors.

        `rights`: of this request: is_admin for what the rules leave to more than administrators, may_name_hosts.
        """
        caller = self.caller
        rights = {"is_admin": self.is_admin, **rights}
        return RequestContext.new(
            self.request_id,
            caller.user_id,
            caller.project_id,
            user_name=caller.user_name,
            project_name=caller.project_name,
            roles=sorted(caller.roles),
            **rights,
        )

    @property
    def client(self) -> CloudClient:
        """A client of the conductors, in the name of the caller."""
        return self.client_with()

    def client_with(self, **rights: bool) -> CloudClient:
        """A client of the conductors, in the name of the caller, with rights of this request."""
        return self.parts.client_for(self.context(**rights))

    def link(self, path: str) -> str:
        """The address of something on this server, such as /v2.1/servers/ID."""
        return f"{self.base_url}{path}"


@contextmanager
def named_in_body() -> Iterator[None]:
    """Within it, a name that does not exist is one of the body: bad input, and no address without a resource."""
    try:
        yield
    except UnknownName as error:
        raise BadInput(error.message, error.hint) from None


def owner_of(server: Server) -> Target:
    """The owner of a server, as what a rule is about."""
    return {"project_id": server.project_id, "user_id": server.user_id}


def current_call(request: Request) -> Call:
    """The call that admission has let in."""
    found: Call = request.state.call
    return found


CurrentCall = Annotated[Call, Depends(current_call)]


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer with a JSON body."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Response(body, status, headers, "application/json")


def accepted(status: int = 202, headers: Mapping[str, str] | None = None) -> Response:
    """An answer without a body: the change has begun, or is done."""
    return Response(None, status, headers)


TOKEN_HEADER = "x-auth-token"  # noqa: S105 - a name


@dataclass(frozen=True)
class QueryCheck:
    """Refuses what of a query would be ignored: a key that is not known, and one value of several."""

    keys: Mapping[str, bool]
    """Key -> whether it may be given several times."""
    since: Microversion
    """Older versions ignore it."""

    def check(self, given: Sequence[str]) -> None:
        """Raise BadInput for a key that is not known, or is there twice and has one value. `given`: keys as sent."""
        for key in given:
            if key not in self.keys:
                problem = f"Additional properties are not allowed ({key[:60]!r} was unexpected)"
                raise BadInput(problem, nearest(key, self.keys))
            if not self.keys[key] and given.count(key) > 1:
                raise BadInput(f"Invalid input for query parameters {key}: it is given {given.count(key)} times")


class Admission:
    """Checks token, microversion and rule of a request, and leaves a `Call` for its handler."""

    def __init__(
        self, rules: Sequence[str], oldest: Microversion, newest: Microversion, takes_unscoped: bool = False
    ) -> None:
        """`rules`: one of them must allow the request; which one of several counts is for the handler to check.

        `takes_unscoped`: whether a token for no project will do. Files of policy cannot change that.
        """
        self._rules, self._oldest, self._newest = rules, oldest, newest
        self._takes_unscoped = takes_unscoped
        self.query_check: QueryCheck | None = None
        """None: the query is not looked at."""

    def __call__(self, request: Request) -> None:
        """Raise TokenRefused, UnknownName or Forbidden for a request that is not let in."""
        parts: ApiParts = request.app.state.parts
        exchange: Exchange = request.state.exchange
        token = request.headers.get(TOKEN_HEADER, "")
        if not token:
            raise TokenRefused("The request you have made requires authentication.")
        caller = parts.authenticator.authenticate(token)
        exchange.about |= {"user": caller.user_id, "project": caller.project_id}
        if caller.is_unscoped and not self._takes_unscoped:
            raise Forbidden("the token is for no project", "exchange it for one that is, by a sign-in with a scope")
        if exchange.version_error is not None:
            raise exchange.version_error
        version = exchange.version or NEWEST
        if not self._oldest <= version <= self._newest:
            raise UnknownName(f"The resource could not be found in version {version}.")
        self._check_project(request, caller.project_id)
        call = Call(
            parts,
            caller,
            version,
            exchange.request_id,
            base_url_of(request, parts.options.compute_link_prefix),
            request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        )
        if not any(call.allows(rule) for rule in self._rules):
            call.authorize(self._rules[0])
        if self.query_check and version >= self.query_check.since:
            self.query_check.check([key for key, _ in request.query_params.multi_items()])
        if exchange.body_error is not None:
            raise exchange.body_error
        request.state.call = call

    def _check_project(self, request: Request, project_id: str) -> None:
        named = request.scope.get("project_in_path")
        if named is not None and named != project_id:
            raise BadInput(
                f"Malformed request URL: URL's project_id '{named[:60]}' doesn't match Context's project_id "
                f"'{project_id}'"
            )


def check_form(request: Request) -> None:
    """Raise what is wrong with the version or the body of a request that needs no token."""
    exchange: Exchange = request.state.exchange
    error = exchange.version_error or exchange.body_error
    if error is not None:
        raise error


def base_url_of(request: Request, prefix: str | None) -> str:
    """Scheme and host of links: `prefix` if there is one, else as the client addressed this server."""
    return prefix.rstrip("/") if prefix else f"{request.url.scheme}://{request.url.netloc}"
