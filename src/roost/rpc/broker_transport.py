# SPDX-License-Identifier: Apache-2.0
"""Messages over RabbitMQ, with oslo.messaging: the form on the wire is nova's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from amqp.exceptions import AMQPError
from kombu.exceptions import OperationalError

from roost.clock import Clock
from roost.errors import RpcTimeout, RpcUnreachable
from roost.rpc.broker_connection import CarefulConnection
from roost.rpc.broker_server import BrokerServer
from roost.rpc.context import RequestContext
from roost.rpc.dispatcher import Dispatcher
from roost.rpc.interface import Endpoint, OnRefusal, ignore
from roost.rpc.messages import encode_request
from roost.rpc.notification_queue import NotificationQueue, QueuedNotifier
from roost.rpc.options import RpcOptions
from roost.rpc.oslo import make_conf, make_transport, messaging, name_process

LOG = logging.getLogger(__name__)

Result = TypeVar("Result")

PATIENCE_SECONDS = 5.0
"""How long to go on trying while nobody has taken the message: the broker or its servers may be about to return."""
PAUSE_SECONDS = 0.1


class BrokerTransport:
    """Carries messages through a broker. Connections are made when they are first needed, and again when lost."""

    def __init__(
        self, options: RpcOptions, files: Sequence[Path], clock: Clock, patience: float = PATIENCE_SECONDS
    ) -> None:
        self._options = options
        self._clock = clock
        self._patience = patience
        self._conf = make_conf(options, files)
        name_process(self._conf)
        self._transport = make_transport(self._conf)
        self._driver = self._transport._driver
        self._driver._connection_pool.connection_cls = CarefulConnection
        self._must_arrive = messaging.TransportOptions(at_least_once=True)
        self._notifications: NotificationQueue | None = None

    def call(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        timeout: float,
        sign_of_life: float | None = None,
    ) -> Any:
        """Ask one server and wait for its answer."""
        message = _message(method, version, args)
        target = messaging.Target(topic=topic, version=version)

        def send() -> Any:
            self._open_way_back()
            return self._transport._send(
                target,
                context.to_dict(),
                dict(message),
                wait_for_reply=True,
                timeout=timeout,
                call_monitor_timeout=sign_of_life,
                retry=0,
                transport_options=self._must_arrive,
            )

        return self._patiently(f"{method} on {topic}", send, timeout)

    def cast(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        fanout: bool = False,
    ) -> None:
        """Tell one server, or all; where there is none, nobody hears it."""
        message = _message(method, version, args)
        target = messaging.Target(topic=topic, version=version, fanout=fanout)

        def send() -> None:
            self._transport._send(target, context.to_dict(), dict(message), retry=0)

        self._patiently(f"{method} on {topic}", send, self._patience)

    def serve(
        self, topic: str, server_name: str, endpoints: Sequence[Endpoint], on_refusal: OnRefusal = ignore
    ) -> BrokerServer:
        """A server, not started yet."""
        target = messaging.Target(topic=topic, server=server_name)
        threads = self._options.executor_thread_pool_size
        return BrokerServer(self._transport, target, Dispatcher(endpoints, on_refusal), threads, self._clock)

    def notifier(self, publisher_id: str, topics: Sequence[str]) -> QueuedNotifier:
        """Sends notifications by the drivers that [oslo_messaging_notifications] names."""
        if self._notifications is None:
            self._notifications = NotificationQueue(self._conf, self._clock)
        return QueuedNotifier(self._notifications, publisher_id, topics)

    def close(self) -> None:
        """Let go of all connections."""
        if self._notifications is not None:
            self._notifications.close()
        self._transport.cleanup()

    def _open_way_back(self) -> None:
        """The first call makes the queue for replies. oslo.messaging would try for ever: see first who is there."""
        if self._driver._reply_q is None:
            with self._driver._get_connection(retry=0):
                pass

    def _patiently(self, what: str, send: Callable[[], Result], timeout: float) -> Result:
        """Try again as long as nobody can have taken the message."""
        give_up = self._clock.monotonic() + min(timeout, self._patience)
        while True:
            try:
                return send()
            except messaging.MessagingTimeout:
                raise RpcTimeout(f"{what}: no answer in time", "it may have been carried out all the same") from None
            except messaging.MessageDeliveryFailure:
                problem = f"{what}: the connection to the broker broke while it was sent"
                raise RpcTimeout(problem, "it may have been carried out all the same") from None
            except messaging.MessageUndeliverable:
                problem, hint = f"{what}: nobody serves this topic", "is the service running?"
            except (OperationalError, AMQPError, OSError) as error:
                problem, hint = f"{what}: the broker cannot be reached: {error}", "see [DEFAULT] transport_url"
            if self._clock.monotonic() >= give_up:
                raise RpcUnreachable(problem, hint)
            self._clock.sleep(PAUSE_SECONDS)


def _message(method: str, version: str, args: Mapping[str, Any]) -> dict[str, Any]:
    message = {"method": method, "args": dict(args), "version": version}
    encode_request(message, f"{method}: an argument")
    return message
