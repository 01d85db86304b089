# SPDX-License-Identifier: Apache-2.0
"""What is taken for a request of HTTP, byte by byte: what a proxy in front could read in another way is refused."""

import json
import logging
import re
import socket

import pytest
from tests.api.raw_http import status_of, talk

TOKENS = "/identity/v3/auth/tokens"
GET = "GET /v2.1 HTTP/1.1\r\nHost: x\r\n"
POST = f"POST {TOKENS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
CHUNKED = f"{POST}Transfer-Encoding: chunked\r\n"
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture
def port(cloud):
    return cloud.dev.api.port


def exchange(port, *pieces, patience=5.0):
    """All that comes back until the server closes the connection; TimeoutError where it does not."""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as line:
        for piece in pieces:
            line.sendall(piece.encode("latin-1"))
        received = b""
        while chunk := line.recv(65536):
            received += chunk
        return received.decode("latin-1")


def check_refused(answer, *words):
    """One answer, 400, in JSON, that says that the connection ends."""
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 400 "), answer
    assert "connection: close" in head.lower()
    problem = json.loads(body)["badRequest"]
    assert problem["code"] == 400
    assert [word for word in words if word not in problem["message"]] == []


# --- where the body ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 12\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 12\r\n",
        "transfer-encoding: CHUNKED\r\ncontent-length: 0\r\n",
    ],
)
def test_a_length_beside_chunks_is_refused_and_the_connection_closed(port, framing):
    """D40: a proxy that goes by the length would take the rest of the chunks for the request of somebody else."""
    answer = exchange(port, f"{POST}{framing}\r\n2\r\n{{}}\r\n0\r\n\r\n{SMUGGLED}")
    check_refused(answer, "Content-Length", "Transfer-Encoding")


def test_chunks_in_http_1_0_are_refused(port):
    """D40: HTTP/1.0 has no chunks, so that a proxy of that version would not see where they end."""
    head = f"POST {TOKENS} HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    check_refused(exchange(port, f"{head}2\r\n{{}}\r\n0\r\n\r\n"), "Transfer-Encoding", "HTTP/1.0")


@pytest.mark.parametrize(
    "body",
    [
        "2\r\n{}\r\n0\r\n\n",
        "2\r\n{}\r\n0\r\nX-Trailer: y\n\n",
        "2\r\n{}\r\n0\r\nX-Trailer: y\n\r\n",
        "2\r\n{}\r\n0\r\nX-Trailer: y\r\n folded\r\n\r\n",
        "2\n{}\r\n0\r\n\r\n",
        "2;a\rb\r\n{}\r\n0\r\n\r\n",
        "2;a\nb\r\n{}\r\n0\r\n\r\n",
        "2\r\n{}\n0\r\n\r\n",
        "+2\r\n{}\r\n0\r\n\r\n",
        "0x2\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_chunks_whose_end_can_be_seen_in_two_places_are_refused(port, body):
    """D40: lines of chunks end with CRLF, as those of heads do."""
    check_refused(exchange(port, f"{CHUNKED}\r\n{body}{SMUGGLED}"))


def test_chunks_that_come_in_pieces_with_extensions_and_trailers_are_taken(port):
    pieces = [
        f"{CHUNKED}Connection: close\r\n\r\n",
        "1;a=b\r\n",
        "{\r",
        "\n1\r\n",
        "}\r\n0",
        "\r\n",
        "X-Trailer: y\r\n\r",
        "\n",
    ]
    answer = exchange(port, *pieces)
    assert status_of(answer) == 400
    assert "auth" in answer, "the body was read"


# --- lines of the head -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        "GET /v2.1 HTTP/1.1\nHost: x\n\n",
        "GET /v2.1 HTTP/1.1\nHost: x\r\n\r\n",
        "GET /v2.1 HTTP/1.1\r\nHost: x\nX-Other: y\r\n\r\n",
        f"{GET}X-Other: y\n\r\n",
        f"{GET}\n",
        f"{GET}X-Folded: y\r\n z\r\n\r\n",
        f"{GET}X-Folded: y\r\n\tz: 1\r\n\r\n",
        "GET /v2.1 HTTP/1.1\r\n X-Other: y\r\nHost: x\r\n\r\n",
        f"{GET}X-Other: y\rX-Hidden: z\r\n\r\n",
        f"{GET}X-Other: y\x01\r\n\r\n",
        f"{GET}X-Other : y\r\n\r\n",
        f"{GET}Host: z\r\n\r\n",
        "GET /v2.1 HTTP/1.1\r\n\r\n",
        "GET /v2.1\r\nHost: x\r\n\r\n",
        "GET  /v2.1 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_a_head_whose_lines_can_be_read_in_two_ways_is_refused(port, head):
    """D40: lines end with CRLF, are not folded, and have no control characters."""
    check_refused(exchange(port, f"{head}{SMUGGLED}"))


@pytest.mark.parametrize("version", ["HTTP/9.9", "HTTP/2.0", "HTTP/1.2", "HTTP/0.9", "http/1.1", "HTTP/1.10"])
def test_a_version_that_is_none_of_ours_is_refused(port, version):
    """D40: what its rules are, the server cannot know."""
    check_refused(exchange(port, f"GET /v2.1 {version}\r\nHost: x\r\n\r\n{SMUGGLED}"))


def test_a_later_request_of_a_connection_is_looked_at_as_the_first(port):
    """D40: requests that came together with another one are no exception."""
    answer = exchange(port, f"{GET}\r\n{GET}\r\nGET /v2.1 HTTP/1.1\nHost: x\n\n")
    assert re.findall(r"HTTP/1\.1 (\d+)", answer) == ["200", "200", "400"]


def test_chunks_that_go_wrong_after_the_answer_end_the_connection_without_a_trace_in_the_log(port, caplog):
    """D40: an answer to a request that nobody waits for cannot be sent, and that is no failure of the server."""
    with caplog.at_level(logging.ERROR):
        head = "GET /v2.1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
            line.sendall(head.encode())
            received = b""
            while not received.endswith(b"}}"):
                received += line.recv(65536)
            line.sendall(b"no size\r\n")
            assert line.recv(65536) == b""
    assert caplog.records == []


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_head_that_comes_byte_by_byte_is_taken(port, version):
    answer = exchange(port, *f"GET /v2.1 HTTP/{version}\r\nHost: x\r\nX: \xe9 \t\r\nConnection: close\r\n\r\n")
    assert status_of(answer) == 200


def test_two_requests_at_once_get_two_answers(port):
    answer = talk(port, f"{GET}\r\n{GET}Connection: close\r\n\r\n".encode())
    assert answer.count("HTTP/1.1 200 OK") == 2
