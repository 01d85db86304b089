# SPDX-License-Identifier: Apache-2.0
"""All URLs: method, path, what answers, the rule of policy that it needs, and the microversions that have it.

A route without a rule is public. The first route that matches answers, so a fixed path precedes one with a parameter.
"""

from __future__ import annotations

from roost.api import versions
from roost.api.compute import (
    aggregates,
    availability_zones,
    flavor_extra_specs,
    flavors,
    hypervisors,
    limits,
    migrations,
    new_servers,
    server_actions,
    server_groups,
    server_list,
    server_metadata,
    servers,
    services,
)
from roost.api.compute.flavor_extra_specs import OneExtraSpec
from roost.api.identity import application_credentials, people, tokens
from roost.api.image import images
from roost.api.microversions import v
from roost.api.roost import capacity, decisions, events, forms, hosts, plans, server_forms, snapshots
from roost.api.roost import servers as own_servers
from roost.api.routing import Route

PUBLIC = (
    Route("GET", "/", versions.list_versions, None, key="versions"),
    Route("GET", "/v2.1", versions.show_version, None, key="version"),
    Route("GET", "/identity", versions.list_identity_versions, None, 300, key="versions"),
    Route("GET", "/identity/v3", versions.show_identity_version, None, key="version"),
    Route("GET", "/image", versions.list_image_versions, None, key="versions"),
)

_METADATA = "/v2.1/servers/{server_id}/metadata"
_MOVES = "/v2.1/servers/{server_id}/migrations"
_MOVE = f"{_MOVES}/{{migration_id}}"
SERVERS = (
    Route("GET", "/v2.1/servers", server_list.list_servers, server_list.INDEX, key="servers"),
    Route("GET", "/v2.1/servers/detail", server_list.list_servers_in_detail, server_list.DETAIL, key="servers"),
    Route("POST", "/v2.1/servers", new_servers.create_servers, new_servers.CREATE, 202),
    Route("GET", "/v2.1/servers/{server_id}", servers.show_server, servers.SHOW, key="server"),
    Route("PUT", "/v2.1/servers/{server_id}", servers.update_server, servers.UPDATE, key="server"),
    Route("DELETE", "/v2.1/servers/{server_id}", servers.delete_server, servers.DELETE, 204),
    Route(
        "POST", "/v2.1/servers/{server_id}/action", server_actions.act_on_server, server_actions.RULES, 202, media=""
    ),
    Route("GET", _METADATA, server_metadata.list_metadata, server_metadata.INDEX, key="metadata"),
    Route("POST", _METADATA, server_metadata.add_metadata, server_metadata.CREATE, key="metadata"),
    Route("PUT", _METADATA, server_metadata.replace_metadata, server_metadata.UPDATE_ALL, key="metadata"),
    Route("GET", f"{_METADATA}/{{key}}", server_metadata.show_metadata_item, server_metadata.SHOW, key="meta"),
    Route("PUT", f"{_METADATA}/{{key}}", server_metadata.set_metadata_item, server_metadata.UPDATE, key="meta"),
    Route("DELETE", f"{_METADATA}/{{key}}", server_metadata.delete_metadata_item, server_metadata.DELETE, 204),
    Route("GET", _MOVES, migrations.list_running, migrations.INDEX_RUNNING, key="migrations", oldest=v(23)),
    Route("GET", _MOVE, migrations.show_running, migrations.SHOW_RUNNING, key="migration", oldest=v(23)),
    Route("GET", "/v2.1/os-migrations", migrations.list_migrations, migrations.INDEX, key="migrations"),
)

MANAGE, SPECS = "os_compute_api:os-flavor-manage", "os_compute_api:os-flavor-extra-specs"
FLAVOR = "/v2.1/flavors/{flavor_id}"
FLAVORS = (
    Route("GET", "/v2.1/flavors", flavors.list_names, "roost:flavors", key="flavors"),
    Route("POST", "/v2.1/flavors", flavors.create, f"{MANAGE}:create", key="flavor"),
    Route("GET", "/v2.1/flavors/detail", flavors.list_details, "roost:flavors", key="flavors"),
    Route("GET", FLAVOR, flavors.show, "roost:flavors", key="flavor"),
    Route("PUT", FLAVOR, flavors.change, f"{MANAGE}:update", key="flavor", oldest=v(55)),
    Route("DELETE", FLAVOR, flavors.remove, f"{MANAGE}:delete", 202, media=""),
    Route("GET", f"{FLAVOR}/os-extra_specs", flavor_extra_specs.list_all, f"{SPECS}:index", key="extra_specs"),
    Route("POST", f"{FLAVOR}/os-extra_specs", flavor_extra_specs.merge, f"{SPECS}:create", key="extra_specs"),
    Route("GET", f"{FLAVOR}/os-extra_specs/{{key}}", flavor_extra_specs.show, f"{SPECS}:show", form=OneExtraSpec),
    Route(
        "PUT", f"{FLAVOR}/os-extra_specs/{{key}}", flavor_extra_specs.replace, f"{SPECS}:update", form=OneExtraSpec
    ),
    Route("DELETE", f"{FLAVOR}/os-extra_specs/{{key}}", flavor_extra_specs.remove, f"{SPECS}:delete", media=""),
)

HYPERVISORS, SEE = "/v2.1/os-hypervisors", "os_compute_api:os-hypervisors"
HYPERVISOR, NAMED = f"{HYPERVISORS}/{{hypervisor}}", f"{HYPERVISORS}/{{pattern}}"
SERVICES, SERVICE = "/v2.1/os-services", "os_compute_api:os-services"
ZONES, ZONE = "/v2.1/os-availability-zone", "os_compute_api:os-availability-zone"
GROUPS, GROUP = "/v2.1/os-server-groups", "/v2.1/os-server-groups/{group_id}"
AGGREGATES, AGGREGATE = "/v2.1/os-aggregates", "/v2.1/os-aggregates/{aggregate_id}"
FLEET = (
    Route("GET", AGGREGATES, aggregates.list_all, f"{aggregates.RULE}:index", key="aggregates"),
    Route("POST", AGGREGATES, aggregates.create, f"{aggregates.RULE}:create", key="aggregate"),
    Route("GET", AGGREGATE, aggregates.show, f"{aggregates.RULE}:show", key="aggregate"),
    Route("PUT", AGGREGATE, aggregates.change, f"{aggregates.RULE}:update", key="aggregate"),
    Route("DELETE", AGGREGATE, aggregates.remove, f"{aggregates.RULE}:delete", media=""),
    Route("POST", f"{AGGREGATE}/action", aggregates.act, aggregates.ACTION_RULES, key="aggregate"),
    Route("GET", HYPERVISORS, hypervisors.list_names, f"{SEE}:list", key="hypervisors"),
    Route("GET", f"{HYPERVISORS}/detail", hypervisors.list_details, f"{SEE}:list-detail", key="hypervisors"),
    Route(
        "GET",
        f"{HYPERVISORS}/statistics",
        hypervisors.show_statistics,
        f"{SEE}:statistics",
        key="hypervisor_statistics",
        newest=v(87),
    ),
    Route("GET", HYPERVISOR, hypervisors.show, f"{SEE}:show", key="hypervisor"),
    Route("GET", f"{HYPERVISOR}/uptime", hypervisors.show_uptime, f"{SEE}:uptime", key="hypervisor", newest=v(87)),
    Route("GET", f"{NAMED}/search", hypervisors.search, f"{SEE}:search", key="hypervisors", newest=v(52)),
    Route("GET", f"{NAMED}/servers", hypervisors.list_servers, f"{SEE}:servers", key="hypervisors", newest=v(52)),
    Route("GET", SERVICES, services.list_all, f"{SERVICE}:list", key="services"),
    Route("PUT", f"{SERVICES}/enable", services.enable, f"{SERVICE}:update", key="service", newest=v(52)),
    Route("PUT", f"{SERVICES}/disable", services.disable, f"{SERVICE}:update", key="service", newest=v(52)),
    Route(
        "PUT",
        f"{SERVICES}/disable-log-reason",
        services.disable_with_reason,
        f"{SERVICE}:update",
        key="service",
        newest=v(52),
    ),
    Route(
        "PUT",
        f"{SERVICES}/force-down",
        services.force_down,
        f"{SERVICE}:update",
        key="service",
        oldest=v(11),
        newest=v(52),
    ),
    Route("PUT", f"{SERVICES}/{{service}}", services.change, f"{SERVICE}:update", key="service", oldest=v(53)),
    Route("DELETE", f"{SERVICES}/{{service}}", services.remove, f"{SERVICE}:delete", 204),
    Route("GET", ZONES, availability_zones.list_names, f"{ZONE}:list", key="availabilityZoneInfo"),
    Route("GET", f"{ZONES}/detail", availability_zones.list_details, f"{ZONE}:detail", key="availabilityZoneInfo"),
    Route("GET", GROUPS, server_groups.list_all, f"{server_groups.RULE}:index", key="server_groups"),
    Route("POST", GROUPS, server_groups.create, f"{server_groups.RULE}:create", key="server_group"),
    Route("GET", GROUP, server_groups.show, f"{server_groups.RULE}:show", key="server_group"),
    Route("DELETE", GROUP, server_groups.remove, f"{server_groups.RULE}:delete", 204),
    Route("GET", "/v2.1/limits", limits.show, "os_compute_api:limits", key="limits"),
)

_CREDENTIALS = "/identity/v3/users/{user_id}/application_credentials"
IDENTITY = (
    Route("POST", "/identity/v3/auth/tokens", tokens.sign_in, None, 201, "token"),
    Route("GET", "/identity/v3/auth/tokens", tokens.show_token, "identity:validate_token", key="token"),
    Route("HEAD", "/identity/v3/auth/tokens", tokens.check_token, "identity:check_token", media=""),
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

IMAGES = (
    Route("GET", "/image/v2", versions.list_image_versions, None, key="versions"),
    Route("GET", "/image/v2/images", images.list_page, "get_images", key="images"),
    Route("POST", "/image/v2/images", images.create, "add_image", 201, "id"),
    Route("GET", "/image/v2/images/{image_id}", images.show, "get_image", key="id"),
    Route("PATCH", "/image/v2/images/{image_id}", images.update, "modify_image", key="id"),
    Route("PUT", "/image/v2/images/{image_id}/file", images.take_data, "upload_image", 204, media=""),
    Route("DELETE", "/image/v2/images/{image_id}", images.remove, "delete_image", 204),
)

OWN = (
    Route("GET", "/roost/v1/decisions", decisions.list_decisions, "roost:decisions:list", form=forms.Decisions),
    Route("GET", "/roost/v1/decisions/{decision}", decisions.show, "roost:decisions:show", form=forms.Decision),
    Route("GET", "/roost/v1/decisions/{decision}/why", decisions.explain, "roost:decisions:show", form=forms.Why),
    Route("POST", "/roost/v1/plan", plans.make, "roost:plan", form=forms.Plan),
    Route("GET", "/roost/v1/capacity", capacity.show, "roost:capacity", form=forms.Capacity),
    Route("GET", "/roost/v1/hosts", hosts.list_hosts, "roost:hosts", form=forms.Hosts),
    Route("GET", "/roost/v1/hosts/{host}", hosts.show, "roost:hosts", form=forms.Host),
    Route(
        "POST",
        "/roost/v1/hosts/{host}/plan",
        own_servers.plan_host_changes,
        "os_compute_api:os-services:update",
        form=server_forms.ActionPlan,
    ),
    Route("GET", "/roost/v1/servers", own_servers.list_servers, server_list.DETAIL, form=server_forms.Servers),
    Route("GET", "/roost/v1/servers/{server_id}", own_servers.show_server, servers.SHOW, form=server_forms.Server),
    Route(
        "POST",
        "/roost/v1/servers/{server_id}/plan",
        own_servers.plan_action,
        (servers.DELETE, *server_actions.RULES),
        form=server_forms.ActionPlan,
    ),
    Route("GET", "/roost/v1/events", events.follow, "roost:events", media=events.MEDIA),
    Route("GET", "/roost/v1/snapshot", snapshots.save, "roost:snapshot", media=snapshots.MEDIA),
)

ROUTES = (*PUBLIC, *SERVERS, *FLAVORS, *FLEET, *IDENTITY, *IMAGES, *OWN)
