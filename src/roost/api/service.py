# SPDX-License-Identifier: Apache-2.0
"""Assembles one API process: HTTP server, clients of conductors, heartbeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Engine

from roost.api.app import build_app
from roost.api.authentication import Authenticator, NoAuthenticator
from roost.api.call import ApiParts
from roost.api.http_server import HttpServer, bind
from roost.api.options import ApiOptions
from roost.api.policy import Policy
from roost.client.rpc_client import RpcClient
from roost.clock import Clock
from roost.config import Settings
from roost.inventory import save_service_heartbeat
from roost.observe.metrics import Metrics
from roost.rpc import RpcOptions, RpcServer, Transport
from roost.servers import ServerStore
from roost.service.options import HostOptions
from roost.service.rpc_service import RpcService, Task

BINARY = "nova-osapi_compute"
"""Name of the service in its database record, as operators know it."""
TOPIC = "osapi_compute"


class ApiService(RpcService):
    """The API as a `ManagedService` of roost.service.lifecycle. It calls conductors, and none calls it."""

    binary = BINARY

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        transport: Transport,
        *,
        clock: Clock,
        metrics: Metrics,
        is_shared: bool = False,
        read_again: Callable[[], Settings] | None = None,
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`is_shared`: further processes answer on the same port. OptionError for options that cannot be."""
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
            make_authenticator(options),
            Policy(),
            lambda context: RpcClient(transport, rpc, context),
            ServerStore(engine, clock),
        )
        listener = bind(options.osapi_compute_listen, options.osapi_compute_listen_port, is_shared=is_shared)
        self._http = HttpServer(build_app(self.parts, metrics), options, listener)

    @property
    def port(self) -> int:
        """The port on which it answers."""
        return self._http.port

    def prepare(self) -> None:
        """Begin to answer."""
        self._http.start()

    def make_servers(self) -> dict[str, RpcServer]:
        """None: nothing is asked of it by messages."""
        return {}

    def tasks(self) -> Sequence[Task]:
        """None besides the heartbeat."""
        return ()

    def unready(self) -> list[str]:
        """Reasons why no request should be sent here now; empty when ready."""
        return super().unready() + ([] if self._http.is_answering else ["it does not answer"])

    def stop(self, is_hurried: bool) -> None:
        """Finish the requests that were taken, then stop."""
        self.parts.is_stopping.set()
        self._http.stop()
        super().stop(is_hurried)

    def send_heartbeat(self) -> None:
        """Send a heartbeat, stamped by the database."""
        save_service_heartbeat(self._engine, self._host, BINARY, TOPIC, self.parts.servers.times.stamp())


def make_authenticator(options: ApiOptions) -> Authenticator:
    """Who says who calls."""
    return NoAuthenticator()
