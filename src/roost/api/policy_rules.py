# SPDX-License-Identifier: Apache-2.0
"""The rules of policy that routes have, with their defaults: nova's, Glance's and Keystone's names, and Roost's own.

Defaults and scopes of nova's rules are those that nova itself prints; a test compares them.
"""

from __future__ import annotations

from typing import NamedTuple

PROJECT, SYSTEM = "project", "system"
"""What a token is for."""
ADMIN = "rule:context_is_admin"
MANAGER = "rule:project_manager_or_admin"
MEMBER = "rule:project_member_or_admin"
READER = "rule:project_reader_or_admin"
ANYBODY = "@"
FLEET_READER = "rule:roost_fleet_reader"
SELF = "role:admin or user_id:%(user_id)s"
_ACTION = "POST /servers/{server_id}/action"


class Rule(NamedTuple):
    """A rule: its default as oslo.policy writes it, and what it is asked for."""

    name: str
    check: str
    description: str
    operations: tuple[str, ...] = ()
    """METHOD and path of the requests; empty: other rules refer to it."""
    scopes: tuple[str, ...] = ()
    """For what a token must be; empty: for anything."""


def _project_rule(name: str, check: str, description: str, *operations: str) -> Rule:
    return Rule(name, check, description, operations, (PROJECT,))


def _any_scope(name: str, check: str, description: str, *operations: str) -> Rule:
    return Rule(name, check, description, operations, (SYSTEM, PROJECT))


def _server_action(name: str, check: str, description: str, action: str) -> Rule:
    return _project_rule(f"os_compute_api:{name}", check, description, f"{_ACTION} ({action})")


BASES = (
    Rule("context_is_admin", "role:admin", "Who is an administrator of the cloud"),
    Rule("admin_or_owner", "is_admin:True or project_id:%(project_id)s", "Old default, which older files refer to"),
    Rule("admin_api", "is_admin:True", "Old default, which older files refer to"),
    Rule("project_manager_api", "role:manager and project_id:%(project_id)s", "Managers, in their own project"),
    Rule("project_member_api", "role:member and project_id:%(project_id)s", "Members, in their own project"),
    Rule("project_reader_api", "role:reader and project_id:%(project_id)s", "Readers, in their own project"),
    Rule("project_manager_or_admin", f"rule:project_manager_api or {ADMIN}", "Managers and administrators"),
    Rule("project_member_or_admin", f"rule:project_member_api or {ADMIN}", "Members and administrators"),
    Rule("project_reader_or_admin", f"rule:project_reader_api or {ADMIN}", "Readers and administrators"),
    Rule("roost_fleet_reader", f"{ADMIN} or (role:reader and system_scope:all)", "Who sees the whole fleet"),
)

_SERVERS = (
    _project_rule("os_compute_api:servers:index", READER, "List servers", "GET /servers"),
    _project_rule("os_compute_api:servers:detail", READER, "List servers with details", "GET /servers/detail"),
    _project_rule(
        "os_compute_api:servers:index:get_all_tenants",
        ADMIN,
        "List the servers of all projects",
        "GET /servers",
    ),
    _project_rule(
        "os_compute_api:servers:detail:get_all_tenants",
        ADMIN,
        "List the servers of all projects with details",
        "GET /servers/detail",
    ),
    _project_rule(
        "os_compute_api:servers:allow_all_filters",
        ADMIN,
        "Filter by any field",
        "GET /servers",
        "GET /servers/detail",
    ),
    _project_rule("os_compute_api:servers:show", READER, "Show a server", "GET /servers/{server_id}"),
    _project_rule(
        "os_compute_api:servers:show:flavor-extra-specs",
        READER,
        "See the extra specs of a server's flavor",
        "GET /servers/detail",
        "GET /servers/{server_id}",
        "PUT /servers/{server_id}",
        f"{_ACTION} (rebuild)",
    ),
    _project_rule(
        "os_compute_api:servers:show:host_status",
        ADMIN,
        "See the state of a server's host",
        "GET /servers/{server_id}",
        "GET /servers/detail",
        "PUT /servers/{server_id}",
        f"{_ACTION} (rebuild)",
    ),
    _project_rule(
        "os_compute_api:os-extended-server-attributes",
        ADMIN,
        "See on which host a server is, and its other attributes for operators",
        "GET /servers/{id}",
        "GET /servers/detail",
        "PUT /servers/{server_id}",
        f"{_ACTION} (rebuild)",
    ),
    _project_rule("os_compute_api:servers:create", MEMBER, "Create servers", "POST /servers"),
    _project_rule(
        "os_compute_api:servers:create:forced_host",
        ADMIN,
        "Force a server onto a host, as zone:host:node, past the filters",
        "POST /servers",
    ),
    _project_rule(
        "compute:servers:create:requested_destination",
        ADMIN,
        "Name the host or node of a new server, which the filters still check",
        "POST /servers",
    ),
    _project_rule("os_compute_api:servers:delete", MEMBER, "Delete a server", "DELETE /servers/{server_id}"),
    _project_rule("os_compute_api:servers:update", MEMBER, "Rename or describe a server", "PUT /servers/{server_id}"),
    _server_action("servers:resize", MEMBER, "Resize a server", "resize"),
    _server_action("servers:confirm_resize", MEMBER, "Confirm a resize", "confirmResize"),
    _server_action("servers:revert_resize", MEMBER, "Revert a resize", "revertResize"),
    _server_action("servers:rebuild", MEMBER, "Rebuild a server from an image", "rebuild"),
    _server_action("servers:start", MEMBER, "Start a server", "os-start"),
    _server_action("servers:stop", MEMBER, "Stop a server", "os-stop"),
    _server_action("os-admin-actions:reset_state", ADMIN, "Set the state of a server", "os-resetState"),
    _server_action("os-evacuate", ADMIN, "Build a server anew whose host is down", "evacuate"),
    _server_action("os-migrate-server:migrate", MANAGER, "Migrate a server", "migrate"),
    _server_action("os-migrate-server:migrate:host", ADMIN, "Migrate a server to a host", "migrate"),
    _server_action("os-migrate-server:migrate_live", MANAGER, "Live-migrate a server", "os-migrateLive"),
    _server_action("os-migrate-server:migrate_live:host", ADMIN, "Live-migrate to a host", "os-migrateLive"),
    _server_action("os-shelve:shelve", MEMBER, "Shelve a server", "shelve"),
    _server_action("os-shelve:unshelve", MEMBER, "Unshelve a server", "unshelve"),
    _server_action("os-shelve:unshelve_to_host", ADMIN, "Unshelve a server to a host", "unshelve"),
    _server_action("os-shelve:shelve_offload", ADMIN, "Free the host of a shelved server", "shelveOffload"),
)

_METADATA_PATH = "/servers/{server_id}/metadata"
_METADATA = tuple(
    _project_rule(f"os_compute_api:server-metadata:{name}", check, description, operation)
    for name, check, description, operation in (
        ("index", READER, "List the metadata of a server", f"GET {_METADATA_PATH}"),
        ("show", READER, "Show an entry of the metadata of a server", f"GET {_METADATA_PATH}/{{key}}"),
        ("create", MEMBER, "Add to the metadata of a server", f"POST {_METADATA_PATH}"),
        ("update_all", MEMBER, "Replace the metadata of a server", f"PUT {_METADATA_PATH}"),
        ("update", MEMBER, "Set an entry of the metadata of a server", f"PUT {_METADATA_PATH}/{{key}}"),
        ("delete", MEMBER, "Delete an entry of the metadata of a server", f"DELETE {_METADATA_PATH}/{{key}}"),
    )
)

_MIGRATIONS_PATH = "/servers/{server_id}/migrations"
_MIGRATIONS = (
    _project_rule("os_compute_api:os-migrations:index", MANAGER, "List migrations", "GET /os-migrations"),
    _project_rule(
        "os_compute_api:os-migrations:index:all_projects", ADMIN, "List those of all projects", "GET /os-migrations"
    ),
    _project_rule("os_compute_api:os-migrations:index:host", ADMIN, "See hosts of migrations", "GET /os-migrations"),
    _project_rule(
        "os_compute_api:servers:migrations:index",
        MANAGER,
        "List live migrations of a server",
        f"GET {_MIGRATIONS_PATH}",
    ),
    _project_rule(
        "os_compute_api:servers:migrations:index:host", ADMIN, "See the hosts of them", f"GET {_MIGRATIONS_PATH}"
    ),
    _project_rule(
        "os_compute_api:servers:migrations:show",
        ADMIN,
        "Show a live migration of a server",
        f"GET {_MIGRATIONS_PATH}/{{migration_id}}",
    ),
)

_SPECS_PATH = "/flavors/{flavor_id}/os-extra_specs"
_SPEC_PATH = f"{_SPECS_PATH}/{{flavor_extra_spec_key}}"
_FLAVORS = (
    _project_rule(
        "os_compute_api:os-flavor-access",
        ADMIN,
        "See flavors that are not public, and for whom they are",
        "GET /flavors/{flavor_id}/os-flavor-access",
    ),
    _project_rule("os_compute_api:os-flavor-manage:create", ADMIN, "Create a flavor", "POST /flavors"),
    _project_rule("os_compute_api:os-flavor-manage:update", ADMIN, "Describe a flavor", "PUT /flavors/{flavor_id}"),
    _project_rule("os_compute_api:os-flavor-manage:delete", ADMIN, "Delete a flavor", "DELETE /flavors/{flavor_id}"),
    _project_rule(
        "os_compute_api:os-flavor-extra-specs:index",
        READER,
        "List the extra specs of a flavor, also with the flavor",
        f"GET {_SPECS_PATH}/",
        "POST /flavors",
        "GET /flavors/detail",
        "GET /flavors/{flavor_id}",
        "PUT /flavors/{flavor_id}",
    ),
    _project_rule("os_compute_api:os-flavor-extra-specs:show", READER, "Show an extra spec", f"GET {_SPEC_PATH}"),
    _project_rule("os_compute_api:os-flavor-extra-specs:create", ADMIN, "Add extra specs", f"POST {_SPECS_PATH}/"),
    _project_rule("os_compute_api:os-flavor-extra-specs:update", ADMIN, "Set an extra spec", f"PUT {_SPEC_PATH}"),
    _project_rule(
        "os_compute_api:os-flavor-extra-specs:delete", ADMIN, "Delete an extra spec", f"DELETE {_SPEC_PATH}"
    ),
)

_FLEET = tuple(
    _project_rule(f"os_compute_api:{name}", ADMIN, description, operation)
    for name, description, operation in (
        ("os-hypervisors:list", "List hypervisors", "GET /os-hypervisors"),
        ("os-hypervisors:list-detail", "List hypervisors with details", "GET /os-hypervisors/details"),
        ("os-hypervisors:statistics", "Sum up all hypervisors", "GET /os-hypervisors/statistics"),
        ("os-hypervisors:show", "Show a hypervisor", "GET /os-hypervisors/{hypervisor_id}"),
        ("os-hypervisors:uptime", "How long a hypervisor is up", "GET /os-hypervisors/{hypervisor_id}/uptime"),
        (
            "os-hypervisors:search",
            "Find hypervisors by name",
            "GET /os-hypervisors/{hypervisor_hostname_pattern}/search",
        ),
        (
            "os-hypervisors:servers",
            "List the servers of hypervisors",
            "GET /os-hypervisors/{hypervisor_hostname_pattern}/servers",
        ),
        ("os-services:list", "List services", "GET /os-services"),
        ("os-services:update", "Enable, disable or force down a service", "PUT /os-services/{service_id}"),
        ("os-services:delete", "Delete a service", "DELETE /os-services/{service_id}"),
        ("os-aggregates:index", "List aggregates", "GET /os-aggregates"),
        ("os-aggregates:show", "Show an aggregate", "GET /os-aggregates/{aggregate_id}"),
        ("os-aggregates:create", "Create an aggregate", "POST /os-aggregates"),
        ("os-aggregates:update", "Rename an aggregate, or set its zone", "PUT /os-aggregates/{aggregate_id}"),
        ("os-aggregates:delete", "Delete an aggregate", "DELETE /os-aggregates/{aggregate_id}"),
        (
            "os-aggregates:add_host",
            "Add a host to an aggregate",
            "POST /os-aggregates/{aggregate_id}/action (add_host)",
        ),
        (
            "os-aggregates:remove_host",
            "Remove a host from an aggregate",
            "POST /os-aggregates/{aggregate_id}/action (remove_host)",
        ),
        (
            "os-aggregates:set_metadata",
            "Set the metadata of an aggregate",
            "POST /os-aggregates/{aggregate_id}/action (set_metadata)",
        ),
        ("os-availability-zone:detail", "List zones with their hosts", "GET /os-availability-zone/detail"),
    )
)

_GROUPS_AND_LIMITS = (
    _project_rule("os_compute_api:os-availability-zone:list", ANYBODY, "List zones", "GET /os-availability-zone"),
    _project_rule("os_compute_api:os-server-groups:create", MEMBER, "Create a group", "POST /os-server-groups"),
    _project_rule(
        "os_compute_api:os-server-groups:delete",
        MEMBER,
        "Delete a group",
        "DELETE /os-server-groups/{server_group_id}",
    ),
    _project_rule("os_compute_api:os-server-groups:index", READER, "List groups", "GET /os-server-groups"),
    _project_rule(
        "os_compute_api:os-server-groups:index:all_projects",
        ADMIN,
        "List the groups of all projects",
        "GET /os-server-groups",
    ),
    _project_rule(
        "os_compute_api:os-server-groups:show", READER, "Show a group", "GET /os-server-groups/{server_group_id}"
    ),
    _project_rule("os_compute_api:limits", ANYBODY, "Show the limits of the own project", "GET /limits"),
    _project_rule("os_compute_api:limits:other_project", ADMIN, "Show those of another project", "GET /limits"),
)

_IS_VISIBLE = "role:reader and (project_id:%(project_id)s or 'public':%(visibility)s or 'community':%(visibility)s)"
_OWN_IMAGE = "role:admin or (role:member and project_id:%(project_id)s)"
IMAGES = (
    _project_rule(
        "get_images", "role:admin or (role:reader and project_id:%(project_id)s)", "List images", "GET /v2/images"
    ),
    _project_rule("get_image", f"role:admin or ({_IS_VISIBLE})", "Show an image", "GET /v2/images/{image_id}"),
    _project_rule("add_image", _OWN_IMAGE, "Create an image", "POST /v2/images"),
    _project_rule("modify_image", _OWN_IMAGE, "Change an image", "PATCH /v2/images/{image_id}"),
    _project_rule("delete_image", _OWN_IMAGE, "Delete an image", "DELETE /v2/images/{image_id}"),
    _project_rule("upload_image", _OWN_IMAGE, "Send no data for an image", "PUT /v2/images/{image_id}/file"),
    _project_rule("publicize_image", "role:admin", "Show an image to all projects", "POST /v2/images"),
)

_CREDENTIALS_PATH = "/v3/users/{user_id}/application_credentials"
IDENTITY = (
    _any_scope("identity:validate_token", SELF, "See for whom a token is", "GET /v3/auth/tokens"),
    _any_scope("identity:check_token", SELF, "Check a token", "HEAD /v3/auth/tokens"),
    _any_scope("identity:revoke_token", SELF, "Revoke a token", "DELETE /v3/auth/tokens"),
    _any_scope("identity:get_auth_catalog", ANYBODY, "List the services of the cloud", "GET /v3/auth/catalog"),
    _any_scope("identity:get_auth_projects", ANYBODY, "List the own projects", "GET /v3/auth/projects"),
    _any_scope("identity:get_auth_domains", ANYBODY, "List the own domains", "GET /v3/auth/domains"),
    _any_scope("identity:get_auth_system", ANYBODY, "List the own roles in the system", "GET /v3/auth/system"),
    _any_scope("identity:list_projects", "role:admin", "List projects", "GET /v3/projects"),
    _any_scope(
        "identity:get_project",
        "role:admin or project_id:%(project_id)s",
        "Show a project",
        "GET /v3/projects/{project_id}",
    ),
    _any_scope(
        "identity:list_user_projects", SELF, "List the projects of a user", "GET /v3/users/{user_id}/projects"
    ),
    _any_scope("identity:list_users", "role:admin", "List users", "GET /v3/users"),
    _any_scope("identity:get_user", SELF, "Show a user", "GET /v3/users/{user_id}"),
    _any_scope("identity:list_roles", ANYBODY, "List roles", "GET /v3/roles"),
    _any_scope("identity:get_role", ANYBODY, "Show a role", "GET /v3/roles/{role_id}"),
    _any_scope("identity:list_domains", ANYBODY, "List domains", "GET /v3/domains"),
    _any_scope("identity:get_domain", ANYBODY, "Show a domain", "GET /v3/domains/{domain_id}"),
    _any_scope(
        "identity:list_application_credentials", SELF, "List application credentials", f"GET {_CREDENTIALS_PATH}"
    ),
    _any_scope(
        "identity:get_application_credential",
        SELF,
        "Show an application credential",
        f"GET {_CREDENTIALS_PATH}/{{application_credential_id}}",
    ),
    _any_scope(
        "identity:create_application_credential",
        "user_id:%(user_id)s",
        "Create an application credential for oneself",
        f"POST {_CREDENTIALS_PATH}",
    ),
    _any_scope(
        "identity:delete_application_credential",
        SELF,
        "Delete an application credential",
        f"DELETE {_CREDENTIALS_PATH}/{{application_credential_id}}",
    ),
)

_OF_OWN_PROJECT = f"rule:project_reader_api or {FLEET_READER}"
OWN = (
    _project_rule("roost:flavors", ANYBODY, "List and show flavors: nova has no rule for it", "GET /flavors"),
    _any_scope("roost:decisions:list", _OF_OWN_PROJECT, "List decisions of a project", "GET /roost/v1/decisions"),
    _any_scope(
        "roost:decisions:show",
        _OF_OWN_PROJECT,
        "Show and explain a decision",
        "GET /roost/v1/decisions/{decision_id}",
    ),
    _any_scope(
        "roost:decisions:all", FLEET_READER, "See decisions of all projects, with hosts", "GET /roost/v1/decisions"
    ),
    _any_scope("roost:plan", _OF_OWN_PROJECT, "Ask where servers would go", "POST /roost/v1/plan"),
    _any_scope("roost:capacity", FLEET_READER, "See how many servers still fit", "GET /roost/v1/capacity"),
    _any_scope("roost:hosts", FLEET_READER, "See the fleet with free amounts", "GET /roost/v1/hosts"),
    _any_scope("roost:events", _OF_OWN_PROJECT, "Follow decisions and changes of hosts", "GET /roost/v1/events"),
    _any_scope("roost:snapshot", FLEET_READER, "Take a snapshot of the whole cloud", "GET /roost/v1/snapshot"),
)

NOVA = (*_SERVERS, *_METADATA, *_MIGRATIONS, *_FLAVORS, *_FLEET, *_GROUPS_AND_LIMITS)
RULES = (*BASES, *NOVA, *IMAGES, *IDENTITY, *OWN)
