# SPDX-License-Identifier: Apache-2.0
"""What clients send to sign in, and for application credentials."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from roost.errors import BadInput, SignInRefused
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
