# SPDX-License-Identifier: Apache-2.0
"""One call of the API as handlers see it: who calls, in which version, and what they may ask for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from sqlalchemy import Engine

from roost.api.authentication import Authenticator
from roost.api.bounded_work import BoundedWork
from roost.api.microversions import Microversion
from roost.api.options import ApiOptions
from roost.api.policy import Policy
from roost.client.interface import CloudClient
from roost.clock import Clock
from roost.errors import BadInput, UnknownName
from roost.messages.context import RequestContext
from roost.model.uuids import canonical_uuid, is_uuid
from roost.options.settings import Settings
from roost.records.server import DELETED, Server
from roost.records.servers import ServerStore
from roost.records.sign_in import SignIn
from roost.records.tokens import Caller

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
