# SPDX-License-Identifier: Apache-2.0
"""Application credentials, by which scripts sign in: /identity/v3/users/{user_id}/application_credentials."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response

from roost.api.admission import TOKEN_HEADER
from roost.api.call import Call, CurrentCall, accepted, answer
from roost.api.identity.bodies import CredentialBody
from roost.api.identity.tokens import sign_in_of
from roost.api.times import keystone_time, parse_time
from roost.errors import BadInput, Forbidden, UnknownName
from roost.records.application_credentials import ApplicationCredential, ApplicationCredentialStore


def create_credential(call: CurrentCall, request: Request, user_id: str, body: CredentialBody) -> Response:
    """A new credential of the caller for the project of the token. Its secret is in this answer alone."""
    _check_owner(call, user_id, "identity:create_application_credential")
    _check_token(call, request)
    if not call.caller.project_id:
        raise BadInput("an application credential is for a project, and the token is for the system")
    wanted = body.application_credential
    roles = None if wanted.roles is None else [each.key for each in wanted.roles]
    expires_at = None if wanted.expires_at is None else parse_time(wanted.expires_at, "expires_at")
    made, secret = _store(call).create(user_id, call.caller.project_id, wanted.name, roles, expires_at)
    return answer({"application_credential": _describe(call, made) | {"secret": secret}}, 201)


def list_credentials(
    call: CurrentCall, user_id: str, name: Annotated[str | None, Query(max_length=255)] = None
) -> Response:
    """The credentials of a user."""
    _check_owner(call, user_id, "identity:list_application_credentials")
    known = _store(call).list_credentials(user_id)
    found = [_describe(call, each) for each in known if name in (None, each.name)]
    links = {"self": call.link(call.url), "previous": None, "next": None}
    return answer({"application_credentials": found, "links": links})


def show_credential(call: CurrentCall, user_id: str, credential_id: str) -> Response:
    """A credential of a user, without its secret."""
    _check_owner(call, user_id, "identity:get_application_credential")
    return answer({"application_credential": _describe(call, _store(call).find(user_id, credential_id))})


def delete_credential(call: CurrentCall, request: Request, user_id: str, credential_id: str) -> Response:
    """Delete a credential, and all tokens that were issued for it."""
    _check_owner(call, user_id, "identity:delete_application_credential")
    _check_token(call, request)
    _store(call).delete(user_id, credential_id)
    return accepted(204)


def _check_owner(call: Call, user_id: str, rule: str) -> None:
    """Raise UnknownName for another user's, unless the rule allows them."""
    if user_id != call.caller.user_id and not call.allows(rule, {"user_id": user_id, "project_id": None}):
        raise UnknownName(f"Could not find user: {user_id[:60]}.")
    call.authorize(rule, {"user_id": user_id, "project_id": None})


def _check_token(call: Call, request: Request) -> None:
    """Raise Forbidden for a token of a credential: who has stolen one can neither make others nor delete them."""
    given = sign_in_of(call.parts).tokens.authenticate(request.headers[TOKEN_HEADER])
    if given.application_credential_id is not None:
        raise Forbidden("With a token of an application credential no credential can be created or deleted.")


def _store(call: Call) -> ApplicationCredentialStore:
    sign_in_of(call.parts)
    return ApplicationCredentialStore(call.parts.engine, call.parts.clock)


def _describe(call: Call, credential: ApplicationCredential) -> dict[str, Any]:
    path = f"/identity/v3/users/{credential.user_id}/application_credentials/{credential.id}"
    return {
        "id": credential.id,
        "name": credential.name,
        "description": None,
        "user_id": credential.user_id,
        "project_id": credential.project_id,
        "roles": [{"id": each, "name": each, "domain_id": None} for each in sorted(credential.roles)],
        "expires_at": keystone_time(credential.expires_at),
        "unrestricted": False,
        "access_rules": [],
        "links": {"self": call.link(path)},
    }
