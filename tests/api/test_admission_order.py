# SPDX-License-Identifier: Apache-2.0
"""D36: who calls is judged first, then what the caller may, then the request: for each route of the table."""

import pytest
from tests.api.test_access import CHANGES, DRY, FOR_ALL, GUARDED, address, rules_of, shown

MALFORMED = [
    {"content": b"{no JSON", "headers": {"Content-Type": "application/json"}},
    {"content": b"\xff\xfe", "headers": {"Content-Type": "application/json"}},
    {"content": b"data", "headers": {"Content-Type": "application/octet-stream"}},
    {"content": b"<a/>", "headers": {"Content-Type": "application/xml"}},
    {"content": b"[" * 40 + b"]" * 40, "headers": {}},
    {"content": b'"\\ud800"', "headers": {}},
    {"content": b"", "headers": {"OpenStack-API-Version": "compute 2.9999"}},
    {"content": b"", "headers": {"OpenStack-API-Version": "compute nonsense"}},
    {"content": b"", "headers": {}, "params": {"limit": "x", "sort_key": "secret", "marker": "none"}},
]
"""Requests that nothing could be made of."""


def send(cloud, route, token, wrong):
    headers = {**wrong["headers"], **({"X-Auth-Token": token} if token else {})}
    return cloud.http.request(route.method, address(route), **wrong | {"headers": headers})


@pytest.mark.parametrize("route", GUARDED, ids=shown)
def test_without_a_token_a_request_is_not_judged(cloud, route):
    """Nobody learns without a token what the service makes of a body, a query or a version."""
    for number, wrong in enumerate(MALFORMED):
        answer = send(cloud, route, "no token of ours" if number % 2 else None, wrong)
        assert answer.status_code == 401, wrong
        assert answer.headers["WWW-Authenticate"].startswith("Keystone uri=")


@pytest.mark.parametrize("route", [each for each in CHANGES if not rules_of(each) & (FOR_ALL | DRY)], ids=shown)
def test_without_the_right_a_body_is_not_judged(cloud, route):
    for wrong in MALFORMED[:3]:
        version = {"OpenStack-API-Version": f"compute {route.newest}"}
        answer = send(cloud, route, cloud.tokens["reader"], wrong | {"headers": {**wrong["headers"], **version}})
        assert answer.status_code == 403, wrong


@pytest.mark.parametrize("route", [each for each in CHANGES if each.method in ("POST", "PUT", "PATCH")], ids=shown)
def test_with_token_and_right_a_malformed_body_is_refused(cloud, route):
    version = {"OpenStack-API-Version": f"compute {route.newest}"}
    for wrong in MALFORMED[:3]:
        answer = send(cloud, route, cloud.tokens["admin"], wrong | {"headers": {**wrong["headers"], **version}})
        assert answer.status_code in ((400, 404) if route.path.endswith("/file") else (400, 415)), wrong


def test_a_malformed_sign_in_is_refused_as_such(anyone):
    for wrong in MALFORMED[:6]:
        answer = anyone.http.post("/identity/v3/auth/tokens", **wrong)
        assert answer.status_code in (400, 415), wrong


def test_an_address_that_does_not_exist_is_not_found_whatever_the_body(anyone):
    assert anyone.http.post("/v2.1/nothing", content=b"{no JSON").status_code == 404


def test_data_of_an_image_that_is_not_the_caller_s_is_not_found(cloud, member):
    """D36: without a token it is 401; that images have no data is said to those who may change the image."""
    made = member.post("/image/v2/images", {"name": "mine"}).json()
    path, headers = f"/image/v2/images/{made['id']}/file", {"Content-Type": "application/octet-stream"}

    def put(user):
        token = {} if user is None else {"X-Auth-Token": cloud.tokens[user]}
        return cloud.http.put(path, content=b"data", headers=headers | token).status_code

    assert [put(user) for user in (None, "other", "reader", "member")] == [401, 404, 403, 400]
