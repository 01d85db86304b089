# SPDX-License-Identifier: Apache-2.0
"""Sign-in and tokens: /identity/v3/auth."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request, Response

from roost.api.call import ApiParts, Call, CurrentCall, accepted, answer
from roost.api.identity.bodies import DOMAIN_ID, DOMAIN_NAME, Auth, AuthBody
from roost.api.identity.catalog import describe_catalog
from roost.api.times import keystone_time
from roost.api.versions import base_of
from roost.errors import BadInput, TokenRefused, UnknownName
from roost.records.sign_in import SignIn
from roost.records.tokens import AcceptedToken, IssuedToken

DOMAIN = {"id": DOMAIN_ID, "name": DOMAIN_NAME}
SubjectToken = Annotated[str, Header(alias="X-Subject-Token", min_length=1, max_length=4096)]
NoCatalog = Annotated[str | None, Query(max_length=255, description="leave out the catalog, whatever the value")]


def sign_in(request: Request, body: AuthBody, nocatalog: NoCatalog = None) -> Response:
    """A new token, in the header X-Subject-Token, and what it is good for."""
    source = request.client.host if request.client else ""
    issued = _issue(sign_in_of(request.app.state.parts), body.auth, source)
    request.state.exchange.about |= {"user": issued.accepted.caller.user_id}
    record = describe_token(issued.accepted, base_of(request), nocatalog is None)
    return answer({"token": record}, 201, {"X-Subject-Token": issued.secret, "Vary": "X-Auth-Token"})


def _issue(door: SignIn, auth: Auth, source: str) -> IssuedToken:
    proofs, target = auth.identity, auth.target
    method = proofs.methods[0]
    if method == "password" and proofs.password is not None:
        user = proofs.password.user
        return door.with_password(user.key, user.password, target, source)
    if method == "token" and proofs.token is not None:
        return door.with_token(proofs.token.id, target)
    if method == "application_credential" and proofs.application_credential is not None:
        given = proofs.application_credential
        user_key = given.user.key if given.user is not None else ""
        return door.with_application_credential(
            given.secret, given.id or "", given.name or "", user_key, source, target
        )
    raise BadInput(f"auth.identity: the method is {method}, and there is no {method}", f"add {method}")


def show_token(call: CurrentCall, subject: SubjectToken, nocatalog: NoCatalog = None) -> Response:
    """What a token is good for."""
    found = _find(call, subject)
    call.authorize("identity:validate_token", {"user_id": found.caller.user_id, "project_id": None})
    record = describe_token(found, call.base_url, nocatalog is None)
    return answer({"token": record}, headers={"X-Subject-Token": subject, "Vary": "X-Auth-Token"})


def check_token(call: CurrentCall, subject: SubjectToken) -> Response:
    """Whether a token is valid."""
    found = _find(call, subject)
    call.authorize("identity:check_token", {"user_id": found.caller.user_id, "project_id": None})
    return accepted(200)


def revoke_token(call: CurrentCall, subject: SubjectToken) -> Response:
    """Make a token invalid, at once."""
    found = _find(call, subject)
    call.authorize("identity:revoke_token", {"user_id": found.caller.user_id, "project_id": None})
    sign_in_of(call.parts).tokens.revoke(subject)
    return accepted(204)


def show_catalog(call: CurrentCall) -> Response:
    """Where each API is."""
    return answer(
        {"catalog": describe_catalog(call.base_url), "links": {"self": call.link("/identity/v3/auth/catalog")}}
    )


def _find(call: Call, subject: str) -> AcceptedToken:
    try:
        return sign_in_of(call.parts).tokens.authenticate(subject)
    except TokenRefused:
        raise UnknownName("The token could not be found.") from None


def sign_in_of(parts: ApiParts) -> SignIn:
    """What issues tokens; UnknownName where a Keystone does that."""
    if parts.sign_in is None:
        raise UnknownName(f"tokens are issued by {parts.authenticator.sign_in_address or 'no service (noauth2)'}")
    return parts.sign_in


def describe_token(token: AcceptedToken, base_url: str, with_catalog: bool = True) -> dict[str, Any]:
    """A token as Identity v3 has it, without its secret. An unscoped one has neither roles nor a catalog."""
    caller = token.caller
    record: dict[str, Any] = {
        "methods": [token.method],
        "user": {"domain": DOMAIN, "id": caller.user_id, "name": caller.user_name, "password_expires_at": None},
        "audit_ids": [token.id],
        "issued_at": keystone_time(token.issued_at),
        "expires_at": keystone_time(token.expires_at),
    }
    if caller.is_unscoped:
        return record
    if token.application_credential_id is not None:
        credential = {"id": token.application_credential_id, "name": token.application_credential_name}
        record["application_credential"] = credential | {"restricted": True}
    record["roles"] = [{"id": each, "name": each} for each in sorted(caller.roles)]
    if with_catalog:
        record["catalog"] = describe_catalog(base_url)
    if caller.is_system:
        return record | {"system": {"all": True}}
    project = {"domain": DOMAIN, "id": caller.project_id, "name": caller.project_name}
    return record | {"project": project, "is_domain": False}
