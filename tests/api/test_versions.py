# SPDX-License-Identifier: Apache-2.0
"""Version discovery and the negotiation of microversions, as clients do them before anything else."""

import re

import pytest
from keystoneauth1 import token_endpoint
from keystoneauth1.session import Session


def test_the_versions_are_shown_without_a_token(anyone, cloud):
    (found,) = anyone.http.get("/").json()["versions"]
    assert (found["id"], found["status"], found["min_version"], found["version"]) == (
        "v2.1",
        "CURRENT",
        "2.1",
        "2.100",
    )
    assert found["links"] == [{"rel": "self", "href": f"{cloud.address}/v2.1/"}]


@pytest.mark.parametrize("path", ["/v2.1", "/v2.1/"])
def test_the_compute_version_is_found_with_and_without_a_slash(anyone, path):
    assert anyone.http.get(path).json()["version"]["version"] == "2.100"


def test_the_other_apis_say_where_they_are(anyone, cloud):
    (identity,) = anyone.http.get("/identity").json()["versions"]["values"]
    assert identity["links"][0]["href"] == f"{cloud.address}/identity/v3/"
    assert anyone.http.get("/identity/v3").json()["version"] == identity
    (image,) = anyone.http.get("/image").json()["versions"]
    assert image["links"][0]["href"] == f"{cloud.address}/image/v2/"


@pytest.mark.parametrize("path", ["/image", "/image/", "/identity", "/identity/"])
def test_where_there_are_versions_to_choose_from_the_status_says_so(anyone, path):
    """D36: 300, as Glance and Keystone have it; clients read the body all the same."""
    answer = anyone.http.get(path)
    assert answer.status_code == 300
    assert answer.json()["versions"]


def test_the_identity_version_says_which_media_it_speaks(anyone):
    """D36."""
    media = {"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}
    for path in ("/identity/v3", "/identity/v3/"):
        assert anyone.http.get(path).json()["version"]["media-types"] == [media]
    (listed,) = anyone.http.get("/identity").json()["versions"]["values"]
    assert listed["media-types"] == [media]


def test_keystoneauth_finds_every_api(cloud, member):
    """D36: by the addresses of the catalog, whatever their status."""
    auth = token_endpoint.Token(f"{cloud.address}/identity", member.headers["X-Auth-Token"])
    for path, version in (("image", (2, 9)), ("identity", (3, 14))):
        found = Session(auth).get_endpoint_data(endpoint_override=f"{cloud.address}/{path}", discover_versions=True)
        assert found.api_version == version


def test_a_client_behind_a_name_gets_links_of_that_name(anyone):
    found = anyone.http.get("/v2.1", headers={"Host": "cloud.example.org:80"}).json()["version"]
    assert found["links"][0]["href"] == "http://cloud.example.org:80/v2.1/"


@pytest.mark.parametrize(
    ("headers", "version"),
    [
        ({}, "2.1"),
        ({"OpenStack-API-Version": "compute 2.88"}, "2.88"),
        ({"OpenStack-API-Version": "placement 1.30, compute 2.53"}, "2.53"),
        ({"OpenStack-API-Version": "placement 1.30"}, "2.1"),
        ({"OpenStack-API-Version": "compute latest"}, "2.100"),
        ({"X-OpenStack-Nova-API-Version": "2.12"}, "2.12"),
        ({"X-OpenStack-Nova-API-Version": "2.12", "OpenStack-API-Version": "compute 2.13"}, "2.13"),
    ],
)
def test_the_answer_says_which_version_it_has(anyone, headers, version):
    answer = anyone.http.get("/v2.1", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["OpenStack-API-Version"] == f"compute {version}"
    assert answer.headers["X-OpenStack-Nova-API-Version"] == version
    assert answer.headers["Vary"] == "OpenStack-API-Version, X-OpenStack-Nova-API-Version"
    assert re.fullmatch(r"req-[0-9a-f-]{36}", answer.headers["x-openstack-request-id"])
    assert answer.headers["x-compute-request-id"] == answer.headers["x-openstack-request-id"]


@pytest.mark.parametrize(
    "wrong", ["compute x", "compute 2", "compute 2.1.1", "compute", "compute 2.-1", "compute \uff12.1"]
)
def test_a_version_that_is_none_is_refused(anyone, wrong):
    answer = anyone.http.get("/v2.1", headers={"OpenStack-API-Version": wrong.encode()})
    assert answer.status_code == 400
    assert "Must be of format MajorNum.MinorNum" in answer.json()["badRequest"]["message"]


@pytest.mark.parametrize("wrong", ["compute 2.0", "compute 2.101", "compute 3.1", "compute 1.1"])
def test_a_version_that_is_not_offered_is_refused_with_those_that_are(anyone, wrong):
    answer = anyone.http.get("/v2.1", headers={"OpenStack-API-Version": wrong})
    assert answer.status_code == 406
    assert "Minimum is 2.1 and maximum is 2.100" in answer.json()["computeFault"]["message"]


def test_an_address_that_does_not_exist_is_not_found(anyone):
    answer = anyone.http.get("/v2.1/nothing")
    assert answer.status_code == 404
    assert answer.json() == {"itemNotFound": {"code": 404, "message": "The resource could not be found."}}


def test_a_method_that_does_not_exist_is_refused(anyone):
    answer = anyone.http.patch("/v2.1")
    assert (answer.status_code, list(answer.json())) == (405, ["badMethod"])


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v2.1", "GET"),
        ("/v2.1/servers/x", "DELETE, GET, PUT"),
        ("/identity/v3/auth/tokens", "DELETE, GET, HEAD, POST"),
    ],
)
def test_a_refused_method_is_answered_with_all_that_the_address_has(anyone, path, methods):
    assert anyone.http.patch(path).headers["Allow"] == methods
