# SPDX-License-Identifier: Apache-2.0
"""The three pages, over real sockets, for polite clients and for others."""

import http.client
import json
import socket
import threading
from contextlib import ExitStack

import pytest

from roost.errors import OptionError
from roost.services import health
from roost.services.health import HealthServer, Readiness
from roost.services.metrics import Metrics

READY = Readiness(True)
NOT_READY = Readiness(False, ("the table of hosts is not built yet", "no broker"))


class State:
    """What the service says of itself."""

    now = READY

    def __call__(self):
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


@pytest.fixture(autouse=True)
def _stops_soon(monkeypatch):
    monkeypatch.setattr(health, "STOP_POLL_SECONDS", 0.01)


@pytest.fixture
def state():
    return State()


@pytest.fixture
def server(state):
    running = HealthServer("127.0.0.1", 0, state, Metrics())
    running.start()
    yield running
    running.stop()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def say(server, data):
    """Send these bytes; all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(data)
        return received(connection)


def received(connection):
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:  # it does not read what it does not want
        pass
    return b"".join(parts)


def test_a_server_that_answers_is_alive(server, state):
    state.now = NOT_READY
    status, body, headers = ask(server, "/healthz")
    assert (status, json.loads(body)) == (200, {"alive": True})
    assert headers["Content-Type"] == "application/json"


def test_one_that_answers_here_and_hangs_elsewhere_is_not_alive(state):
    hanging = HealthServer("127.0.0.1", 0, state, Metrics(), is_alive=lambda: False)
    hanging.start()
    try:
        assert ask(hanging, "/healthz")[:2] == (503, b'{"alive": false}\n')
    finally:
        hanging.stop()


def test_ready_or_not_with_reasons(server, state):
    assert ask(server, "/readyz")[:2] == (200, b'{"ready": true, "reasons": []}\n')
    state.now = NOT_READY
    status, body, _ = ask(server, "/readyz")
    assert status == 503
    assert json.loads(body) == {"ready": False, "reasons": list(NOT_READY.reasons)}


def test_metrics_in_prometheus_own_format(server):
    status, body, headers = ask(server, "/metrics?name=any")
    assert status == 200
    assert b'roost_decisions_total{result="placed"} 0.0\n' in body
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["Content-Length"] == str(len(body))


def test_head_has_no_body(server):
    status, body, headers = ask(server, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 1000


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz/../metrics", "*", "/%68ealthz"])
def test_any_other_page_is_not_there(server, path):
    status, body, _ = ask(server, path)
    assert status == 404
    assert json.loads(body)["pages"] == ["/healthz", "/readyz", "/metrics"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW", "__init__"])
def test_any_other_method_is_refused(server, method):
    status, body, headers = ask(server, "/healthz", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(body) == {"error": "method not allowed"}


def test_a_body_that_comes_along_is_not_read(server):
    answer = say(server, b"POST /healthz HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
    assert answer.startswith(b"HTTP/1.0 405 ")


def test_a_readiness_check_that_raises_is_not_ready_and_reveals_no_secret(server, state, caplog):
    state.now = RuntimeError("rabbit://u:hunter2@h")
    status, body, _ = ask(server, "/readyz")
    assert status == 503
    assert json.loads(body) == {"ready": False, "reasons": ["it cannot be told: RuntimeError; the log says more"]}
    assert "cannot be told" in caplog.text
    assert b"roost_service_ready 0.0" in ask(server, "/metrics")[1]


def test_a_mistake_of_ours_is_an_answer(state, caplog):
    server = HealthServer("127.0.0.1", 0, state, metrics=None)
    server.start()
    status, body, _ = ask(server, "/metrics")
    assert (status, json.loads(body)) == (500, {"error": "AttributeError; the log says more"})
    assert "/metrics cannot be answered" in caplog.text
    assert ask(server, "/healthz")[0] == 200
    server.stop()


def test_metrics_and_readiness_say_the_same(server, state):
    assert b"roost_service_ready 1.0" in ask(server, "/metrics")[1]
    state.now = NOT_READY
    assert b"roost_service_ready 0.0" in ask(server, "/metrics")[1]


@pytest.mark.parametrize(
    "data",
    [
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"A: b\r\n" * 2000 + b"\r\n",
    ],
)
def test_a_head_that_is_too_long_is_refused(server, data):
    answer = say(server, data)
    assert answer == b"" or answer.startswith(b"HTTP/1.0 431 ")
    assert ask(server, "/healthz")[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n\r\n",
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9.9\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"\xff\xfe\0\n\n",
        b"GET / HTTP/1.1\r\n: \r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\n\n",
    ],
)
def test_what_is_no_request_does_no_harm(server, data):
    answer = say(server, data)
    assert answer == b"" or answer.startswith((b"HTTP/1.0 400 ", b"HTTP/1.0 404 ", b"HTTP/1.0 505 "))
    assert ask(server, "/healthz")[0] == 200


def test_a_head_that_ends_early_is_a_bad_request(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert received(connection).startswith(b"HTTP/1.0 400 ")


def test_nothing_that_the_client_sent_comes_back(server):
    assert b"script" not in say(server, b"<script> /<script> HTTP/1.1\r\n\r\n")
    assert b"script" not in say(server, b"GET /<script> HTTP/1.1\r\n\r\n")


def test_a_slow_client_is_not_waited_for_even_if_it_sends_a_byte_now_and_then(server, monkeypatch):
    monkeypatch.setattr(health, "MAX_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        ended = threading.Event()
        dripping = threading.Thread(target=drip, args=(connection, ended))
        dripping.start()
        assert received(connection) == b""
        ended.set()
        dripping.join()


def drip(connection, ended):
    try:
        while not ended.wait(0.05):
            connection.sendall(b"G")
    except OSError:  # it hung up
        pass


def test_the_number_of_connections_is_bounded(server, monkeypatch):
    with ExitStack() as open_ones:
        where = ("127.0.0.1", server.port)
        held = [open_ones.enter_context(socket.create_connection(where)) for _ in range(health.MAX_CONNECTIONS)]
        with socket.create_connection(where, timeout=10) as one_too_many:
            assert received(one_too_many) == b""
        for each in held:
            each.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert b" 200 " in received(each)
    assert ask(server, "/healthz")[0] == 200


def test_a_port_that_is_taken_is_one_clear_error(server):
    with pytest.raises(OptionError, match=r"port \d+: Address already in use \(another program .* health_port"):
        HealthServer("127.0.0.1", server.port, READY, Metrics())


@pytest.mark.parametrize("address", ["192.0.2.1", "no.such.host.invalid", "1.2.3.4.5", "a" * 300, "bad\0name"])
def test_an_address_that_cannot_be_had_is_one_clear_error(address):
    with pytest.raises(OptionError, match=r"cannot listen on .*health_address"):
        HealthServer(address, 0, READY, Metrics())


def test_it_speaks_ipv6_too():
    server = HealthServer("::1", 0, lambda: READY, Metrics())
    server.start()
    with socket.create_connection(("::1", server.port), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in received(connection)
    server.stop()


def test_the_port_is_free_again_afterwards(state):
    first = HealthServer("127.0.0.1", 0, state, Metrics())
    first.start()
    port = first.port
    ask(first, "/healthz")
    first.stop()
    first.stop()
    second = HealthServer("127.0.0.1", port, state, Metrics())
    second.stop()  # one that never started


def test_no_name_server_is_asked(server, monkeypatch):
    monkeypatch.setattr(socket, "getfqdn", pytest.fail)
    monkeypatch.setattr(socket, "gethostbyaddr", pytest.fail)
    assert ask(server, "/healthz")[0] == 200
