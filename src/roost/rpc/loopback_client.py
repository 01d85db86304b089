# SPDX-License-Identifier: Apache-2.0
"""The caller's side of a loopback socket: calls that a development cloud on this machine answers."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from roost.errors import MessageError, RpcTimeout, RpcUnreachable
from roost.rpc.context import RequestContext
from roost.rpc.loopback_address import CONNECT_SECONDS
from roost.rpc.messages import decode, encode_request
from roost.rpc.wire_errors import from_wire

MAX_REPLY_BYTES = 256 * 1024 * 1024
"""Size of a reply that is read; a list of a thousand servers has a hundredth of it."""
_OWN_ERRORS = {each.__name__: each for each in (RpcTimeout, RpcUnreachable, MessageError)}
"""Errors of the transport behind the socket, which are the caller's own, by name."""


class LoopbackTransport:
    """A `Caller` over a Unix socket. Each call has a connection of its own, so that threads may share it."""

    def __init__(self, path: Path) -> None:
        """`path`: the socket; see `find_dev_cloud`."""
        self.path = path

    def call(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        timeout: float,
        heartbeat_timeout: float | None = None,
    ) -> Any:
        """Have a service of the cloud run the method; returns its result, or raises an RpcError."""
        message: dict[str, Any] = {"topic": topic, "method": method, "version": version, "args": dict(args)}
        message |= {"context": context.to_dict(), "timeout": timeout}
        line = encode_request(message, f"{method}: an argument").encode() + b"\n"
        with self._connect() as connection:
            try:
                reply = _exchange(connection, line, timeout)
            except TimeoutError:
                raise RpcTimeout(f"{method} on {topic}: no answer within {timeout:g} seconds") from None
            except OSError as error:
                raise RpcTimeout(f"{method} on {topic}: the development cloud went away: {error.strerror}") from None
        if not reply:
            raise RpcTimeout(f"{method} on {topic}: the development cloud went away before it answered")
        return _result_of(reply)

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(os.fspath(self.path))
        except OSError as error:
            connection.close()
            problem = f"the development cloud at {self.path} cannot be reached: {error.strerror or error}"
            raise RpcUnreachable(problem, "start it: roost dev") from None
        return connection

    def close(self) -> None:
        """Nothing stays open between calls."""


def _exchange(connection: socket.socket, line: bytes, timeout: float) -> bytes:
    """Send a line and read the reply; empty where the other side closed the connection instead."""
    deadline = time.monotonic() + timeout
    connection.settimeout(timeout)
    with suppress(BrokenPipeError, ConnectionResetError):  # closed before it has read the line: its reply says why
        connection.sendall(line)
    reply = bytearray()
    while not reply.endswith(b"\n"):
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        part = connection.recv(1 << 16)
        reply += part
        if not part or len(reply) > MAX_REPLY_BYTES:
            return b""
    return bytes(reply)


def _result_of(reply: bytes) -> Any:
    answer = decode(reply, max_bytes=None)
    if not isinstance(answer, dict):
        raise MessageError(f"the reply cannot be understood: {json.dumps(answer)[:200]}")
    failure = answer.get("failure")
    if not failure:
        return answer.get("result")
    own = _OWN_ERRORS.get(str(failure.get("class"))) if isinstance(failure, dict) else None
    raise own(str(failure.get("message"))) if own else from_wire(failure)
