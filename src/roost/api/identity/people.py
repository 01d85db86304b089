# SPDX-License-Identifier: Apache-2.0
"""Users, projects, roles and application credentials: /identity/v3/users, projects, roles.

Users, projects and roles are for clients that look names up; by application credentials scripts sign in.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from roost.api.call import TOKEN_HEADER, Call, CurrentCall, accepted, answer
from roost.api.identity.tokens import DOMAIN_ID, DOMAIN_NAME, CredentialBody, sign_in_of
from roost.api.microversions import keystone_time, parse_time
from roost.errors import BadInput, Forbidden, UnknownName
from roost.records.application_credentials import ApplicationCredential, ApplicationCredentialStore
from roost.records.users import ROLES, SYSTEM, Project, ProjectStore, User, UserStore


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


TextFilter = Annotated[str | None, Field(max_length=255)]


class _ListQuery(BaseModel):
    """By what every list is filtered."""

    name: TextFilter = None

    def accepts(self, name: str) -> bool:
        """Whether something of this name is listed."""
        return self.name in (None, name)


class RoleQuery(_ListQuery):
    """Which roles are listed. They are in no domain."""

    domain_id: TextFilter = None


class DomainQuery(_ListQuery):
    """Which domains are listed."""

    enabled: bool = True


class UserQuery(_ListQuery):
    """Which users are listed."""

    enabled: bool | None = None
    domain_id: TextFilter = None

    def takes(self, found: User | Project) -> bool:
        """Whether a user or a project is listed."""
        is_there = self.domain_id in (None, DOMAIN_ID) and self.enabled in (None, found.enabled)
        return is_there and self.accepts(found.name)


class ProjectQuery(UserQuery):
    """Which projects are listed. Each is below the only domain, and none is a domain."""

    parent_id: TextFilter = None
    is_domain: bool = False

    def takes(self, found: User | Project) -> bool:
        """Whether a project is listed."""
        return self.parent_id in (None, DOMAIN_ID) and not self.is_domain and super().takes(found)


# --- what the caller can get a token for -------------------------------------------------------------


def list_own_projects(call: CurrentCall) -> Response:
    """The projects in which the caller has a role."""
    held = _users(call).read_roles(call.caller.user_id)
    return _answer_projects(call, [each for each in _projects(call).list_projects() if each.id in held])


def list_own_domains(call: CurrentCall) -> Response:
    """No domain: roles are in projects and in the system."""
    return answer({"domains": [], "links": _links(call)})


def list_own_system_roles(call: CurrentCall) -> Response:
    """The whole system, where the caller has a role in it."""
    held = _users(call).read_roles(call.caller.user_id)
    return answer({"system": [{"all": True}] if SYSTEM in held else [], "links": _links(call)})


# --- everything --------------------------------------------------------------------------------------


def list_projects(call: CurrentCall, query: Annotated[ProjectQuery, Query()]) -> Response:
    """All projects, for callers with the right to see them."""
    return _answer_projects(call, [each for each in _projects(call).list_projects() if query.takes(each)])


def list_projects_of_user(call: CurrentCall, user_id: str, query: Annotated[ProjectQuery, Query()]) -> Response:
    """The projects in which a user has a role, also disabled ones; to itself and to those who may see all."""
    user = _find_user(call, user_id, "identity:list_user_projects")
    held = {each.target_id for each in _users(call).list_assignments(user.id)}
    found = [each for each in _projects(call).list_projects() if each.id in held]
    return _answer_projects(call, [each for each in found if query.takes(each)])


def show_project(call: CurrentCall, project_id: str) -> Response:
    """A project, for its members and for callers with the right to see all."""
    found = next((each for each in _projects(call).list_projects() if each.id == project_id), None)
    if found is None or not call.allows("identity:get_project", {"project_id": found.id, "user_id": None}):
        raise UnknownName(f"Could not find project: {project_id[:60]}.")
    return answer({"project": _describe_project(call, found)})


def list_users(call: CurrentCall, query: Annotated[UserQuery, Query()]) -> Response:
    """All users, for callers with the right to see them."""
    found = [each for each in _users(call).list_users() if query.takes(each)]
    return answer({"users": [_describe_user(call, each) for each in found], "links": _links(call)})


def show_user(call: CurrentCall, user_id: str) -> Response:
    """A user, to itself and to those who may see all."""
    return answer({"user": _describe_user(call, _find_user(call, user_id, "identity:get_user"))})


def list_roles(call: CurrentCall, query: Annotated[RoleQuery, Query()]) -> Response:
    """All roles."""
    found = [each for each in ROLES if query.accepts(each) and query.domain_id is None]
    return answer({"roles": [_describe_role(call, each) for each in found], "links": _links(call)})


def show_role(call: CurrentCall, role: str) -> Response:
    """A role."""
    if role not in ROLES:
        raise UnknownName(f"Could not find role: {role[:60]}.")
    return answer({"role": _describe_role(call, role)})


def list_domains(call: CurrentCall, query: Annotated[DomainQuery, Query()]) -> Response:
    """The only domain."""
    found = [_describe_domain(call)] if query.accepts(DOMAIN_NAME) and query.enabled else []
    return answer({"domains": found, "links": _links(call)})


def show_domain(call: CurrentCall, domain_id: str) -> Response:
    """The only domain."""
    if domain_id != DOMAIN_ID:
        raise UnknownName(f"Could not find domain: {domain_id[:60]}.")
    return answer({"domain": _describe_domain(call)})


def _users(call: Call) -> UserStore:
    return UserStore(call.parts.engine, call.parts.clock)


def _projects(call: Call) -> ProjectStore:
    return ProjectStore(call.parts.engine, call.parts.clock)


def _find_user(call: Call, user_id: str, rule: str) -> User:
    """The user with this id; UnknownName for one whom the rule does not show to the caller."""
    found = next((each for each in _users(call).list_users() if each.id == user_id), None)
    if found is None or not call.allows(rule, {"user_id": found.id, "project_id": None}):
        raise UnknownName(f"Could not find user: {user_id[:60]}.")
    return found


def _links(call: Call) -> dict[str, Any]:
    return {"self": call.link(call.url), "previous": None, "next": None}


def _answer_projects(call: Call, found: list[Project]) -> Response:
    return answer({"projects": [_describe_project(call, each) for each in found], "links": _links(call)})


def _describe_project(call: Call, project: Project) -> dict[str, Any]:
    return _named(call, "projects", project.id, project.name, project.enabled) | {
        "domain_id": DOMAIN_ID,
        "parent_id": DOMAIN_ID,
        "is_domain": False,
        "description": "",
        "tags": [],
        "options": {},
    }


def _describe_user(call: Call, user: User) -> dict[str, Any]:
    own = _named(call, "users", user.id, user.name, user.enabled)
    return own | {"domain_id": DOMAIN_ID, "password_expires_at": None, "options": {}}


def _describe_role(call: Call, role: str) -> dict[str, Any]:
    links = {"self": call.link(f"/identity/v3/roles/{role}")}
    return {"id": role, "name": role, "domain_id": None, "description": None, "options": {}, "links": links}


def _describe_domain(call: Call) -> dict[str, Any]:
    own = _named(call, "domains", DOMAIN_ID, DOMAIN_NAME, True)
    return own | {"description": "the only domain", "tags": [], "options": {}}


def _named(call: Call, collection: str, key: str, name: str, is_enabled: bool) -> dict[str, Any]:
    links = {"self": call.link(f"/identity/v3/{collection}/{key}")}
    return {"id": key, "name": name, "enabled": is_enabled, "links": links}
