# SPDX-License-Identifier: Apache-2.0
"""Users, projects and roles, for clients that look names up: /identity/v3/users, projects, roles."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from roost.api.call import Call, CurrentCall, answer
from roost.api.identity.bodies import DOMAIN_ID, DOMAIN_NAME
from roost.errors import UnknownName
from roost.identity import ROLES, Project, ProjectStore, User, UserStore

NameFilter = Annotated[str | None, Query(max_length=255)]


def list_own_projects(call: CurrentCall) -> Response:
    """The projects in which the caller has a role."""
    held = _users(call).read_roles(call.caller.user_id)
    return _answer_projects(call, [each for each in _projects(call).list_projects() if each.id in held])


def list_projects(call: CurrentCall, name: NameFilter = None) -> Response:
    """All projects, for callers with the right to see them."""
    found = _projects(call).list_projects()
    return _answer_projects(call, [each for each in found if name in (None, each.name)])


def show_project(call: CurrentCall, project_id: str) -> Response:
    """A project, for its members and for callers with the right to see all."""
    found = next((each for each in _projects(call).list_projects() if each.id == project_id), None)
    if found is None or not call.allows("identity:get_project", {"project_id": found.id, "user_id": None}):
        raise UnknownName(f"Could not find project: {project_id[:60]}.")
    return answer({"project": _describe_project(call, found)})


def list_users(call: CurrentCall, name: NameFilter = None) -> Response:
    """All users, for callers with the right to see them."""
    found = [each for each in _users(call).list_users() if name in (None, each.name)]
    return answer({"users": [_describe_user(call, each) for each in found], "links": _links(call)})


def show_user(call: CurrentCall, user_id: str) -> Response:
    """A user, to itself and to those who may see all."""
    found = next((each for each in _users(call).list_users() if each.id == user_id), None)
    if found is None or not call.allows("identity:get_user", {"user_id": found.id, "project_id": None}):
        raise UnknownName(f"Could not find user: {user_id[:60]}.")
    return answer({"user": _describe_user(call, found)})


def list_roles(call: CurrentCall, name: NameFilter = None) -> Response:
    """All roles."""
    found = [each for each in ROLES if name in (None, each)]
    return answer({"roles": [_describe_role(call, each) for each in found], "links": _links(call)})


def show_role(call: CurrentCall, role: str) -> Response:
    """A role."""
    if role not in ROLES:
        raise UnknownName(f"Could not find role: {role[:60]}.")
    return answer({"role": _describe_role(call, role)})


def list_domains(call: CurrentCall) -> Response:
    """The only domain."""
    return answer({"domains": [_describe_domain(call)], "links": _links(call)})


def show_domain(call: CurrentCall, domain_id: str) -> Response:
    """The only domain."""
    if domain_id != DOMAIN_ID:
        raise UnknownName(f"Could not find domain: {domain_id[:60]}.")
    return answer({"domain": _describe_domain(call)})


def _users(call: Call) -> UserStore:
    return UserStore(call.parts.engine, call.parts.clock)


def _projects(call: Call) -> ProjectStore:
    return ProjectStore(call.parts.engine, call.parts.clock)


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
    }


def _describe_user(call: Call, user: User) -> dict[str, Any]:
    own = _named(call, "users", user.id, user.name, user.enabled)
    return own | {"domain_id": DOMAIN_ID, "password_expires_at": None}


def _describe_role(call: Call, role: str) -> dict[str, Any]:
    return {"id": role, "name": role, "domain_id": None, "links": {"self": call.link(f"/identity/v3/roles/{role}")}}


def _describe_domain(call: Call) -> dict[str, Any]:
    return _named(call, "domains", DOMAIN_ID, DOMAIN_NAME, True) | {"description": "the only domain"}


def _named(call: Call, collection: str, key: str, name: str, is_enabled: bool) -> dict[str, Any]:
    links = {"self": call.link(f"/identity/v3/{collection}/{key}")}
    return {"id": key, "name": name, "enabled": is_enabled, "links": links}
