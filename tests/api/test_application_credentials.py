# SPDX-License-Identifier: Apache-2.0
"""Application credentials: every key that clients send counts or is refused, and every documented key is answered.

What was accepted and dropped in silence is a family of D27, D30 and D36.
"""

import uuid
from datetime import UTC, datetime, timedelta

import openstack
import pytest
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from tests.api.cloud import PASSWORD

TOKENS = "/identity/v3/auth/tokens"


@pytest.fixture
def path(cloud, member):
    """The address of the member's credentials."""
    own = member.get(TOKENS, headers={"X-Subject-Token": cloud.tokens["member"]}).json()["token"]["user"]["id"]
    return f"/identity/v3/users/{own}/application_credentials"


@pytest.fixture
def create(member, path):
    """Ask for a credential with these keys: the answer."""

    def create(**more):
        return member.post(path, {"application_credential": {"name": f"script-{uuid.uuid4()}", **more}})

    return create


def made(answer):
    assert answer.status_code == 201, answer.text
    return answer.json()["application_credential"]


def test_all_documented_keys_are_answered(cloud, create, member, path):
    """Tempest reads access_rules of each; the secret is in the first answer alone."""
    keys = {"id", "name", "description", "user_id", "project_id", "roles", "expires_at", "unrestricted", "links"}
    first = made(create())
    assert set(first) == keys | {"access_rules", "secret"}
    assert (first["access_rules"], first["unrestricted"], first["expires_at"]) == ([], False, None)
    assert (first["project_id"], [each["name"] for each in first["roles"]]) == (cloud.projects["ours"], ["member"])
    shown = member.get(f"{path}/{first['id']}").json()["application_credential"]
    assert shown == {key: value for key, value in first.items() if key != "secret"}
    listed = member.get(path, params={"name": first["name"]}).json()
    assert listed["application_credentials"] == [shown]
    assert set(listed["links"]) == {"self", "previous", "next"}
    assert member.get(path, params={"name": "none"}).json()["application_credentials"] == []


@pytest.mark.parametrize(
    "form", ["%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%f+00:00"]
)
def test_it_expires_at_the_time_it_is_told_in_every_form_that_keystone_takes(create, form):
    """Without a zone the time is in UTC, as openstack and Horizon send it."""
    wanted = (datetime.now(UTC) + timedelta(days=2)).replace(microsecond=0)
    found = made(create(expires_at=wanted.strftime(form)))["expires_at"]
    assert datetime.fromisoformat(found) == wanted


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expires_at", "soon"),
        ("expires_at", 1763527506),
        ("expires_at", "1763527506"),
        ("expires_at", "2020-01-01T00:00:00"),
        ("expires_at", "0001-01-01T00:00:00+14:00"),
        ("unrestricted", True),
        ("unrestricted", "true"),
        ("access_rules", [{"path": "/v2.1/servers", "method": "GET", "service": "compute"}]),
        ("secret", "a secret of my own"),
        ("description", "kept nowhere"),
        ("roles", [{}]),
        ("roles", [{"name": "no such role"}]),
        ("roles", []),
        ("project_id", "another"),
        ("nonsense", 1),
        ("name", ""),
        ("name", " blank "),
    ],
)
def test_what_would_have_no_effect_is_refused(create, member, path, key, value):
    """Above all access_rules: who restricts a credential must not get one without restrictions."""
    before = member.get(path).json()["application_credentials"]
    answer = create(**{key: value})
    assert answer.status_code == 400
    assert key.removesuffix("s") in answer.json()["error"]["message"]
    assert member.get(path).json()["application_credentials"] == before


def test_what_says_nothing_is_taken(create):
    """Horizon and older clients send all keys, with empty values."""
    empty = {"description": "", "secret": None, "access_rules": [], "expires_at": None, "roles": None}
    assert made(create(**empty, unrestricted=False))["roles"]


def test_a_role_that_the_user_has_not_is_refused(create):
    assert create(roles=[{"name": "admin"}]).status_code == 403


def test_a_token_says_of_which_credential_it_is(anyone, create):
    credential = made(create(roles=[{"name": "reader"}]))
    proof = {"id": credential["id"], "secret": credential["secret"]}
    auth = {"identity": {"methods": ["application_credential"], "application_credential": proof}}
    answer = anyone.post(TOKENS, {"auth": auth})
    known = {"id": credential["id"], "name": credential["name"], "restricted": True}
    assert answer.json()["token"]["application_credential"] == known
    held = answer.headers["X-Subject-Token"]
    headers = {"X-Auth-Token": held, "X-Subject-Token": held}
    assert anyone.http.get(TOKENS, headers=headers).json()["token"]["application_credential"] == known


def test_a_token_without_the_catalog_is_shorter(anyone, cloud):
    user = {"name": "ann", "domain": {"id": "default"}, "password": PASSWORD}
    body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    signed_in = anyone.post(f"{TOKENS}?nocatalog", body)
    assert "catalog" not in signed_in.json()["token"]
    held = signed_in.headers["X-Subject-Token"]
    headers = {"X-Auth-Token": held, "X-Subject-Token": held}
    assert "catalog" not in anyone.http.get(f"{TOKENS}?nocatalog", headers=headers).json()["token"]
    assert "catalog" in anyone.http.get(TOKENS, headers=headers).json()["token"]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_openstacksdk_makes_a_credential_and_keystoneauth_signs_in_with_it(cloud, path):
    sdk = openstack.connect(
        auth_url=f"{cloud.address}/identity/v3",
        username="ann",
        password=PASSWORD,
        project_name="ours",
        user_domain_id="default",
        project_domain_id="default",
        identity_interface="public",
        region_name="RegionOne",
        load_yaml_config=False,
        load_envvars=False,
    )
    user_id = path.split("/")[4]
    expires_at = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%f")
    credential = sdk.identity.create_application_credential(
        user_id, f"sdk-{uuid.uuid4()}", expires_at=expires_at, roles=[{"name": "reader"}], unrestricted=False
    )
    assert credential.access_rules == []
    auth = v3.ApplicationCredential(
        f"{cloud.address}/identity/v3",
        application_credential_id=credential.id,
        application_credential_secret=credential.secret,
    )
    access = auth.get_access(Session())
    assert (access.application_credential_id, access.project_name) == (credential.id, "ours")
    sdk.close()
