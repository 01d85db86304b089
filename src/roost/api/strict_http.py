# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 without leniency: a message that somebody else could read in another way is refused.

RFC 9112 lets a server accept more than it defines: lines that end with LF alone, folded lines, a length beside
chunks. A proxy in front may see the end of such a message elsewhere, and then takes the rest for the request of
another client (request smuggling).
"""

from __future__ import annotations

import re

import h11
from h11._receivebuffer import ReceiveBuffer

VERSIONS = (b"1.0", b"1.1")
_LINES = re.compile(rb"(?:[^\x00-\x20\x7f][^\x00-\x08\x0a-\x1f\x7f]*\r\n)*\r\n")
"""Lines up to the empty one: no blank at their begin, no control characters but TAB, CRLF at their end."""
_CHUNK_LINE = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]*\r\n")


class StrictConnection(h11.Connection):
    """The server's side of a connection. Its `next_event` raises RemoteProtocolError for what is not exact."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER)
        self._receive_buffer = StrictBuffer()  # private to h11: ADR 0023
        self.fault: str | None = None
        """Why nothing more is read from this connection."""

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """The next part of a request; RemoteProtocolError for what is none, and ever after."""
        if self.fault is not None:
            raise h11.RemoteProtocolError(self.fault)
        try:
            event = super().next_event()
            if isinstance(event, h11.Request):
                _check_framing(event)
        except h11.RemoteProtocolError as error:
            self.fault = str(error).partition(": bytearray")[0]  # the line itself may have a token
            raise
        return event


class StrictBuffer(ReceiveBuffer):
    """What was received and not read yet. LocalProtocolError for lines that are not those of RFC 9112."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """The lines of a head, or the trailers after chunks, up to the empty line; None before that has come."""
        before = bytes(self)
        lines = super().maybe_extract_lines()
        if lines is not None and not _LINES.fullmatch(before, 0, len(before) - len(self)):
            raise h11.LocalProtocolError("a line is folded, does not end with CRLF, or has a control character")
        return lines

    def maybe_extract_next_line(self) -> bytearray | None:
        """The line before a chunk; None before it has come."""
        line = super().maybe_extract_next_line()
        if line is not None and not _CHUNK_LINE.fullmatch(line):
            raise h11.LocalProtocolError("the line before a chunk has a control character")
        return line


def _check_framing(request: h11.Request) -> None:
    """Raise RemoteProtocolError for a request whose end is not clear: RFC 9112, sections 2.5, 6.1 and 6.3."""
    if request.http_version not in VERSIONS:
        raise h11.RemoteProtocolError(f"version {request.http_version.decode()} of HTTP is not known: send 1.1")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and b"content-length" in names:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding contradict each other: send one of them")
    if b"transfer-encoding" in names and request.http_version == b"1.0":
        raise h11.RemoteProtocolError("Transfer-Encoding does not exist in HTTP/1.0: send Content-Length")
