# SPDX-License-Identifier: Apache-2.0
"""The body with which a client signs in at Identity v3, by password, token or application credential."""

from __future__ import annotations

import re
from typing import Any

from roost.client.cloud_access import CREDENTIAL, PASSWORD, CloudAccess
from roost.errors import BadInput

DEFAULT_DOMAIN = {"id": "default"}
_ID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Body = dict[str, Any]


def sign_in_body(access: CloudAccess) -> Body:
    """The body of POST /auth/tokens; BadInput where something is missing."""
    if access.auth_type == CREDENTIAL:
        return {"auth": {"identity": _by(CREDENTIAL, _credential(access))}}  # it has a project of its own
    if access.auth_type == PASSWORD:
        proof = _by(PASSWORD, {"user": {**_user(access), "password": _needed(access, "password")}})
    else:
        proof = _by("token", {"id": _needed(access, "token")})
    return {"auth": {"identity": proof, **_scope(access)}}


def _by(method: str, proof: Body) -> Body:
    return {"methods": [method], method: proof}


def _needed(access: CloudAccess, key: str) -> str:
    found = access.auth.get(key)
    if not found:
        raise BadInput(f"cloud {access.name}: {key} is missing", f"add it below auth, or set OS_{key.upper()}")
    return found


def _user(access: CloudAccess) -> Body:
    if found := access.auth.get("user_id"):
        return {"id": found}
    return {"name": _needed(access, "username"), "domain": _domain(access, "user_domain")}


def _credential(access: CloudAccess) -> Body:
    secret = {"secret": _needed(access, "application_credential_secret")}
    if found := access.auth.get("application_credential_id"):
        return {"id": found, **secret}
    return {"name": _needed(access, "application_credential_name"), "user": _user(access), **secret}


def _scope(access: CloudAccess) -> Body:
    """What the token is for; empty: the user's only project. Who has several gets an unscoped token."""
    auth = access.auth
    if auth.get("system_scope"):
        return {"scope": {"system": {"all": True}}}
    name = auth.get("project_name", "")
    if found := auth.get("project_id") or (name if _ID.fullmatch(name) else None):
        return {"scope": {"project": {"id": found}}}
    return {"scope": {"project": {"name": name, "domain": _domain(access, "project_domain")}}} if name else {}


def _domain(access: CloudAccess, kind: str) -> Body:
    for key in ("id", "name"):
        if found := access.auth.get(f"{kind}_{key}"):
            return {key: found}
    return DEFAULT_DOMAIN
