# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: TLS, certificates of clients, its stop. Slow requests are in tests/api/test_attempts.py."""

import asyncio
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
import trustme

from roost.api.options import ApiOptions
from roost.api.process import HttpServer, open_listener
from roost.errors import OptionError

PATIENCE_SECONDS = 20


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    """Option -> a file: certificate and key of the server, and who signs those of clients."""
    folder = tmp_path_factory.mktemp("tls")
    issued = authority.issue_cert("localhost")
    contents = {
        "ssl_cert_file": issued.cert_chain_pems[0],
        "ssl_key_file": issued.private_key_pem,
        "ssl_ca_file": authority.cert_pem,
    }
    for name, content in contents.items():
        content.write_to_path(str(folder / name))
    return {name: str(folder / name) for name in contents}


@pytest.fixture
def trusting(authority):
    """What a client trusts."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def say_the_scheme(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@contextmanager
def serving(**files):
    """Context with the address of a server."""
    options = replace(ApiOptions(), osapi_compute_listen_port=0, **files)
    listener = open_listener(options)
    try:
        server = HttpServer(say_the_scheme, options, listener)
        server.start()
        yield f"localhost:{server.port}"
        server.stop()
    finally:
        listener.close()


def test_with_a_certificate_it_speaks_tls_alone(files, trusting):
    with serving(ssl_cert_file=files["ssl_cert_file"], ssl_key_file=files["ssl_key_file"]) as address:
        assert httpx.get(f"https://{address}/", verify=trusting).text == "https"
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{address}/")


def test_with_an_authority_clients_need_a_certificate_of_it(files, authority, trusting):
    with serving(**files) as address:
        with pytest.raises(httpx.TransportError):
            httpx.get(f"https://{address}/", verify=trusting)
        authority.issue_cert("operator@example.org").configure_cert(trusting)
        assert httpx.get(f"https://{address}/", verify=trusting).text == "https"


@pytest.mark.parametrize("wrong", ["ssl_cert_file", "ssl_key_file", "ssl_ca_file"])
def test_a_file_that_is_missing_or_something_else_is_named_at_the_start(files, tmp_path, wrong):
    (empty := tmp_path / "empty").write_text("")
    for path in (tmp_path / "none", empty):
        with pytest.raises(OptionError, match=wrong), serving(**files | {wrong: str(path)}):
            pass


class Running:
    """A server with one request, which is not answered before it is allowed to be."""

    def __init__(self):
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        options = ApiOptions(osapi_compute_listen_port=0)
        self.server = HttpServer(self, options, open_listener(options))

    async def __call__(self, scope, receive, send):
        self.has_begun.set()
        while not self.may_end.is_set():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})

    def ask(self):
        return httpx.get(f"http://127.0.0.1:{self.server.port}/", timeout=PATIENCE_SECONDS).text


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def running(threads):
    made = Running()
    made.server.start()
    made.request = threads.submit(made.ask)
    assert made.has_begun.wait(PATIENCE_SECONDS)
    yield made
    made.may_end.set()


def test_a_stop_waits_for_the_answer_of_a_request_that_was_taken(running, threads):
    stopped = threads.submit(running.server.stop)
    with pytest.raises(TimeoutError):
        stopped.result(0.2)
    running.may_end.set()
    assert running.request.result(PATIENCE_SECONDS) == "done"
    stopped.result(PATIENCE_SECONDS)
    assert not running.server.is_answering


def test_a_hurried_stop_waits_for_nothing(running):
    running.server.stop(is_hurried=True)
    assert not running.request.done()
    running.may_end.set()
    running.request.result(PATIENCE_SECONDS)
    running.server.stop()
