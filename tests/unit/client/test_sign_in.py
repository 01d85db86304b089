# SPDX-License-Identifier: Apache-2.0
"""The body of a sign-in for each way of signing in."""

import pytest

from roost.client.api_session import sign_in_body
from roost.client.cloud_access import CloudAccess
from roost.errors import BadInput

URL = "http://api/identity/v3"
UUID = "f64009c7-13dc-44d0-801d-a31d5860ab48"
ANN = {"username": "ann", "password": "secret"}


def body(auth_type=None, **auth):
    settings = {"auth": {"auth_url": URL, **auth}, **({"auth_type": auth_type} if auth_type else {})}
    return sign_in_body(CloudAccess.of("here", settings))["auth"]


def test_a_password_signs_in_to_a_project_of_the_default_domain():
    domain = {"id": "default"}
    assert body(**ANN, project_name="demo") == {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "ann", "domain": domain, "password": "secret"}},
        },
        "scope": {"project": {"name": "demo", "domain": domain}},
    }


@pytest.mark.parametrize(
    ("auth", "scope"),
    [
        ({"project_id": "p1", "project_name": "demo"}, {"project": {"id": "p1"}}),
        ({"project_name": UUID}, {"project": {"id": UUID}}),
        ({"project_name": "a", "project_domain_name": "D"}, {"project": {"name": "a", "domain": {"name": "D"}}}),
        ({"system_scope": "all"}, {"system": {"all": True}}),
    ],
)
def test_the_scope_is_a_project_or_the_system(auth, scope):
    assert body(**ANN, **auth)["scope"] == scope


def test_without_a_scope_the_service_chooses():
    assert "scope" not in body(**ANN)


def test_an_application_credential_has_its_own_project():
    found = body("v3applicationcredential", application_credential_id="c", application_credential_secret="s")
    assert found == {
        "identity": {"methods": ["application_credential"], "application_credential": {"id": "c", "secret": "s"}}
    }
    named = body("v3applicationcredential", application_credential_name="n", application_credential_secret="s", **ANN)
    assert named["identity"]["application_credential"]["user"]["name"] == "ann"


def test_a_token_signs_in_to_another_project():
    found = body("token", token="t", project_id="p")
    assert found == {"identity": {"methods": ["token"], "token": {"id": "t"}}, "scope": {"project": {"id": "p"}}}


@pytest.mark.parametrize(
    ("auth_type", "auth", "missing"),
    [
        ("password", {"username": "ann"}, "password"),
        ("password", {"password": "x"}, "username"),
        ("token", {}, "token"),
        ("v3applicationcredential", {"application_credential_id": "c"}, "application_credential_secret"),
    ],
)
def test_what_is_missing_is_named(auth_type, auth, missing):
    with pytest.raises(BadInput, match=f"{missing} is missing"):
        body(auth_type, **auth)
