# SPDX-License-Identifier: Apache-2.0
"""D27: a token for no project says who calls, gives no rights, and is exchanged for one of a project."""

import re
import uuid

import openstack
import pytest
from keystoneauth1 import exceptions
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from tests.api.cloud import CHEAP, PASSWORD, Client
from tests.api.test_access import GUARDED, ask, shown

from roost.records.users import SYSTEM, UserStore

TOKENS = "/identity/v3/auth/tokens"
USERS = "/identity/v3/users"


@pytest.fixture
def users(cloud):
    return UserStore(cloud.dev.engine, cloud.dev.clock, CHEAP)


@pytest.fixture
def pia(cloud, users):
    """A user with roles in two projects and in the system, as the administrator of `roost dev` has them."""
    roles = {cloud.projects["ours"]: "member", cloud.projects["theirs"]: "reader", SYSTEM: "reader"}
    return users.create(f"pia-{uuid.uuid4()}", PASSWORD, roles)


@pytest.fixture
def sign_in(anyone, pia):
    """Sign in as pia: the answer."""

    def sign_in(scope=None, password=PASSWORD):
        user = {"name": pia.name, "domain": {"id": "default"}, "password": password}
        auth = {"identity": {"methods": ["password"], "password": {"user": user}}}
        return anyone.post(TOKENS, {"auth": auth | ({} if scope is None else {"scope": scope})})

    return sign_in


@pytest.fixture
def unscoped(cloud, sign_in):
    """A client with an unscoped token of pia."""
    return holder_of(cloud, sign_in("unscoped"))


def holder_of(cloud, answer):
    """A client with the token of a sign-in."""
    assert answer.status_code == 201, answer.text
    return Client(cloud.http, {"X-Auth-Token": answer.headers["X-Subject-Token"]})


def exchange(client, scope=None):
    """The answer to a sign-in with the client's own token."""
    auth = {"identity": {"methods": ["token"], "token": {"id": client.headers["X-Auth-Token"]}}}
    return Client(client.http).post(TOKENS, {"auth": auth | ({} if scope is None else {"scope": scope})})


def subject(client):
    return {"headers": {"X-Subject-Token": client.headers["X-Auth-Token"]}}


# --- what it is --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [None, "unscoped", {"unscoped": {}}])
def test_a_token_without_a_project_says_who_its_user_is_and_no_more(sign_in, pia, scope):
    """D27: explicitly, and for a user of several projects who names none."""
    answer = sign_in(scope)
    assert answer.status_code == 201
    token = answer.json()["token"]
    assert set(token) == {"methods", "user", "audit_ids", "issued_at", "expires_at"}
    assert (token["user"]["id"], token["methods"]) == (pia.id, ["password"])


def test_a_user_without_any_project_gets_one_too(anyone, users):
    name = users.create(f"new-{uuid.uuid4()}", PASSWORD, {}).name
    user = {"name": name, "domain": {"id": "default"}, "password": PASSWORD}
    answer = anyone.post(TOKENS, {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}})
    assert answer.status_code == 201
    assert "roles" not in answer.json()["token"]


def test_it_shows_the_user_and_its_projects(cloud, unscoped, pia):
    """D27: Horizon asks under the user's own id, openstack under /auth."""
    assert unscoped.get(f"{USERS}/{pia.id}").json()["user"]["name"] == pia.name
    for path in (f"{USERS}/{pia.id}/projects", "/identity/v3/auth/projects"):
        found = unscoped.get(path).json()
        assert [each["name"] for each in found["projects"]] == ["ours", "theirs"]
        assert found["links"]["self"] == f"{cloud.address}{path}"
    assert unscoped.get("/identity/v3/auth/domains").json()["domains"] == []
    assert unscoped.get("/identity/v3/auth/system").json()["system"] == [{"all": True}]


def test_it_is_validated_and_revoked(cloud, unscoped):
    token = unscoped.get(TOKENS, **subject(unscoped)).json()["token"]
    assert "project" not in token
    assert unscoped.request("HEAD", TOKENS, **subject(unscoped)).status_code == 200
    assert unscoped.delete(TOKENS, **subject(unscoped)).status_code == 204
    assert unscoped.get("/identity/v3/auth/projects").status_code == 401
    assert exchange(unscoped, {"project": {"id": cloud.projects["ours"]}}).status_code == 401


FOR_WHOM_IT_IS = {
    ("GET", TOKENS),
    ("HEAD", TOKENS),
    ("DELETE", TOKENS),
    ("GET", "/identity/v3/auth/projects"),
    ("GET", "/identity/v3/auth/domains"),
    ("GET", "/identity/v3/auth/system"),
    ("GET", "/identity/v3/users/{user_id}"),
    ("GET", "/identity/v3/users/{user_id}/projects"),
}
"""What such a token is good for, beside the exchange for another."""


@pytest.fixture(scope="module")
def without_project(cloud):
    """A client with an unscoped token of an administrator of a project and of the system."""
    name = f"boss-{uuid.uuid4()}"
    users = UserStore(cloud.dev.engine, cloud.dev.clock, CHEAP)
    users.create(name, PASSWORD, {cloud.projects["admins"]: "admin", SYSTEM: "admin"})
    user = {"name": name, "domain": {"id": "default"}, "password": PASSWORD}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": "unscoped"}
    return holder_of(cloud, cloud.client().post(TOKENS, {"auth": auth}))


@pytest.mark.parametrize(
    "route", [each for each in GUARDED if (each.method, each.path) not in FOR_WHOM_IT_IS], ids=shown
)
def test_it_gives_no_right_to_anything_else(without_project, route):
    """Not even an administrator's: neither compute nor images nor what is Roost's own."""
    refused = ask(without_project, route)
    assert refused.status_code == 403
    if route.method != "HEAD":
        assert re.search("for no project", refused.text)


# --- its exchange for another ------------------------------------------------------------------------


def test_it_is_exchanged_for_a_token_of_a_project_that_ends_with_it(cloud, unscoped):
    first = unscoped.get(TOKENS, **subject(unscoped)).json()["token"]
    answer = exchange(unscoped, {"project": {"id": cloud.projects["theirs"]}})
    token = answer.json()["token"]
    assert (token["project"]["name"], [each["name"] for each in token["roles"]]) == ("theirs", ["reader"])
    assert token["expires_at"] == first["expires_at"]
    assert holder_of(cloud, answer).get("/servers").status_code == 200
    assert exchange(unscoped, {"system": {"all": True}}).json()["token"]["system"] == {"all": True}


def test_a_project_or_a_domain_without_a_role_is_refused(cloud, unscoped):
    for scope in (
        {"project": {"id": cloud.projects["admins"]}},
        {"project": {"id": str(uuid.uuid4())}},
        {"project": {"name": "system", "domain": {"id": "default"}}},
        {"domain": {"id": "default"}},
        {"OS-TRUST:trust": {"id": "x"}},
    ):
        assert exchange(unscoped, scope).status_code == 401, scope


@pytest.mark.parametrize(
    "scope",
    [
        "everything",
        {},
        {"projects": {"name": "ours"}},
        {"system": {"all": False}},
        {"project": {"name": "ours", "domain": {"id": "default"}}, "system": {"all": True}},
        {"project": {"name": "ours", "domain": {"id": "default"}}, "domain": {"id": "default"}},
    ],
)
def test_a_scope_that_is_none_or_several_is_refused_and_not_guessed(sign_in, scope):
    """A scope that is dropped gives a token for something that the client did not ask for."""
    answer = sign_in(scope)
    assert answer.status_code == 400
    assert re.search(r"attribute auth\.scope(\.\w+)*\.", answer.json()["error"]["message"])


def test_a_token_of_a_project_is_exchanged_for_an_unscoped_one(cloud, sign_in):
    scoped = holder_of(cloud, sign_in({"project": {"id": cloud.projects["ours"]}}))
    answer = exchange(scoped, "unscoped")
    assert "project" not in answer.json()["token"]
    again = exchange(holder_of(cloud, answer))
    assert "project" not in again.json()["token"]


def test_a_disabled_user_can_neither_use_nor_exchange_it(cloud, unscoped, users, pia):
    users.set_enabled(pia.name, False)
    assert unscoped.get("/identity/v3/auth/projects").status_code == 401
    assert exchange(unscoped, {"project": {"id": cloud.projects["ours"]}}).status_code == 401


def test_a_new_password_ends_it(unscoped, users, pia):
    users.set_password(pia.name, "another long password")
    assert unscoped.get("/identity/v3/auth/projects").status_code == 401


def test_a_token_that_was_exchanged_lives_on_until_its_own_end(cloud, unscoped):
    """Revoking the first ends that one alone, as in Keystone; a new password ends all."""
    scoped = holder_of(cloud, exchange(unscoped, {"project": {"id": cloud.projects["ours"]}}))
    assert unscoped.delete(TOKENS, **subject(unscoped)).status_code == 204
    assert scoped.get("/servers").status_code == 200


def test_a_token_of_an_application_credential_does_not_become_an_unscoped_one(cloud, sign_in, pia):
    """Else who has stolen a credential for one project would get into all of them."""
    scoped = holder_of(cloud, sign_in({"project": {"id": cloud.projects["ours"]}}))
    path = f"{USERS}/{pia.id}/application_credentials"
    made = scoped.post(path, {"application_credential": {"name": "script"}}).json()["application_credential"]
    proof = {"id": made["id"], "secret": made["secret"]}
    identity = {"methods": ["application_credential"], "application_credential": proof}
    held = holder_of(cloud, Client(cloud.http).post(TOKENS, {"auth": {"identity": identity}}))
    assert exchange(held, "unscoped").status_code == 401
    assert exchange(held, {"project": {"id": cloud.projects["theirs"]}}).status_code == 401
    for scope in ("unscoped", {"project": {"id": cloud.projects["theirs"]}}, {"system": {"all": True}}):
        refused = Client(cloud.http).post(TOKENS, {"auth": {"identity": identity, "scope": scope}})
        assert refused.status_code == 401, scope


def test_a_wrong_password_waits_the_longer_without_a_scope_too(sign_in):
    statuses = [sign_in("unscoped", f"guess {number}").status_code for number in range(7)]
    assert statuses[:5] == [401] * 5
    assert statuses[-1] == 429
    assert sign_in("unscoped").status_code == 429


def test_an_unscoped_sign_in_does_not_tell_who_exists(sign_in, anyone):
    known = sign_in("unscoped", "wrong")
    user = {"name": f"nobody-{uuid.uuid4()}", "domain": {"id": "default"}, "password": "wrong"}
    auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": "unscoped"}
    unknown = anyone.post(TOKENS, {"auth": auth})
    assert (known.status_code, known.json()) == (unknown.status_code, unknown.json())


# --- the projects of a user --------------------------------------------------------------------------


def test_others_do_not_see_the_projects_of_a_user(cloud, pia, admin):
    path = f"{USERS}/{pia.id}/projects"
    assert cloud.client("other").get(path).status_code == 404
    assert cloud.client("other").get(f"{USERS}/{uuid.uuid4()}/projects").status_code == 404
    assert [each["name"] for each in admin.get(path).json()["projects"]] == ["ours", "theirs"]
    assert admin.get(f"{USERS}/{uuid.uuid4()}/projects").status_code == 404


def test_the_projects_of_a_user_are_filtered(unscoped, pia):
    def names(**query):
        found = unscoped.get(f"{USERS}/{pia.id}/projects", params=query).json()["projects"]
        return [each["name"] for each in found]

    assert names(name="theirs") == ["theirs"]
    assert names(enabled="true", domain_id="default") == ["ours", "theirs"]
    assert names(enabled="false") == names(domain_id="elsewhere") == names(parent_id="x") == []


# --- clients -----------------------------------------------------------------------------------------


def test_horizon_signs_in_as_keystoneauth_does_it_for_it(cloud, pia):
    """D27: an unscoped password, the projects, a token for one of them, another project, and out again."""
    unscoped = v3.Password(
        f"{cloud.address}/identity/v3",
        username=pia.name,
        password=PASSWORD,
        user_domain_name="Default",
        unscoped=True,
        reauthenticate=False,
    )
    session = Session()
    access = unscoped.get_access(session)
    assert (access.scoped, access.user_id, access.has_service_catalog()) == (False, pia.id, False)
    address = f"{cloud.address}/identity/v3/users/{access.user_id}/projects"
    projects = {each["name"]: each["id"] for each in session.get(address, auth=unscoped).json()["projects"]}
    for name, project_id in projects.items():
        scoped = v3.Token(
            f"{cloud.address}/identity/v3", access.auth_token, project_id=project_id, reauthenticate=False
        )
        held = scoped.get_access(session)
        assert (held.project_name, held.project_scoped, held.expires) == (name, True, access.expires)
        compute = session.get_endpoint(scoped, service_type="compute", interface="public")
        assert session.get(f"{compute}/servers", auth=scoped).status_code == 200
    with pytest.raises(exceptions.Forbidden):
        session.get(f"{cloud.address}/v2.1/servers", auth=unscoped)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_openstacksdk_lists_the_projects_of_a_user(cloud, pia):
    signed_in = openstack.connect(
        auth_url=f"{cloud.address}/identity/v3",
        username=pia.name,
        password=PASSWORD,
        user_domain_id="default",
        project_id=cloud.projects["ours"],
        region_name="RegionOne",
        identity_interface="public",
        load_yaml_config=False,
        load_envvars=False,
    )
    found = signed_in.identity.user_projects(pia.id)
    assert sorted(each.name for each in found) == ["ours", "theirs"]
    signed_in.close()
