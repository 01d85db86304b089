# SPDX-License-Identifier: Apache-2.0
"""The HTTP server: uvicorn in a thread of the service, with exact messages, deadlines and bounds."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from roost.api.connections import Connection, Connections, Listener, most_connections
from roost.api.edge import REFUSAL
from roost.api.listener import BACKLOG
from roost.api.options import ApiOptions
from roost.api.problems import Problem, body_of
from roost.api.strict_http import StrictConnection
from roost.errors import OptionError


class BoundedProtocol(H11Protocol):
    """A connection that is closed where the head of a request does not arrive in time, however slowly it trickles.

    It is closed too after what is no exact message of HTTP/1.1, with 400 where an answer can still be sent. It tells
    `connections` whether a request is under way.
    """

    def __init__(self, *args: Any, head_seconds: float, connections: Connections, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn: StrictConnection = StrictConnection()
        self._head_seconds = head_seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._connections = connections
        self._connection: Connection | None = None
        self._answer, self.app = self.app, self._answer_counted

    def connection_made(self, transport: Any) -> None:
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self._connection = self._connections.find(transport.get_extra_info("socket").fileno())
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._end_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; those of a further request start its deadline, and the end of its head ends it."""
        if self._deadline is None and not self._is_answering():
            self._start_deadline()
        super().data_received(data)
        if self._is_answering():
            self._end_deadline()
        self._note_use()

    def on_response_complete(self) -> None:
        """Go on with the next request, or wait for it."""
        super().on_response_complete()
        self._note_use()

    def _note_use(self) -> None:
        if self._connection is not None:
            self._connections.note_use(self._connection, self._is_answering() and not self.cycle.more_body)

    async def _answer_counted(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request. Its state says why it has to be refused, if there is one request too many."""
        if self._connection is None:
            await self._answer(scope, receive, send)
            return
        with self._connections.request(self._connection) as refusal:
            scope["state"][REFUSAL] = refusal
            await self._answer(scope, receive, send)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no message, unless an answer has begun, and close: the next one has no known beginning."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            message = f"Malformed request: {(self.conn.fault or msg)[:120]}."
            body = json.dumps(body_of("", Problem(400, message))).encode()
            headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
            head = h11.Response(status_code=400, headers=list(headers.items()), reason="Bad Request")
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        if self._is_answering():  # what handles the request is told that its client has gone
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self._head_seconds, self.transport.close)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class HttpServer:
    """Answers requests from a thread of its own. `port`: of its listening socket."""

    def __init__(self, app: Any, options: ApiOptions, listener: socket.socket) -> None:
        """Takes `listener` over. OptionError for files of TLS that cannot be read."""
        self.port: int = listener.getsockname()[1]
        connections = Connections(most_connections(), options.max_connections_per_client)
        protocol = partial(BoundedProtocol, head_seconds=options.client_socket_timeout, connections=connections)
        config = uvicorn.Config(
            app,
            http=protocol,  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            ssl_certfile=options.ssl_cert_file,
            ssl_keyfile=options.ssl_key_file,
            ssl_ca_certs=options.ssl_ca_file,
            ssl_cert_reqs=2 if options.ssl_ca_file else 0,
        )
        try:
            config.load()
        except OSError as error:
            raise OptionError(
                f"[wsgi] ssl_cert_file, ssl_key_file, ssl_ca_file: {error.strerror or error}",
                "they name PEM files that the service may read",
            ) from None
        self._listener = Listener(listener, connections)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="api", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    @property
    def is_answering(self) -> bool:
        """Whether requests are taken."""
        return self._server.started and self._thread.is_alive()

    def stop(self, is_hurried: bool = False) -> None:
        """Take no new requests, and finish those that were taken. `is_hurried`: without waiting for that."""
        self._server.should_exit = True
        if not is_hurried:
            self._thread.join()

    def _run(self) -> None:
        with self._listener:
            asyncio.run(self._server.serve(sockets=[self._listener]))
