# SPDX-License-Identifier: Apache-2.0
"""All URLs: method, path, what answers, the rule of policy that it needs, and the microversions that have it.

A route without a rule is public. The first route that matches answers, so a fixed path precedes one with a parameter.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from roost.api import versions
from roost.api.compute import (
    aggregates,
    flavors,
    hypervisors,
    migrations,
    new_servers,
    server_actions,
    server_bodies,
    server_groups,
    server_list,
    servers,
    services,
)
from roost.api.compute.flavors import OneExtraSpec
from roost.api.compute.hypervisors import UUIDS
from roost.api.identity import people, tokens
from roost.api.identity import people as credentials
from roost.api.image import image_list, images
from roost.api.microversions import OLDEST, v
from roost.api.roost import decisions, events, forms, hosts, questions
from roost.api.roost import servers as own_servers
from roost.api.routing import Route

GET, HEAD, POST, PUT, PATCH, DELETE = (
    partial(Route, method) for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
)

CLEANED = v(75)
"""Since when nova refuses unknown keys of most queries."""
PUBLIC = (
    GET("/", versions.list_versions, None, key="versions"),
    GET("/v2.1", versions.show_version, None, key="version"),
    GET("/identity", versions.list_identity_versions, None, 300, key="versions"),
    GET("/identity/v3", versions.show_identity_version, None, key="version"),
    GET("/image", versions.list_image_versions, None, 300, key="versions"),
)

_ACTION = "/v2.1/servers/{server_id}/action"
_METADATA = "/v2.1/servers/{server_id}/metadata"
_MOVES = "/v2.1/servers/{server_id}/migrations"
_MOVE = f"{_MOVES}/{{migration_id}}"
SERVERS = (
    GET("/v2.1/servers", server_list.list_servers, server_list.INDEX, key="servers", strict_since=CLEANED),
    GET("/v2.1/servers/detail", server_list.list_details, server_list.DETAIL, key="servers", strict_since=CLEANED),
    POST("/v2.1/servers", new_servers.create_servers, new_servers.CREATE, 202),
    GET("/v2.1/servers/{server_id}", servers.show_server, servers.SHOW, key="server"),
    PUT("/v2.1/servers/{server_id}", servers.update_server, servers.UPDATE, key="server"),
    DELETE("/v2.1/servers/{server_id}", servers.delete_server, servers.DELETE, 204),
    POST(_ACTION, server_actions.act_on_server, server_actions.RULES, 202, media="", other_statuses=(200, 204)),
    GET(_METADATA, server_bodies.list_metadata, server_bodies.INDEX, key="metadata"),
    POST(_METADATA, server_bodies.add_metadata, server_bodies.CREATE, key="metadata"),
    PUT(_METADATA, server_bodies.replace_metadata, server_bodies.UPDATE_ALL, key="metadata"),
    GET(f"{_METADATA}/{{key}}", server_bodies.show_metadata_item, server_bodies.SHOW, key="meta"),
    PUT(f"{_METADATA}/{{key}}", server_bodies.set_metadata_item, server_bodies.UPDATE, key="meta"),
    DELETE(f"{_METADATA}/{{key}}", server_bodies.delete_metadata_item, server_bodies.DELETE, 204),
    GET(_MOVES, migrations.list_running, migrations.INDEX_RUNNING, key="migrations", oldest=v(23)),
    GET(_MOVE, migrations.show_running, migrations.SHOW_RUNNING, key="migration", oldest=v(23)),
    GET("/v2.1/os-migrations", migrations.list_migrations, migrations.INDEX, key="migrations", strict_since=v(59)),
)

MANAGE, SPECS = "os_compute_api:os-flavor-manage", "os_compute_api:os-flavor-extra-specs"
FLAVOR = "/v2.1/flavors/{flavor_id}"
FLAVORS = (
    GET("/v2.1/flavors", flavors.list_names, "roost:flavors", key="flavors", strict_since=CLEANED),
    POST("/v2.1/flavors", flavors.create, f"{MANAGE}:create", key="flavor"),
    GET("/v2.1/flavors/detail", flavors.list_details, "roost:flavors", key="flavors", strict_since=CLEANED),
    GET(FLAVOR, flavors.show, "roost:flavors", key="flavor"),
    PUT(FLAVOR, flavors.change, f"{MANAGE}:update", key="flavor", oldest=v(55)),
    DELETE(FLAVOR, flavors.remove, f"{MANAGE}:delete", 202, media=""),
    GET(f"{FLAVOR}/os-extra_specs", flavors.list_all, f"{SPECS}:index", key="extra_specs"),
    POST(f"{FLAVOR}/os-extra_specs", flavors.merge, f"{SPECS}:create", key="extra_specs"),
    GET(f"{FLAVOR}/os-extra_specs/{{key}}", flavors.show_extra_spec, f"{SPECS}:show", form=OneExtraSpec),
    PUT(f"{FLAVOR}/os-extra_specs/{{key}}", flavors.replace, f"{SPECS}:update", form=OneExtraSpec),
    DELETE(f"{FLAVOR}/os-extra_specs/{{key}}", flavors.remove_extra_spec, f"{SPECS}:delete", media=""),
)

HYPERVISORS, SEE = "/v2.1/os-hypervisors", "os_compute_api:os-hypervisors"
HYPERVISOR, NAMED = f"{HYPERVISORS}/{{hypervisor}}", f"{HYPERVISORS}/{{pattern}}"
SERVICES, SERVICE = "/v2.1/os-services", "os_compute_api:os-services"
CHANGE_SERVICE, SEE_DETAIL = f"{SERVICE}:update", f"{SEE}:list-detail"
ZONES, ZONE = "/v2.1/os-availability-zone", "os_compute_api:os-availability-zone"
GROUPS, GROUP = "/v2.1/os-server-groups", "/v2.1/os-server-groups/{group_id}"
AGGREGATES, AGGREGATE = "/v2.1/os-aggregates", "/v2.1/os-aggregates/{aggregate_id}"
FLEET = (
    GET(AGGREGATES, aggregates.list_all, f"{aggregates.RULE}:index", key="aggregates"),
    POST(AGGREGATES, aggregates.create, f"{aggregates.RULE}:create", key="aggregate"),
    GET(AGGREGATE, aggregates.show, f"{aggregates.RULE}:show", key="aggregate"),
    PUT(AGGREGATE, aggregates.change, f"{aggregates.RULE}:update", key="aggregate"),
    DELETE(AGGREGATE, aggregates.remove, f"{aggregates.RULE}:delete", media=""),
    POST(f"{AGGREGATE}/action", aggregates.act, aggregates.ACTION_RULES, key="aggregate"),
    GET(HYPERVISORS, hypervisors.list_names, f"{SEE}:list", key="hypervisors", strict_since=UUIDS),
    GET(f"{HYPERVISORS}/detail", hypervisors.list_details, SEE_DETAIL, key="hypervisors", strict_since=UUIDS),
    GET(
        f"{HYPERVISORS}/statistics",
        hypervisors.show_statistics,
        f"{SEE}:statistics",
        key="hypervisor_statistics",
        newest=v(87),
    ),
    GET(HYPERVISOR, hypervisors.show, f"{SEE}:show", key="hypervisor", strict_since=UUIDS),
    GET(f"{HYPERVISOR}/uptime", hypervisors.show_uptime, f"{SEE}:uptime", key="hypervisor", newest=v(87)),
    GET(f"{NAMED}/search", hypervisors.search, f"{SEE}:search", key="hypervisors", newest=v(52)),
    GET(f"{NAMED}/servers", hypervisors.list_servers, f"{SEE}:servers", key="hypervisors", newest=v(52)),
    GET(SERVICES, services.list_all, f"{SERVICE}:list", key="services", strict_since=CLEANED),
    PUT(f"{SERVICES}/enable", services.enable, CHANGE_SERVICE, key="service", newest=v(52)),
    PUT(f"{SERVICES}/disable", services.disable, CHANGE_SERVICE, key="service", newest=v(52)),
    PUT(f"{SERVICES}/disable-log-reason", services.disable_with_reason, CHANGE_SERVICE, key="service", newest=v(52)),
    PUT(f"{SERVICES}/force-down", services.force_down, CHANGE_SERVICE, key="service", oldest=v(11), newest=v(52)),
    PUT(f"{SERVICES}/{{service}}", services.change, CHANGE_SERVICE, key="service", oldest=v(53)),
    DELETE(f"{SERVICES}/{{service}}", services.remove, f"{SERVICE}:delete", 204),
    GET(ZONES, services.list_names, f"{ZONE}:list", key="availabilityZoneInfo"),
    GET(f"{ZONES}/detail", services.list_details, f"{ZONE}:detail", key="availabilityZoneInfo"),
    GET(GROUPS, server_groups.list_all, f"{server_groups.RULE}:index", key="server_groups", strict_since=CLEANED),
    POST(GROUPS, server_groups.create, f"{server_groups.RULE}:create", key="server_group"),
    GET(GROUP, server_groups.show, f"{server_groups.RULE}:show", key="server_group"),
    DELETE(GROUP, server_groups.remove, f"{server_groups.RULE}:delete", 204),
    GET("/v2.1/limits", server_groups.show_limits, "os_compute_api:limits", key="limits", strict_since=CLEANED),
)

_CREDENTIALS, _ITEM = "/identity/v3/users/{user_id}/application_credentials", "application_credential"
_CREDENTIAL = f"{_CREDENTIALS}/{{credential_id}}"
IDENTITY = (
    POST("/identity/v3/auth/tokens", tokens.sign_in, None, 201, "token"),
    GET("/identity/v3/auth/tokens", tokens.show_token, "identity:validate_token", key="token", takes_unscoped=True),
    HEAD("/identity/v3/auth/tokens", tokens.check_token, "identity:check_token", media="", takes_unscoped=True),
    DELETE("/identity/v3/auth/tokens", tokens.revoke_token, "identity:revoke_token", 204, takes_unscoped=True),
    GET("/identity/v3/auth/catalog", tokens.show_catalog, "identity:get_auth_catalog", key="catalog"),
    *(
        GET(f"/identity/v3/auth/{what}", handler, f"identity:get_auth_{what}", key=what, takes_unscoped=True)
        for what, handler in (
            ("projects", people.list_own_projects),
            ("domains", people.list_own_domains),
            ("system", people.list_own_system_roles),
        )
    ),
    GET("/identity/v3/projects", people.list_projects, "identity:list_projects", key="projects"),
    GET("/identity/v3/projects/{project_id}", people.show_project, "identity:get_project", key="project"),
    GET("/identity/v3/users", people.list_users, "identity:list_users", key="users"),
    GET("/identity/v3/users/{user_id}", people.show_user, "identity:get_user", key="user", takes_unscoped=True),
    GET(
        "/identity/v3/users/{user_id}/projects",
        people.list_projects_of_user,
        "identity:list_user_projects",
        key="projects",
        takes_unscoped=True,
    ),
    GET("/identity/v3/roles", people.list_roles, "identity:list_roles", key="roles"),
    GET("/identity/v3/roles/{role}", people.show_role, "identity:get_role", key="role"),
    GET("/identity/v3/domains", people.list_domains, "identity:list_domains", key="domains"),
    GET("/identity/v3/domains/{domain_id}", people.show_domain, "identity:get_domain", key="domain"),
    POST(_CREDENTIALS, credentials.create_credential, f"identity:create_{_ITEM}", 201, _ITEM),
    GET(_CREDENTIALS, credentials.list_credentials, f"identity:list_{_ITEM}s", key=f"{_ITEM}s"),
    GET(_CREDENTIAL, credentials.show_credential, f"identity:get_{_ITEM}", key=_ITEM),
    DELETE(_CREDENTIAL, credentials.delete_credential, f"identity:delete_{_ITEM}", 204),
)

IMAGES = (
    GET("/image/v2", versions.show_image_versions, None, key="versions"),
    GET("/image/v2/images", image_list.list_page, "get_images", key="images"),
    POST("/image/v2/images", images.create, "add_image", 201, "id"),
    GET("/image/v2/images/{image_id}", images.show, "get_image", key="id"),
    PATCH("/image/v2/images/{image_id}", images.update, "modify_image", key="id"),
    PUT("/image/v2/images/{image_id}/file", images.take_data, "upload_image", 204, media=""),
    DELETE("/image/v2/images/{image_id}", images.remove, "delete_image", 204),
)

_OWN = (
    GET("/roost/v1/decisions", decisions.list_decisions, "roost:decisions:list", form=forms.Decisions),
    GET("/roost/v1/decisions/{decision}", decisions.show, "roost:decisions:show", form=forms.Decision),
    GET("/roost/v1/decisions/{decision}/why", decisions.explain, "roost:decisions:show", form=forms.Why),
    POST("/roost/v1/plan", questions.make, "roost:plan", form=forms.Plan),
    GET("/roost/v1/capacity", questions.show, "roost:capacity", form=forms.Capacity),
    GET("/roost/v1/hosts", hosts.list_hosts, "roost:hosts", form=forms.Hosts),
    GET("/roost/v1/hosts/{host}", hosts.show, "roost:hosts", form=forms.Host),
    POST("/roost/v1/hosts/{host}/plan", own_servers.plan_host_changes, CHANGE_SERVICE, form=forms.ActionPlan),
    GET("/roost/v1/servers", own_servers.list_servers, server_list.DETAIL, form=forms.Servers),
    GET("/roost/v1/servers/{server_id}", own_servers.show_server, servers.SHOW, form=forms.Server),
    POST(
        "/roost/v1/servers/{server_id}/plan",
        own_servers.plan_action,
        (servers.DELETE, *server_actions.RULES),
        form=forms.ActionPlan,
    ),
    GET("/roost/v1/events", events.follow, "roost:events", media=events.MEDIA),
    GET("/roost/v1/snapshot", hosts.save, "roost:snapshot", media=hosts.MEDIA),
)
OWN = tuple(replace(each, strict_since=OLDEST) for each in _OWN)

ROUTES = (*PUBLIC, *SERVERS, *FLAVORS, *FLEET, *IDENTITY, *IMAGES, *OWN)
