# SPDX-License-Identifier: Apache-2.0
"""Who is let in: the dependency that each route has, before its body is looked at.

The token is judged first, then the version, then the rule, and then the form of the body; what is in it, and whose
it is, is for the handler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request

from roost.api.call import ApiParts, Call
from roost.api.edge import Exchange
from roost.api.microversions import NEWEST, Microversion
from roost.errors import BadInput, Forbidden, TokenRefused, UnknownName, nearest

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
