# SPDX-License-Identifier: Apache-2.0
"""Assembles one API process: HTTP server, clients of conductors, heartbeat."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Engine

from roost.api.app import build_app
from roost.api.authentication import Authenticator, NoAuth, OwnTokens
from roost.api.call import ApiParts
from roost.api.http_server import HttpServer
from roost.api.listener import open_listener
from roost.api.options import BINARY, KEYSTONE, NO_AUTH, OWN_USERS, ApiOptions
from roost.api.policy import Policy
from roost.client.rpc_client import RpcClient
from roost.clock import Clock
from roost.messages.interface import RpcServer, Transport
from roost.messages.oslo import RpcOptions
from roost.options.settings import Settings
from roost.records.servers import ServerStore
from roost.records.services import save_service_heartbeat
from roost.records.sign_in import SignIn
from roost.records.tokens import TokenStore
from roost.services.metrics import Metrics
from roost.services.rpc_service import HostOptions, PeriodicTask, RpcService

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
