# SPDX-License-Identifier: Apache-2.0
"""Sign-in with Roost's own users: passwords, tokens, application credentials, and what becomes of revoked ones."""

import logging

import pytest
from tests.api.cloud import PASSWORD

TOKENS = "/identity/v3/auth/tokens"


def by_password(user="ann", password=PASSWORD, project=None, **scope):
    proof = {"user": {"name": user, "domain": {"id": "default"}, "password": password}}
    auth = {"identity": {"methods": ["password"], "password": proof}}
    if project:
        scope = {"project": {"name": project, "domain": {"name": "Default"}}}
    return {"auth": auth | ({"scope": scope} if scope else {})}


def by(method, **proof):
    return {"auth": {"identity": {"methods": [method], method: proof}}}


def use(cloud, secret):
    """The status of a request with this token."""
    return cloud.http.get(f"{TOKENS}", headers={"X-Auth-Token": secret, "X-Subject-Token": secret}).status_code


def test_a_user_signs_in_for_a_project_by_its_name(cloud, anyone):
    answer = anyone.post(TOKENS, by_password(project="ours"))
    assert answer.status_code == 201
    token = answer.json()["token"]
    assert token["user"]["name"] == "ann"
    assert token["user"]["domain"] == {"id": "default", "name": "Default"}
    assert token["project"] == {"domain": token["user"]["domain"], "id": cloud.projects["ours"], "name": "ours"}
    assert {each["name"] for each in token["roles"]} == {"member", "reader"}
    found = {each["type"]: each["endpoints"][0]["url"] for each in token["catalog"]}
    assert found["compute"] == f"{cloud.address}/v2.1"
    assert use(cloud, answer.headers["X-Subject-Token"]) == 200


def test_without_a_scope_it_is_the_only_project_of_the_user(cloud, anyone):
    assert anyone.post(TOKENS, by_password()).json()["token"]["project"]["id"] == cloud.projects["ours"]


def test_a_user_of_the_system_signs_in_for_the_system(anyone):
    token = anyone.post(TOKENS, by_password("sys", system={"all": True})).json()["token"]
    assert token["system"] == {"all": True}
    assert "project" not in token


@pytest.mark.parametrize(
    "wrong",
    [
        by_password(password="no"),
        by_password(user="nobody"),
        by_password(project="theirs"),
        by_password(project="nowhere"),
        by_password(system={"all": True}),
        by("token", id="nonsense"),
        by("application_credential", id="b9a7c7a4-0d3e-4d0f-9d3e-3a9c2a1b7f10", secret="x"),
        by("application_credential", name="x", user={"name": "ann", "domain": {"id": "default"}}, secret="x"),
        {"auth": {"identity": {"methods": ["password"], "password": {"user": {
            "name": "ann", "domain": {"name": "elsewhere"}, "password": PASSWORD}}}}},
    ],
)  # fmt: skip
def test_who_proves_nothing_gets_no_token(anyone, wrong):
    answer = anyone.post(TOKENS, wrong)
    assert answer.status_code == 401
    assert "X-Subject-Token" not in answer.headers
    assert answer.json()["error"]["code"] == 401


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"auth": {}},
        {"auth": {"identity": {"methods": []}}},
        {"auth": {"identity": {"methods": ["totp"]}}},
        {"auth": {"identity": {"methods": ["password"]}}},
        {"auth": {"identity": {"methods": ["password"], "password": {"user": {"password": "x"}}}}},
    ],
)
def test_a_sign_in_that_is_none_is_refused_with_the_reason(anyone, wrong):
    answer = anyone.post(TOKENS, wrong)
    assert answer.status_code == 400
    assert "auth" in answer.json()["error"]["message"] or "user" in answer.json()["error"]["message"]


def test_guessing_is_slowed_down_for_that_user_alone(cloud, anyone):
    statuses = [anyone.post(TOKENS, by_password("rea", f"guess {n}")).status_code for n in range(8)]
    assert statuses[:5] == [401] * 5
    assert statuses[-1] == 429
    refused = anyone.post(TOKENS, by_password("rea"))
    assert refused.status_code == 429  # the right password too, so that it cannot be told
    assert int(refused.headers["Retry-After"]) >= 1
    assert anyone.post(TOKENS, by_password("ann")).status_code == 201


def test_a_revoked_token_is_refused_at_once(cloud, anyone):
    secret = anyone.post(TOKENS, by_password()).headers["X-Subject-Token"]
    headers = {"X-Auth-Token": secret, "X-Subject-Token": secret}
    assert use(cloud, secret) == 200
    assert cloud.http.delete(TOKENS, headers=headers).status_code == 204
    assert use(cloud, secret) == 401


def test_a_token_is_exchanged_for_another_that_does_not_last_longer(anyone):
    first = anyone.post(TOKENS, by_password())
    second = anyone.post(TOKENS, by("token", id=first.headers["X-Subject-Token"]))
    assert second.status_code == 201
    assert second.json()["token"]["expires_at"] == first.json()["token"]["expires_at"]
    assert second.headers["X-Subject-Token"] != first.headers["X-Subject-Token"]


def test_another_user_s_token_is_not_shown(cloud):
    headers = {"X-Auth-Token": cloud.tokens["other"], "X-Subject-Token": cloud.tokens["member"]}
    assert cloud.http.get(TOKENS, headers=headers).status_code in (403, 404)
    assert cloud.http.delete(TOKENS, headers=headers).status_code in (403, 404)
    assert use(cloud, cloud.tokens["member"]) == 200


def test_without_a_token_the_client_is_told_where_to_get_one(cloud, anyone):
    answer = anyone.get("/identity/v3/auth/projects")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{cloud.address}/identity"'


def test_an_application_credential_signs_in_until_it_is_deleted(cloud, anyone, member):
    me = member.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": cloud.tokens["member"]}).json()
    path = f"/identity/v3/users/{me['token']['user']['id']}/application_credentials"
    wanted = {"application_credential": {"name": "backup", "roles": [{"name": "reader"}]}}
    made = member.post(path, wanted)
    assert made.status_code == 201
    key, secret = made.json()["application_credential"]["id"], made.json()["application_credential"]["secret"]
    assert member.post(path, wanted).status_code == 409
    answer = anyone.post(TOKENS, by("application_credential", id=key, secret=secret))
    assert {each["name"] for each in answer.json()["token"]["roles"]} == {"reader"}
    held = answer.headers["X-Subject-Token"]
    more = cloud.http.post(path, headers={"X-Auth-Token": held}, json={"application_credential": {"name": "two"}})
    assert more.status_code == 403  # a stolen credential cannot make itself permanent
    gone = cloud.http.delete(f"{path}/{key}", headers={"X-Auth-Token": held})
    assert gone.status_code == 403  # nor take others away from their user
    assert "secret" not in member.get(f"{path}/{key}").json()["application_credential"]
    assert member.delete(f"{path}/{key}").status_code == 204
    assert use(cloud, held) == 401
    assert anyone.post(TOKENS, by("application_credential", id=key, secret=secret)).status_code == 401


def test_others_do_not_see_the_credentials_of_a_user(cloud, member):
    me = member.get("/identity/v3/auth/tokens", headers={"X-Subject-Token": cloud.tokens["member"]}).json()
    path = f"/identity/v3/users/{me['token']['user']['id']}/application_credentials"
    assert cloud.client("other").get(path).status_code == 404


def test_a_user_sees_its_own_projects(cloud, member):
    found = member.get("/identity/v3/auth/projects").json()["projects"]
    assert [(each["id"], each["name"]) for each in found] == [(cloud.projects["ours"], "ours")]


def test_neither_passwords_nor_tokens_are_logged(cloud, anyone, caplog):
    with caplog.at_level(logging.DEBUG):
        secret = anyone.post(TOKENS, by_password()).headers["X-Subject-Token"]
        anyone.post(TOKENS, by_password(password="a wrong password"))
        use(cloud, secret)
    logged = [each for each in caplog.records if not each.name.startswith("httpcore")]  # the client's own
    assert [each for each in logged if each.name == "roost.api.edge"]
    for hidden in (PASSWORD, "a wrong password", secret):
        assert [each.name for each in logged if hidden in each.getMessage()] == []
