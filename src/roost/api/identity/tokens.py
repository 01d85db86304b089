# SPDX-License-Identifier: Apache-2.0
"""Sign-in, tokens and the service catalog: /identity/v3/auth. The catalog says where each API of this server is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from roost.api.call import ApiParts, Call, CurrentCall, accepted, answer
from roost.api.microversions import keystone_time
from roost.api.versions import base_of
from roost.errors import BadInput, SignInRefused, TokenRefused, UnknownName
from roost.records.sign_in import SignIn
from roost.records.tokens import AcceptedToken, IssuedToken
from roost.records.users import SYSTEM, UNSCOPED

Name = Annotated[str, Field(min_length=1, max_length=255)]
Secret = Annotated[str, Field(min_length=1, max_length=4096, repr=False)]
DOMAIN_ID, DOMAIN_NAME = "default", "Default"
"""There is one domain."""


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class Domain(_Body):
    """A domain by its id or name."""

    id: Name | None = None
    name: Name | None = None

    def check(self) -> None:
        """Raise SignInRefused for any domain but the only one."""
        if self.id not in (None, DOMAIN_ID) or self.name not in (None, DOMAIN_NAME):
            raise SignInRefused("the only domain is 'default'", "leave it out, or name that one")


class NamedInDomain(_Body):
    """A user or a project, by its id, or by its name and domain."""

    id: Name | None = None
    name: Name | None = None
    domain: Domain | None = None

    @property
    def key(self) -> str:
        """Its id or name."""
        if self.domain is not None:
            self.domain.check()
        found = self.id or self.name
        if found is None:
            raise BadInput("a user or a project without id and name", "give one of them")
        return found


class UserWithPassword(NamedInDomain):
    """A user and its password."""

    password: Secret


class PasswordProof(_Body):
    """Sign-in by password."""

    user: UserWithPassword


class TokenProof(_Body):
    """Sign-in by another token."""

    id: Secret


class CredentialProof(_Body):
    """Sign-in by an application credential: by its id, or by its name and user."""

    id: Name | None = None
    name: Name | None = None
    user: NamedInDomain | None = None
    secret: Secret


class Proofs(_Body):
    """The credentials of a user: exactly one method."""

    methods: Annotated[
        list[Literal["password", "token", "application_credential"]], Field(min_length=1, max_length=1)
    ]
    password: PasswordProof | None = None
    token: TokenProof | None = None
    application_credential: CredentialProof | None = None


class SystemScope(_Body):
    """The system as a whole."""

    all: Literal[True]


class Scope(BaseModel):
    """What the token is for: exactly one thing, so that no client gets a token for another than it meant."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    project: NamedInDomain | None = None
    system: SystemScope | None = None
    unscoped: dict[str, Any] | None = None
    domain: dict[str, Any] | None = None
    trust: Annotated[dict[str, Any] | None, Field(alias="OS-TRUST:trust")] = None

    @model_validator(mode="after")
    def _check_number(self) -> Scope:
        if len([each for each in self.model_fields_set if getattr(self, each) is not None]) != 1:
            raise ValueError("name one of project, system and unscoped")
        return self

    @property
    def target(self) -> str:
        """A project's id or name, SYSTEM or UNSCOPED; SignInRefused for that in which nobody has a role here."""
        if self.project is not None and self.project.key != SYSTEM:
            return self.project.key
        if self.system is not None:
            return SYSTEM
        if self.unscoped is not None:
            return UNSCOPED
        raise SignInRefused("the user has no role there", "name a project, the system, or unscoped")


def _spelled_out(scope: Any) -> Any:
    """The text by which Keystone's clients ask for an unscoped token, as an object like every other scope."""
    return {"unscoped": {}} if scope == "unscoped" else scope


class Auth(_Body):
    """A sign-in."""

    identity: Proofs
    scope: Annotated[Scope | None, BeforeValidator(_spelled_out), Field(description="or the text unscoped")] = None

    @property
    def target(self) -> str | None:
        """What the token is for: a project's id or name, SYSTEM or UNSCOPED; None: it is not said."""
        return None if self.scope is None else self.scope.target


class AuthBody(_Body):
    """The body of a sign-in."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "auth": {
                    "identity": {
                        "methods": ["password"],
                        "password": {"user": {"name": "ann", "domain": {"id": "default"}, "password": "..."}},
                    },
                    "scope": {"project": {"name": "demo", "domain": {"id": "default"}}},
                }
            }
        }
    )
    auth: Auth


class RoleName(_Body):
    """A role, by its name, which is its id too."""

    name: Name | None = None
    id: Name | None = None

    @property
    def key(self) -> str:
        """Its name."""
        found = self.id or self.name
        if found is None:
            raise BadInput("roles: one is without id and name", "give one of them")
        return found


class NewCredential(BaseModel):
    """An application credential to be made. Who restricts one by a key that is not known must not get it."""

    model_config = ConfigDict(extra="forbid")
    name: Name
    roles: Annotated[list[RoleName], Field(min_length=1, max_length=8)] | None = None
    expires_at: Annotated[str, Field(max_length=40, description="ISO 8601, in UTC without a zone")] | None = None
    description: Annotated[Literal[""] | None, Field(description="none is kept")] = None
    unrestricted: Annotated[Literal[False], Field(description="all are restricted")] = False
    secret: Annotated[None, Field(description="it is made here")] = None
    access_rules: Annotated[list[Any] | None, Field(max_length=0, description="there are none")] = None


class CredentialBody(_Body):
    """The body with an application credential."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"application_credential": {"name": "backup", "roles": [{"name": "reader"}]}}}
    )
    application_credential: NewCredential


REGION = "RegionOne"
_SERVICES = (
    ("compute", "nova", "/v2.1"),
    ("identity", "keystone", "/identity/v3"),
    ("image", "glance", "/image"),
    ("roost", "roost", "/roost/v1"),
)
"""Type, name and path of each service."""


def describe_catalog(base_url: str) -> list[dict[str, Any]]:
    """The catalog as it is in tokens; each service has one address, which is public, internal and for admins."""
    return [
        {"id": kind, "type": kind, "name": name, "endpoints": _endpoints(kind, f"{base_url}{path}")}
        for kind, name, path in _SERVICES
    ]


def _endpoints(kind: str, address: str) -> list[dict[str, str]]:
    return [
        {"id": f"{kind}-{interface}", "interface": interface, "region": REGION, "region_id": REGION, "url": address}
        for interface in ("public", "internal", "admin")
    ]


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
