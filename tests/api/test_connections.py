# SPDX-License-Identifier: Apache-2.0
"""How many connections a server keeps, and of whom: one client cannot keep the others out.

All of 127.0.0.0/8 is this machine, so 127.0.0.1 and 127.0.0.2 are two clients.
"""

import json
import re
import resource
import socket
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
import trustme
from tests.api.cloud import PATIENCE, wait_for

from roost.api import connections
from roost.api.app import build_app
from roost.api.process import HttpServer, open_listener
from roost.api.routing import Route
from roost.services.metrics import Metrics

HERE, THERE = "127.0.0.1", "127.0.0.2"
POST = b"POST /identity/v3/auth/tokens HTTP/1.1\r\nHost: x\r\n"


class Server:
    """A server of the same cloud. GET /wait is answered once it may end."""

    def __init__(self, cloud, **options):
        self.may_end, self.waiting = threading.Event(), 0
        parts = cloud.dev.api.parts
        options = replace(parts.options, osapi_compute_listen_port=0, **options)
        parts = replace(parts, options=options)
        routes = [Route("GET", "/wait", self.wait, None), Route("GET", "/now", self.now, None)]
        app = build_app(parts, Metrics((), services=("api",)), routes)
        self.http = HttpServer(app, options, open_listener(options))
        self.port = self.http.port

    def now(self):
        """Answers."""
        return {}

    def wait(self):
        """Answers later."""
        self.waiting += 1
        assert self.may_end.wait(20)
        return {}


@pytest.fixture
def serve(cloud, monkeypatch):
    with ExitStack() as stack:

        def start(most=connections.MOST_CONNECTIONS, **options):
            monkeypatch.setattr(connections, "MOST_CONNECTIONS", most)
            server = Server(cloud, **options)
            server.http.start()
            stack.callback(server.http.stop)
            stack.callback(server.may_end.set)
            return server

        yield start


@contextmanager
def lines(port, count, source=HERE, first=b""):
    """Context of that many connections, each of which has sent these bytes."""
    with ExitStack() as stack:
        made = []
        for _ in range(count):
            line = socket.create_connection((HERE, port), timeout=10, source_address=(source, 0))
            made.append(stack.enter_context(line))
            line.sendall(first)
        yield made


def get(path):
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()


def ask(port, path="/now", source=HERE):
    """Status and text of the whole answer to a request on a connection of its own."""
    with lines(port, 1, source, get(path)) as (line,):
        return received(line)


def received(line):
    """Status and text of the whole answer; 0 for none."""
    text = b""
    try:
        while part := line.recv(65536):
            text += part
    except ConnectionError:
        pass
    found = re.match(rb"HTTP/1\.1 (\d+)", text)
    return (int(found[1]) if found else 0), text.decode()


def is_open(line):
    """Whether the server has not closed it."""
    line.setblocking(False)
    try:
        return line.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.fixture
def many_files():
    """This process holds both ends of each connection."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(4096, before[1])), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("many_files")
def test_sockets_that_send_nothing_keep_nobody_out(serve):
    """D41: 1,100 of them from one address had everybody refused for 30 seconds."""
    server = serve()
    with lines(server.port, 1100):
        assert [ask(server.port, source=source)[0] for source in (THERE, HERE, THERE)] == [200, 200, 200]


@pytest.mark.parametrize("first", [b"GET", POST + b"Content-Length: 9\r\n\r\n"], ids=["head", "body"])
def test_requests_that_are_not_whole_keep_nobody_out(serve, first):
    """D41: a byte more does not make a client that waits a better one."""
    server = serve(most=30)
    with lines(server.port, 60, first=first):
        assert [ask(server.port, source=source)[0] for source in (THERE, HERE, THERE)] == [200, 200, 200]


def test_silent_sockets_keep_nobody_out_before_tls_is_agreed_on(serve, tmp_path):
    """D41: a connection counts from its first packet on, not from the end of the handshake."""
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "pem"))
    server = serve(most=20, ssl_cert_file=str(tmp_path / "pem"), ssl_key_file=str(tmp_path / "pem"))
    with lines(server.port, 60) as silent:
        wait_for(lambda: sum(map(is_open, silent)) <= 20, "the bound")
        with lines(server.port, 1, THERE) as (line,):
            context = trustme.ssl.create_default_context()
            authority.configure_trust(context)
            with context.wrap_socket(line, server_hostname="localhost") as secret:
                secret.sendall(get("/now"))
                assert received(secret)[0] == 200


def test_a_client_has_as_many_requests_under_way_as_the_option_allows(serve):
    """D41: one more is told so; other clients, and what is asked on connections that were there before, are not."""
    server = serve(max_connections_per_client=3)
    with lines(server.port, 3, first=get("/wait")) as busy:
        wait_for(lambda: server.waiting == 3, "three requests")
        status, text = ask(server.port)
        assert (status, "retry-after: 1" in text, "connection: close" in text.lower()) == (429, True, True)
        assert (
            "[roost] max_connections_per_client" in json.loads(text.partition("\r\n\r\n")[2])["overLimit"]["message"]
        )
        assert ask(server.port, source=THERE)[0] == 200
        server.may_end.set()
        assert [received(line)[0] for line in busy] == [200, 200, 200]
        wait_for(lambda: ask(server.port)[0] == 200, "an answer")


def test_a_client_beyond_its_bound_loses_what_it_does_not_use(serve):
    """D41: the oldest of its connections that keeps the server waiting."""
    server = serve(max_connections_per_client=3)
    with lines(server.port, 1, first=get("/wait")) as (busy,), lines(server.port, 2) as (old, young):
        wait_for(lambda: server.waiting == 1, "the request")
        assert ask(server.port)[0] == 200
        assert (received(old)[0], is_open(young)) == (0, True)
        server.may_end.set()
        assert received(busy)[0] == 200


def test_without_a_bound_of_each_client_that_of_all_counts(serve):
    server = serve(most=4, max_connections_per_client=0)
    with lines(server.port, 4, first=get("/wait")) as busy:
        wait_for(lambda: server.waiting == 4, "four requests")
        status, text = ask(server.port, source=THERE)
        assert (status, "retry-after: 1" in text, "connection: close" in text.lower()) == (503, True, True)
        server.may_end.set()
        assert [received(line)[0] for line in busy] == [200] * 4
        wait_for(lambda: ask(server.port)[0] == 200, "an answer")


def test_when_there_are_too_many_the_client_with_most_unused_ones_loses_one(serve):
    """D41: a connection that another client has just opened, or keeps for its next request, stays."""
    server = serve(most=6)
    with lines(server.port, 1, THERE) as (kept,), lines(server.port, 1, THERE) as (fresh,):
        kept.sendall(b"GET /now HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"{}"):
            answer += kept.recv(65536)
        with lines(server.port, 10):
            for line in (fresh, kept):
                line.sendall(get("/now"))
                assert received(line)[0] == 200


def test_a_refused_client_that_says_nothing_goes_as_others_do(serve):
    """D41: those beyond the bound are no way around it."""
    server = serve(max_connections_per_client=2)
    with lines(server.port, 2, first=get("/wait")), lines(server.port, 10) as silent:
        wait_for(lambda: sum(map(is_open, silent)) <= 1, "the bound")


def test_a_request_that_has_come_is_answered_however_many_connections_follow(serve):
    """D41: what has sent its request is not unused because the server has not read it yet."""
    server = serve(most=4, max_connections_per_client=4)
    with lines(server.port, 3, first=get("/wait")):
        wait_for(lambda: server.waiting == 3, "three requests")
        for _ in range(20):
            with lines(server.port, 1, first=get("/now")) as (line,), lines(server.port, 1):
                assert received(line)[0] == 200
                PATIENCE.wait(0.001)
