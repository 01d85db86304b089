# SPDX-License-Identifier: Apache-2.0
"""What people try who wish the service ill: each gets a clear refusal, and the service stays up."""

import json
import socket
import time
from dataclasses import replace

import pytest
from tests.api.raw_http import status_of, talk

from roost.api.app import build_app
from roost.api.call import NoAuth
from roost.api.options import NO_AUTH
from roost.api.process import HttpServer, open_listener
from roost.services.metrics import Metrics

TOKENS = "/identity/v3/auth/tokens"


@pytest.fixture(autouse=True)
def still_up(anyone):
    yield
    assert anyone.http.get("/v2.1").status_code == 200


@pytest.fixture(scope="module")
def hasty(cloud):
    """The port of a server of the same cloud that waits a second for a request, and no longer."""
    parts = cloud.dev.api.parts
    options = replace(parts.options, client_socket_timeout=1, max_request_body_size=2048)
    app = build_app(replace(parts, options=options), Metrics((), services=("api",)))
    server = HttpServer(app, options, open_listener(replace(options, osapi_compute_listen_port=0)))
    server.start()
    yield server.port
    server.stop()


@pytest.fixture(scope="module")
def open_to_all(cloud):
    """The port of a server of the same cloud in which everybody is an administrator."""
    parts = cloud.dev.api.parts
    options = replace(parts.options, auth_strategy=NO_AUTH)
    app = build_app(replace(parts, options=options, authenticator=NoAuth()), Metrics((), services=("api",)))
    server = HttpServer(app, options, open_listener(replace(options, osapi_compute_listen_port=0)))
    server.start()
    yield server.port
    server.stop()


def message_of(answer):
    (fault,) = answer.json().values()
    return fault["message"]


# --- bodies ------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_not_read(anyone, cloud):
    most = cloud.dev.api.parts.options.max_request_body_size
    answer = anyone.http.post(TOKENS, content=b'{"auth": "' + b"x" * most + b'"}')
    assert answer.status_code == 413
    assert str(most) in message_of(answer)


def test_a_body_in_chunks_that_becomes_too_large_is_cut_off(anyone, cloud):
    most = cloud.dev.api.parts.options.max_request_body_size
    answer = anyone.http.post(TOKENS, content=iter([b'{"auth": "', *[b"x" * 4096] * (most // 4096 + 2)]))
    assert answer.status_code == 413


def test_a_declared_size_that_is_too_large_is_refused_before_a_byte_of_it(hasty):
    head = f"POST {TOKENS} HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
    assert status_of(talk(hasty, head.encode())) == 413


@pytest.mark.parametrize("deep", [b"[" * 50_000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 40 + b"]" * 40])
def test_deep_json_is_refused(anyone, deep):
    answer = anyone.http.post(TOKENS, content=deep)
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        b'{"auth": "\xff\xfe"}',
        b"\xef\xbb\xbf{}",
        b"{",
        b"{'auth': 1}",
        b'{"auth": NaN}',
        b'{"auth": Infinity}',
        b'{"auth": "\\ud800"}',
        b'{"auth": "a\\u0000b"}',
        b'{"\\udfff": 1}',
        b'{"auth": 1} {"auth": 2}',
    ],
)
def test_a_body_that_is_no_text_of_json_is_refused(anyone, body):
    answer = anyone.http.post(TOKENS, content=body)
    assert answer.status_code == 400
    assert "body" in message_of(answer)


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data; boundary=x", "json"])
def test_a_body_of_another_kind_is_refused(anyone, kind):
    answer = anyone.http.post(TOKENS, content=b"{}", headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_a_huge_number_is_no_trouble(anyone):
    answer = anyone.http.post(TOKENS, content=b'{"auth": ' + b"9" * 5000 + b"}")
    assert answer.status_code == 400


# --- addresses and heads -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v2.1/../identity/v3",
        "/v2.1/%2e%2e/identity",
        "/v2.1//servers",
        "//v2.1/servers",
        "/v2.1/servers/%00",
        "/v2.1/servers/a%0d%0aX-Evil:1",
        "/v2.1/servers/..%2f..%2fetc",
        "/v2.1/servers\\..\\x",
        "/v2.1/servers/%ff%fe",
        "/v2.1/servers?name=%00",
        "/" + "a" * 9000,
    ],
)
def test_a_path_with_tricks_is_refused(cloud, path):
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {cloud.tokens['admin']}\r\nConnection: close\r\n\r\n"
    answer = talk(cloud.dev.api.port, head.encode("latin-1"))
    assert status_of(answer) in (400, 404, 414)
    assert "X-Evil" not in answer.split("\r\n\r\n")[0]


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: -1",
        "Content-Length: +5",
        "Content-Length: 0x5",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "X-Folded: a\r\n b: c\r\nContent Length: 5",
        "Bad\x00Name: x",
    ],
)
def test_a_head_that_can_be_read_in_two_ways_is_refused_and_the_connection_closed(cloud, head):
    """Behind a proxy that reads it the other way, the rest would be taken for the request of somebody else."""
    smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    text = f"POST {TOKENS} HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n{{}}   {smuggled}"
    answer = talk(cloud.dev.api.port, text.encode("latin-1"), patience=1.0)
    assert status_of(answer) in (400, 413, 415, 501)
    assert answer.count("HTTP/1.1") == 1


@pytest.mark.parametrize("host", ["a b", "x/../y", "x@y", "x?y", "x:port", "<script>"])
def test_a_host_that_is_none_gets_no_links(anyone, host):
    answer = anyone.http.get("/v2.1", headers={"Host": host})
    assert answer.status_code == 400
    assert host not in answer.text


def test_a_head_that_is_too_large_is_refused(cloud):
    head = f"GET /v2.1 HTTP/1.1\r\nHost: x\r\nX-Long: {'x' * 200_000}\r\n\r\n"
    assert status_of(talk(cloud.dev.api.port, head.encode())) in (400, 431)


@pytest.mark.parametrize("token", ["x" * 100_000, "\xff\xfe", "' OR 1=1 --", "null", "../../x"])
def test_a_token_that_is_none_is_refused(cloud, token):
    head = f"GET {TOKENS} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\nX-Subject-Token: x\r\n\r\n"
    assert status_of(talk(cloud.dev.api.port, head.encode("latin-1"))) in (400, 401, 431)


def test_the_method_does_not_matter_to_the_limits(anyone):
    assert anyone.http.request("TRACE", "/v2.1").status_code == 405
    assert anyone.http.request("PROPFIND", "/v2.1").status_code == 405


# --- slow clients ------------------------------------------------------------------------------------


def test_a_body_that_does_not_arrive_is_answered_with_408(hasty):
    head = f"POST {TOKENS} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{"
    answer = talk(hasty, head.encode())
    assert status_of(answer) == 408
    assert json.loads(answer.partition("\r\n\r\n")[2])["error"]["message"] == "The body did not arrive within 1 s."


def test_a_head_that_trickles_in_is_cut_off(hasty):
    began = time.monotonic()
    answer = talk(hasty, *(b"X-%d: y\r\n" % n if n else b"GET /v2.1 HTTP/1.1\r\n" for n in range(12)), pause=0.2)
    assert answer == ""
    assert time.monotonic() - began < 5


def test_a_connection_that_says_nothing_is_cut_off(hasty):
    assert talk(hasty) == ""


def test_a_second_request_on_a_connection_has_the_deadline_too(hasty):
    with socket.create_connection(("127.0.0.1", hasty), timeout=5) as line:
        line.sendall(b"GET /v2.1 HTTP/1.1\r\nHost: x\r\n\r\n")
        first = b""
        while not first.endswith(b"}}"):
            first += line.recv(65536)
        assert first.startswith(b"HTTP/1.1 200")
        line.sendall(b"GET /v2.1 HTTP/1.1\r\n")
        assert line.recv(65536) == b""


def test_slow_requests_keep_no_other_from_its_answer(hasty):
    lines = [socket.create_connection(("127.0.0.1", hasty), timeout=5) for _ in range(60)]
    try:
        for line in lines:
            line.sendall(f"POST {TOKENS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n".encode())
        answer = talk(hasty, b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert status_of(answer) == 404
    finally:
        for line in lines:
            line.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:8774", 200),
        ("[::1]:8774", 200),
        ("evil.example.org:8774", 400),
        ("192.0.2.7", 400),
    ],
)
def test_without_sign_in_no_web_page_can_ask_under_a_name_of_its_own(open_to_all, host, status):
    head = f"GET /v2.1/servers HTTP/1.1\r\nHost: {host}\r\nX-Auth-Token: a\r\nConnection: close\r\n\r\n"
    assert status_of(talk(open_to_all, head.encode())) == status
