# SPDX-License-Identifier: Apache-2.0
"""Calls to an API: the sign-in, the catalog, pages, and what is said when it does not answer."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from roost.client.api_session import COMPUTE, IMAGE, ROOST, ApiSession
from roost.client.cloud_access import CloudAccess
from roost.errors import ApiError, ApiUnavailable, BadInput


class Api:
    """An API that issues tokens and answers each GET with its path, or as `answers` says."""

    def __init__(self):
        self.seen, self.tokens, self.catalog, self.token, self.answers = [], [], None, None, {}
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                api.tokens.append(f"token-{len(api.tokens)}")
                self.reply(201, {"token": api.token or {"catalog": api.catalog or []}}, api.tokens[-1])

            def do_GET(self):
                api.seen.append((self.path, self.headers.get("X-Auth-Token"), self.headers.get("Authorization")))
                is_stale = api.tokens and self.headers.get("X-Auth-Token") != api.tokens[-1]
                status = 401 if is_stale else 200
                self.reply(status, api.answers.get(self.path, {"path": self.path}))

            def reply(self, status, record, token=None):
                body = record if isinstance(record, bytes) else json.dumps(record).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if token:
                    self.send_header("X-Subject-Token", token)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def endpoint(self, kind, path, interface="public", region="north"):
        return {
            "type": kind,
            "endpoints": [{"interface": interface, "region_id": region, "url": f"{self.address}{path}"}],
        }

    def session(self, auth_type="password", **settings):
        auth = {"auth_url": f"{self.address}/identity", "username": "ann", "password": "x", "endpoint": self.address}
        return ApiSession(CloudAccess.of("here", {"auth_type": auth_type, "auth": auth, **settings}))


@pytest.fixture
def api():
    made = Api()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def opened(api):
    """A session with the API, closed at the end."""
    made = []

    def open_session(*arguments, **settings):
        made.append(api.session(*arguments, **settings))
        return made[-1]

    yield open_session
    for each in made:
        each.close()


def test_the_catalog_says_where_the_services_are(api, opened):
    api.catalog = [api.endpoint("compute", "/c/v2.1"), api.endpoint("image", "/i/v2")]
    session = opened()
    assert session.call(COMPUTE, "GET", "/flavors") == {"path": "/c/v2.1/flavors"}
    assert session.call(IMAGE, "GET", "/v2/images") == {"path": "/i/v2/images"}
    assert session.call(ROOST, "GET", "/hosts") == {"path": "/c/roost/v1/hosts"}
    assert api.tokens == ["token-0"]


def test_region_interface_and_overrides_choose_the_address(api, opened):
    north, south = api.endpoint("compute", "/north"), api.endpoint("compute", "/south", "internal", "south")
    api.catalog = [north, south]
    chosen = opened(region_name="south", interface="internal", roost_endpoint_override=f"{api.address}/mine")
    assert chosen.call(COMPUTE, "GET", "/x") == {"path": "/south/x"}
    assert chosen.call(ROOST, "GET", "/x") == {"path": "/mine/x"}


def test_a_token_for_no_project_is_of_no_use(api, opened):
    """D27: what a user of several projects gets who names none."""
    api.token = {"user": {"name": "ann"}}
    with pytest.raises(BadInput, match=r"cloud here: no project is named.*OS_PROJECT_NAME"):
        opened().call(COMPUTE, "GET", "/servers")


def test_a_token_that_has_expired_is_replaced_once(api, opened):
    api.catalog = [api.endpoint("compute", "/v2.1")]
    session = opened()
    session.call(COMPUTE, "GET", "/x")
    api.tokens.append("another")  # so that the first counts no more
    assert session.call(COMPUTE, "GET", "/x") == {"path": "/v2.1/x"}
    assert [token for _, token, _ in api.seen] == ["token-0", "token-0", "token-2"]


@pytest.mark.parametrize(
    ("auth_type", "token", "basic"),
    [("none", None, None), ("http_basic", None, "Basic YW5uOng="), ("admin_token", "", None)],
)
def test_without_an_identity_service_the_address_is_enough(api, opened, auth_type, token, basic):
    assert opened(auth_type).call(ROOST, "GET", "/hosts") == {"path": "/roost/v1/hosts"}
    assert api.seen == [("/roost/v1/hosts", token, basic)]


def test_pages_follow_their_links(api, opened):
    api.catalog = [api.endpoint("compute", "/v2.1"), api.endpoint("image", "/image")]
    api.answers = {
        "/v2.1/a?limit=1000&x=1": {"as": [1, 2], "as_links": [{"rel": "next", "href": "http://far/a?x=1&marker=2"}]},
        "/v2.1/a?x=1&marker=2": {"as": [3]},
        "/image/v2/b?limit=1000": {"bs": [1], "next": "/v2/b?marker=1"},
        "/image/v2/b?marker=1": {"bs": [2]},
    }
    session = opened()
    assert list(session.pages(COMPUTE, "/a", "as", {"x": 1})) == [1, 2, 3]
    assert list(session.pages(IMAGE, "/v2/b", "bs")) == [1, 2]
    with pytest.raises(ApiError, match="has no cs"):
        list(session.pages(COMPUTE, "/c", "cs"))


def test_an_answer_that_is_no_json_is_an_error(api, opened):
    api.catalog, api.answers = [api.endpoint("compute", "/v2.1")], {"/v2.1/x": b"<html>"}
    with pytest.raises(ApiError, match="no JSON"):
        opened().call(COMPUTE, "GET", "/x")
    assert opened().fetch(COMPUTE, "/x") == b"<html>"


def test_a_cloud_without_a_service_says_so(opened):
    with pytest.raises(ApiError, match="no service of type compute"):
        opened().call(COMPUTE, "GET", "/x")


def test_an_api_that_is_away_is_named_without_user_and_path():
    auth = {"auth_url": "http://ann:secret@127.0.0.1:1/identity", "username": "ann", "password": "secret"}
    session = ApiSession(CloudAccess.of("here", {"auth": auth}))
    with pytest.raises(ApiUnavailable, match=r"http://127.0.0.1:1 cannot be reached: .*refused") as raised:
        session.call(COMPUTE, "GET", "/x")
    assert "secret" not in str(raised.value)
