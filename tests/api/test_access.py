# SPDX-License-Identifier: Apache-2.0
"""Who gets in, for each route of the table: a new route cannot be forgotten.

Without a token every route but the public ones answers 401, with too little of a role 403, and for what belongs to
another project 404.
"""

import re
import uuid

import pytest
from tests.api.cloud import wait_for

from roost.api.policy import Policy
from roost.api.routes import ROUTES
from roost.records.tokens import Caller
from roost.records.users import with_implied

PUBLIC = {
    ("GET", "/"),
    ("GET", "/v2.1"),
    ("GET", "/identity"),
    ("GET", "/identity/v3"),
    ("GET", "/image"),
    ("GET", "/image/v2"),
    ("POST", "/identity/v3/auth/tokens"),
}
"""Discovery and sign-in: what needs no token. Health pages have a port of their own."""
GUARDED = [route for route in ROUTES if route.rule is not None]
FOR_ALL = {
    "identity:check_token",
    "identity:create_application_credential",
    "identity:delete_application_credential",
    "identity:get_application_credential",
    "identity:get_auth_catalog",
    "identity:get_auth_domains",
    "identity:get_auth_projects",
    "identity:get_auth_system",
    "identity:get_domain",
    "identity:get_project",
    "identity:get_role",
    "identity:get_user",
    "identity:list_application_credentials",
    "identity:list_domains",
    "identity:list_roles",
    "identity:list_user_projects",
    "identity:revoke_token",
    "identity:validate_token",
    "os_compute_api:limits",
    "os_compute_api:os-availability-zone:list",
    "roost:flavors",
}
"""Rules that every signed-in caller passes, for what is their own."""
OWN = {"project_id": "p", "user_id": "u"}
WITHOUT_ROLES = Caller("u", "u", "p", "p", frozenset())
MEMBER = Caller("u", "u", "p", "p", with_implied(["member"]))


def rules_of(route):
    """The rules one of which lets a caller in."""
    return {route.rule} if isinstance(route.rule, str) else set(route.rule)


def shown(route):
    return f"{route.method} {route.path} {route.oldest}"


def address(route, **values):
    """The path with these values, and a new uuid for every other parameter."""
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: values.get(found[1], str(uuid.uuid4())), route.path)


def ask(client, route, json=None, **values):
    return client.request(route.method, address(route, **values), json, version=f"compute {route.newest}")


def test_the_public_routes_are_those_that_are_written_down():
    assert {(route.method, route.path) for route in ROUTES if route.rule is None} == PUBLIC


@pytest.mark.parametrize("route", GUARDED, ids=shown)
def test_without_a_valid_token_nothing_is_answered(cloud, anyone, route):
    assert ask(anyone, route).status_code == 401
    anyone.headers["X-Auth-Token"] = "no token of ours"
    refused = ask(anyone, route)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Keystone uri=")


def test_rules_for_all_are_those_that_are_written_down():
    """Who has no role at all passes no other rule; the rest is left to roles, which the next test tries."""
    policy = Policy()
    asked = set().union(*map(rules_of, GUARDED))
    assert {rule for rule in asked if policy.allows(WITHOUT_ROLES, rule, OWN)} == FOR_ALL


CHANGES = [route for route in GUARDED if route.method not in ("GET", "HEAD")]
DRY = {"roost:plan"}
"""Rules of what changes nothing, whatever the method says."""


@pytest.mark.parametrize("route", [each for each in CHANGES if not rules_of(each) & (FOR_ALL | DRY)], ids=shown)
def test_a_reader_changes_nothing(cloud, route):
    assert ask(cloud.client("reader"), route).status_code == 403


FLEET = re.compile(
    r"/v2\.1/(os-hypervisors|os-services|os-aggregates)|/v2\.1/os-availability-zone/detail|/roost/v1/(hosts|capacity|snapshot)"
)


@pytest.mark.parametrize(
    "route",
    [
        each
        for each in GUARDED
        if FLEET.match(each.path) or (each in CHANGES and each.path.startswith("/v2.1/flavors"))
    ],
    ids=shown,
)
def test_a_member_sees_no_host_and_changes_no_flavor(member, route):
    assert ask(member, route).status_code == 403


# --- objects of other projects -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def owned(cloud):
    """Path parameter -> the key of an object that belongs to the project `ours`."""
    member = cloud.client("member")
    flavor = next(iter(cloud.client("admin").get("/flavors").json()["flavors"]))["id"]
    server = member.post("/servers", {"server": {"name": "access", "flavorRef": flavor, "networks": "none"}})
    group = member.post("/os-server-groups", {"server_group": {"name": "access", "policy": "affinity"}})
    image = member.post("/image/v2/images", {"name": "access"})
    me = member.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": member.headers["X-Auth-Token"]})
    uuid = server.json()["server"]["id"]
    wait_for(lambda: member.get("/roost/v1/decisions", params={"server": uuid}).json()["decisions"], "its decision")
    return {
        "decision": uuid,
        "server_id": server.json()["server"]["id"],
        "group_id": group.json()["server_group"]["id"],
        "image_id": image.json()["id"],
        "project_id": cloud.projects["ours"],
        "user_id": me.json()["token"]["user"]["id"],
    }


OF_PROJECTS = {"decision", "server_id", "group_id", "image_id", "project_id", "user_id"}
OF_THE_CLOUD = {
    "flavor_id",
    "key",
    "aggregate_id",
    "hypervisor",
    "pattern",
    "service",
    "role",
    "domain_id",
    "host",
}
BESIDE_THE_OWNER = {"migration_id", "credential_id"}
"""Parameters of paths that have the owner before them."""
BODIES = {
    ("PUT", "/v2.1/servers/{server_id}"): {"server": {"name": "mine"}},
    ("POST", "/v2.1/servers/{server_id}/action"): {"os-stop": None},
    ("POST", "/roost/v1/servers/{server_id}/plan"): {"os-stop": None},
    ("POST", "/v2.1/servers/{server_id}/metadata"): {"metadata": {"a": "b"}},
    ("PUT", "/v2.1/servers/{server_id}/metadata"): {"metadata": {"a": "b"}},
    ("PUT", "/v2.1/servers/{server_id}/metadata/{key}"): {"meta": {"a": "b"}},
    ("PATCH", "/image/v2/images/{image_id}"): [],
    ("PUT", "/image/v2/images/{image_id}/file"): None,
    ("POST", "/identity/v3/users/{user_id}/application_credentials"): {"application_credential": {"name": "x"}},
}


def parameters(route):
    return set(re.findall(r"\{(\w+)", route.path))


@pytest.mark.parametrize("route", [each for each in GUARDED if parameters(each)], ids=shown)
def test_every_parameter_of_a_path_is_known_to_these_tests(route):
    assert parameters(route) <= OF_PROJECTS | OF_THE_CLOUD | BESIDE_THE_OWNER


@pytest.mark.parametrize("route", [each for each in GUARDED if parameters(each) & OF_PROJECTS], ids=shown)
def test_what_belongs_to_another_project_is_not_found(cloud, owned, route):
    values = {**owned, "key": "a"}
    key = route.method, route.path
    assert route.method not in ("POST", "PUT", "PATCH") or key in BODIES, "add a body to BODIES"
    refused = ask(cloud.client("other"), route, BODIES.get(key), **values)
    may_ask = any(Policy().allows(MEMBER, rule, OWN) for rule in rules_of(route))
    assert refused.status_code == (404 if may_ask else 403)
