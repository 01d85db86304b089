# SPDX-License-Identifier: Apache-2.0
"""All URLs: method, path, what answers, the rule of policy that it needs, and the microversions that have it.

A route without a rule is public. The first route that matches answers, so a fixed path precedes one with a parameter.
"""

from __future__ import annotations

from roost.api import versions
from roost.api.identity import application_credentials, people, tokens
from roost.api.routing import Route

PUBLIC = (
    Route("GET", "/", versions.list_versions, None, key="versions"),
    Route("GET", "/v2.1", versions.show_version, None, key="version"),
    Route("GET", "/identity", versions.list_identity_versions, None, 300, key="versions"),
    Route("GET", "/identity/v3", versions.show_identity_version, None, key="version"),
    Route("GET", "/image", versions.list_image_versions, None, key="versions"),
)

SERVERS: tuple[Route, ...] = ()

FLAVORS: tuple[Route, ...] = ()

FLEET: tuple[Route, ...] = ()

_CREDENTIALS = "/identity/v3/users/{user_id}/application_credentials"
IDENTITY = (
    Route("POST", "/identity/v3/auth/tokens", tokens.sign_in, None, 201, "token"),
    Route("GET", "/identity/v3/auth/tokens", tokens.show_token, "identity:validate_token", key="token"),
    Route("HEAD", "/identity/v3/auth/tokens", tokens.check_token, "identity:check_token"),
    Route("DELETE", "/identity/v3/auth/tokens", tokens.revoke_token, "identity:revoke_token", 204),
    Route("GET", "/identity/v3/auth/catalog", tokens.show_catalog, "identity:get_auth_catalog", key="catalog"),
    Route(
        "GET", "/identity/v3/auth/projects", people.list_own_projects, "identity:get_auth_projects", key="projects"
    ),
    Route("GET", "/identity/v3/projects", people.list_projects, "identity:list_projects", key="projects"),
    Route("GET", "/identity/v3/projects/{project_id}", people.show_project, "identity:get_project", key="project"),
    Route("GET", "/identity/v3/users", people.list_users, "identity:list_users", key="users"),
    Route("GET", "/identity/v3/users/{user_id}", people.show_user, "identity:get_user", key="user"),
    Route("GET", "/identity/v3/roles", people.list_roles, "identity:list_roles", key="roles"),
    Route("GET", "/identity/v3/roles/{role}", people.show_role, "identity:get_role", key="role"),
    Route("GET", "/identity/v3/domains", people.list_domains, "identity:list_domains", key="domains"),
    Route("GET", "/identity/v3/domains/{domain_id}", people.show_domain, "identity:get_domain", key="domain"),
    Route(
        "POST",
        _CREDENTIALS,
        application_credentials.create_credential,
        "identity:create_application_credential",
        201,
        "application_credential",
    ),
    Route(
        "GET",
        _CREDENTIALS,
        application_credentials.list_credentials,
        "identity:list_application_credentials",
        key="application_credentials",
    ),
    Route(
        "GET",
        f"{_CREDENTIALS}/{{credential_id}}",
        application_credentials.show_credential,
        "identity:get_application_credential",
        key="application_credential",
    ),
    Route(
        "DELETE",
        f"{_CREDENTIALS}/{{credential_id}}",
        application_credentials.delete_credential,
        "identity:delete_application_credential",
        204,
    ),
)

IMAGES: tuple[Route, ...] = ()

OWN: tuple[Route, ...] = ()

ROUTES = (*PUBLIC, *SERVERS, *FLAVORS, *FLEET, *IDENTITY, *IMAGES, *OWN)
