# SPDX-License-Identifier: Apache-2.0
"""Assembles one API process: HTTP server, clients of conductors, heartbeat.

The HTTP server is uvicorn in a thread of the service, with exact messages, deadlines and bounds.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import h11
import uvicorn
from sqlalchemy import Engine
from uvicorn.protocols.http.h11_impl import H11Protocol

from roost.api.app import build_app
from roost.api.call import ApiParts, Authenticator, NoAuth, OwnTokens
from roost.api.connections import Connection, Connections, Listener, StrictConnection, most_connections
from roost.api.edge import REFUSAL
from roost.api.options import BINARY, KEYSTONE, NO_AUTH, OWN_USERS, ApiOptions
from roost.api.policy import Policy
from roost.api.problems import Problem, body_of
from roost.client.rpc_client import RpcClient
from roost.clock import Clock
from roost.errors import OptionError
from roost.messages.interface import RpcServer, Transport
from roost.messages.options import RpcOptions
from roost.options.settings import Settings
from roost.records.servers import ServerStore
from roost.records.services import save_service_heartbeat
from roost.records.sign_in import SignIn
from roost.records.tokens import TokenStore
from roost.services.metrics import Metrics
from roost.services.options import HostOptions
from roost.services.rpc_service import PeriodicTask, RpcService

BACKLOG = 1024
"""Connections that may wait until they are taken."""
NO_ADDRESS = "name an address of this machine"
_REMEDIES = {
    errno.EADDRINUSE: "another program listens there, perhaps another Roost: stop it, or set another port",
    errno.EACCES: "ports below 1024 are for root: set another port",
}
"""Number of an error -> what to do."""


def open_listener(options: ApiOptions) -> socket.socket:
    """A socket that listens at the address of the options; OptionError where that cannot be."""
    address, port = options.osapi_compute_listen, options.osapi_compute_listen_port
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise OptionError(f"[DEFAULT] osapi_compute_listen: {address[:60]!r}: {error.strerror}", NO_ADDRESS) from None
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Without, a body waits 40 ms for the client to acknowledge the head of the answer.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind(place)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = _REMEDIES.get(error.errno or 0, NO_ADDRESS)
        raise OptionError(f"[DEFAULT] osapi_compute_listen_port: {address}:{port}: {error.strerror}", hint) from None
    return listener


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


TOPIC = "osapi_compute"


class ApiService(RpcService):
    """The API as a `ManagedService` of roost.services.lifecycle. It calls conductors, and none calls it."""

    binary = BINARY

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        transport: Transport,
        *,
        clock: Clock,
        metrics: Metrics,
        files: Sequence[Path] = (),
        listener: socket.socket | None = None,
        read_again: Callable[[], Settings] | None = None,
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`files`: config files. `listener`: where it takes requests; without it, at the address of the options.

        OptionError for options that cannot be.
        """
        super().__init__(
            settings, engine, transport, clock=clock, metrics=metrics, read_again=read_again, owned=owned
        )
        options = settings.fill(ApiOptions)
        options.check()
        self._host = settings.fill(HostOptions).service_host
        rpc = settings.fill(RpcOptions)
        self.parts = ApiParts(
            settings,
            options,
            engine,
            clock,
            make_authenticator(options, engine, files, clock),
            Policy(files, clock),
            lambda context: RpcClient(transport, rpc, context),
            ServerStore(engine, clock),
            SignIn(engine, clock, options.token_expiration) if options.auth_strategy == OWN_USERS else None,
            config_files=files,
        )
        self._listener = listener
        if listener is None:
            open_listener(options).close()  # a port that is taken is reported before anything is started
        self._app = build_app(self.parts, metrics)
        self._http: HttpServer | None = None

    @property
    def port(self) -> int:
        """The port on which it answers; the one of the options before it does."""
        return self._http.port if self._http else self.parts.options.osapi_compute_listen_port

    @property
    def address(self) -> str:
        """Where clients find it, as far as it knows: the prefix of its links."""
        options = self.parts.options
        scheme, host = ("https" if options.ssl_cert_file else "http"), options.osapi_compute_listen
        own = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"
        return options.compute_link_prefix or own

    def prepare(self) -> None:
        """Begin to answer."""
        self._http = HttpServer(self._app, self.parts.options, self._listener or open_listener(self.parts.options))
        self._http.start()

    def make_servers(self) -> dict[str, RpcServer]:
        """None: nothing is asked of it by messages."""
        return {}

    def tasks(self) -> Sequence[PeriodicTask]:
        """None besides the heartbeat."""
        return ()

    def unready(self) -> list[str]:
        """Reasons why no request should be sent here now; empty when ready."""
        return super().unready() + ([] if self._http and self._http.is_answering else ["it does not answer"])

    def stop(self, is_hurried: bool) -> None:
        """Finish the requests that were taken, then stop. `is_hurried`: return now; the process exits after it."""
        self.parts.is_stopping.set()
        if self._http:
            self._http.stop(is_hurried)
        super().stop(is_hurried)

    def send_heartbeat(self) -> None:
        """Send a heartbeat, stamped by the database."""
        save_service_heartbeat(self._engine, self._host, BINARY, TOPIC, self.parts.servers.times.stamp())


def make_authenticator(options: ApiOptions, engine: Engine, files: Sequence[Path], clock: Clock) -> Authenticator:
    """Who says who calls; OptionError where the section that names a Keystone is wrong."""
    if options.auth_strategy == KEYSTONE:
        from roost.nova.keystone import open_keystone_tokens  # it imports keystoneauth, which takes 0.3 s

        return open_keystone_tokens(files, clock)
    return NoAuth() if options.auth_strategy == NO_AUTH else OwnTokens(TokenStore(engine, clock))
