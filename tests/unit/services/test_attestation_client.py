# SPDX-License-Identifier: Apache-2.0
"""Polling an attestation service over real HTTPS: spec/filters.md 5.27."""

import functools
import json
import re
import socket
import socketserver
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

import pytest
import trustme

from roost.errors import OptionError
from roost.options.read import read_settings
from roost.services.attestation import ANSWER_LIMIT_BYTES, AttestationClient, AttestationOptions

NOON = "2026-01-01T12:00:00Z"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.questions.append((self.path, self.headers, json.loads(body)))
        self.server.reply(self)

    def log_message(self, *_):
        pass


class AttestationServer(socketserver.TCPServer):
    """A service that says what a test tells it to say, and remembers what it was asked."""

    def __init__(self, ca_file):
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        self.ca_file = ca_file
        self.questions = []
        self.status, self.body = 200, b'{"hosts": []}'
        self.reply = self.answer
        self.stopping = threading.Event()

    def vouch(self, **hosts):
        """node=(level, vtime) for each host in the answer."""
        entries = [{"host_name": node, "trust_lvl": level, "vtime": vtime} for node, (level, vtime) in hosts.items()]
        self.body = json.dumps({"hosts": entries}).encode()

    def answer(self, handler):
        handler.send_response(self.status)
        handler.send_header("Content-Length", str(len(self.body)))
        handler.end_headers()
        handler.wfile.write(self.body)

    def handle_error(self, request, client_address):
        """Some tests hang up in the middle of an answer."""

    def client(self, timeout_seconds=5, **options):
        known = {"attestation_server": "127.0.0.1", "attestation_port": self.port}
        known["attestation_server_ca_file"] = str(self.ca_file)
        return AttestationClient(AttestationOptions(**known | options), timeout_seconds)


@functools.cache
def authority():
    return trustme.CA()


@contextmanager
def serving(folder, certified_name="127.0.0.1"):
    authority().cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(certified_name).configure_cert(context)
    with AttestationServer(folder / "ca.pem") as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def server(tmp_path):
    with serving(tmp_path) as server:
        yield server


def test_level_and_time_come_as_the_service_wrote_them(server):
    server.vouch(n1=("trusted", NOON), n2=("untrusted", "whenever"))
    client = server.client()
    assert client.poll(["n1", "n2"]) == {"n1": ("trusted", NOON), "n2": ("untrusted", "whenever")}
    assert client.last_problem == ""


def test_question_is_the_count_and_the_names_of_the_nodes(server):
    server.client().poll(["n1", "n2"])
    ((path, headers, question),) = server.questions
    assert path == "/OpenAttestationWebServices/V1.0/PollHosts"
    assert headers["Content-Type"] == "application/json"
    assert question == {"count": 2, "hosts": ["n1", "n2"]}


@pytest.mark.parametrize("url", ["/attest/v2", "attest/v2/"])
def test_path_is_the_configured_one_with_or_without_slashes_around_it(server, url):
    server.client(attestation_api_url=url).poll(["n1"])
    assert server.questions[0][0] == "/attest/v2/PollHosts"


def test_auth_blob_is_sent_in_its_header(server):
    server.client(attestation_auth_blob="i-am-roost").poll(["n1"])
    assert server.questions[0][1]["x-auth-blob"] == "i-am-roost"


def test_without_auth_blob_there_is_no_such_header(server):
    server.client().poll(["n1"])
    assert "x-auth-blob" not in server.questions[0][1]


@pytest.mark.parametrize("status", [200, 201, 202])
def test_status_that_means_success_is_an_answer(server, status):
    server.status = status
    server.vouch(n1=("trusted", NOON))
    assert server.client().poll(["n1"]) == {"n1": ("trusted", NOON)}


def test_status_204_without_a_body_is_an_answer_without_hosts(server):
    server.status, server.body = 204, b""
    client = server.client()
    assert client.poll(["n1"]) == {}
    assert client.last_problem == ""


@pytest.mark.parametrize("status", [203, 302, 401, 404, 500])
def test_any_other_status_is_no_answer(server, status):
    server.vouch(n1=("trusted", NOON))
    server.status = status
    client = server.client()
    assert client.poll(["n1"]) is None
    assert f"127.0.0.1:{server.port}: it answered with status {status}" in client.last_problem


def test_problem_is_forgotten_when_the_service_is_well_again(server):
    client = server.client()
    server.status = 500
    assert client.poll(["n1"]) is None
    server.status = 200
    assert client.poll(["n1"]) == {}
    assert client.last_problem == ""


def test_certificate_of_another_authority_is_refused(server, tmp_path):
    stranger = tmp_path / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(stranger)
    client = server.client(attestation_server_ca_file=str(stranger))
    assert client.poll(["n1"]) is None
    assert "certificate verify failed" in client.last_problem
    assert server.questions == []


def test_without_ca_file_the_authorities_of_the_system_decide(server):
    client = server.client(attestation_server_ca_file=None)
    assert client.poll(["n1"]) is None
    assert "certificate verify failed" in client.last_problem


def test_certificate_for_another_name_is_refused(tmp_path):
    with serving(tmp_path, certified_name="attestation.example") as server:
        client = server.client()
        assert client.poll(["n1"]) is None
        assert "certificate verify failed" in client.last_problem


def test_insecure_ssl_accepts_any_certificate(tmp_path):
    with serving(tmp_path, certified_name="attestation.example") as server:
        server.vouch(n1=("trusted", NOON))
        client = server.client(attestation_server_ca_file=None, attestation_insecure_ssl=True)
        assert client.poll(["n1"]) == {"n1": ("trusted", NOON)}


def test_server_that_is_down_is_no_answer():
    with socket.socket() as bound:  # taken, but no process accepts connections
        bound.bind(("127.0.0.1", 0))
        options = AttestationOptions(attestation_server="127.0.0.1", attestation_port=bound.getsockname()[1])
        client = AttestationClient(options, timeout_seconds=1)
        assert client.poll(["n1"]) is None
        assert "Connection refused" in client.last_problem


def test_no_request_is_sent_where_no_server_is_set():
    client = AttestationClient(AttestationOptions())
    assert client.poll(["n1"]) is None
    assert client.last_problem == "[trusted_computing] attestation_server is not set"


def test_server_name_that_cannot_be_one_is_no_answer():
    client = AttestationClient(AttestationOptions(attestation_server="not a name"))
    assert client.poll(["n1"]) is None
    assert "InvalidURL" in client.last_problem


def test_server_that_stays_silent_is_given_up(server):
    server.reply = lambda handler: server.stopping.wait(5)
    client = server.client(timeout_seconds=0.1)
    assert client.poll(["n1"]) is None
    assert "timed out" in client.last_problem


def test_server_that_answers_byte_by_byte_is_given_up(server):
    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        while not server.stopping.wait(0.01):
            handler.wfile.write(b" ")

    server.reply = drip
    client = server.client(timeout_seconds=0.1)
    assert client.poll(["n1"]) is None
    assert re.search("took too long|timed out", client.last_problem)  # the latter on a busy machine


def test_answer_of_the_largest_size_is_read(server):
    server.body = b'{"hosts": []}'.ljust(ANSWER_LIMIT_BYTES)
    assert server.client().poll(["n1"]) == {}


def test_answer_that_is_one_byte_larger_is_no_answer(server):
    server.body = b'{"hosts": []}'.ljust(ANSWER_LIMIT_BYTES + 1)
    client = server.client()
    assert client.poll(["n1"]) is None
    assert "longer than 16777216 bytes" in client.last_problem


@pytest.mark.parametrize(
    "body", [b"", b'{"hosts": [', b"[]", b"{}", b'{"hosts": 7}', b"\xff\xff\xff", b"[" * 200_000, b"1" * 5000]
)
def test_broken_answer_is_no_answer(server, body):
    server.body = body
    client = server.client()
    assert client.poll(["n1"]) is None
    assert client.last_problem


def test_answer_that_ends_too_early_is_no_answer(server):
    def break_off(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"hosts": [')

    server.reply = break_off
    client = server.client()
    assert client.poll(["n1"]) is None
    assert client.last_problem


@pytest.mark.parametrize("entry", ["n2", None, {}, {"host_name": "n2"}, {"host_name": 2, "trust_lvl": "trusted"}])
def test_unreadable_host_in_the_answer_does_not_cost_the_others_their_level(server, entry):
    good = {"host_name": "n1", "trust_lvl": "trusted", "vtime": NOON}
    server.body = json.dumps({"hosts": [entry, good]}).encode()
    client = server.client()
    assert client.poll(["n1", "n2"]) == {"n1": ("trusted", NOON)}
    assert "1 of 2 hosts in its answer are unreadable" in client.last_problem


def test_host_without_validation_time_has_an_empty_one(server):
    server.vouch(n1=("trusted", None))
    assert server.client().poll(["n1"]) == {"n1": ("trusted", "")}


def test_auth_blob_is_in_no_problem_and_in_no_repr(server):
    server.reply = lambda handler: handler.wfile.write(handler.headers["x-auth-blob"].encode() + b"\r\n\r\n")
    client = server.client(attestation_auth_blob="hunter2")
    assert client.poll(["n1"]) is None
    assert "BadStatusLine" in client.last_problem
    assert "hunter2" not in client.last_problem
    assert "hunter2" not in repr(AttestationOptions(attestation_auth_blob="hunter2"))


@pytest.mark.parametrize("blob", ["two\r\nlines", "schlüssel"])
def test_auth_blob_that_cannot_be_a_header_is_refused_without_being_shown(blob):
    with pytest.raises(OptionError, match="attestation_auth_blob cannot be sent") as refused:
        AttestationClient(AttestationOptions(attestation_auth_blob=blob))
    assert blob not in str(refused.value)


@pytest.mark.parametrize("content", [None, b"no certificate"])
def test_ca_file_that_cannot_be_used_is_named_before_the_first_poll(tmp_path, content):
    ca_file = tmp_path / "ca.pem"
    if content:
        ca_file.write_bytes(content)
    with pytest.raises(OptionError, match=r"attestation_server_ca_file = .*ca\.pem"):
        AttestationClient(AttestationOptions(attestation_server="a", attestation_server_ca_file=str(ca_file)))


def test_options_have_the_names_and_defaults_of_nova():
    explicit = {"trusted_computing": {"attestation_server": "oat", "attestation_port": "8444"}}
    options = read_settings([AttestationOptions], explicit=explicit).fill(AttestationOptions)
    assert options == AttestationOptions(attestation_server="oat", attestation_port=8444)
    defaults = AttestationOptions()
    assert (defaults.attestation_server, defaults.attestation_server_ca_file) == (None, None)
    assert (defaults.attestation_port, defaults.attestation_auth_timeout) == (8443, 60)
    assert defaults.attestation_api_url == "/OpenAttestationWebServices/V1.0"
    assert (defaults.attestation_auth_blob, defaults.attestation_insecure_ssl) == (None, False)
