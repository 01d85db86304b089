# SPDX-License-Identifier: Apache-2.0
"""The transport over RabbitMQ, with oslo.messaging: the form on the wire is nova's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from amqp.exceptions import AMQPError
from kombu.exceptions import OperationalError

from roost.clock import Clock
from roost.errors import BrokerUnreachable, RpcTimeout, RpcUnreachable
from roost.rpc.broker_connection import CheckedConnection
from roost.rpc.broker_listener import BrokerListener
from roost.rpc.broker_server import BrokerServer
from roost.rpc.context import RequestContext
from roost.rpc.dispatcher import Dispatcher
from roost.rpc.interface import Endpoint, OnNotification, OnRefusal, ignore_refusals
from roost.rpc.messages import encode_request
from roost.rpc.notification_queue import NotificationQueue, QueuedNotifier
from roost.rpc.options import RpcOptions
from roost.rpc.oslo import make_conf, make_transport, messaging, name_process

LOG = logging.getLogger(__name__)

Result = TypeVar("Result")

DELIVERY_SECONDS = 5.0
"""How long a message that no server has taken is retried: the broker or its servers may be restarting."""
RETRY_INTERVAL_SECONDS = 0.1


class BrokerTransport:
    """A `Transport` through a broker. It connects when it is first used, and reconnects when a connection is lost."""

    def __init__(
        self, options: RpcOptions, files: Sequence[Path], clock: Clock, delivery_seconds: float = DELIVERY_SECONDS
    ) -> None:
        self._options = options
        self._clock = clock
        self._delivery_seconds = delivery_seconds
        self._conf = make_conf(options, files)
        name_process(self._conf)
        self._transport = make_transport(self._conf)
        self._driver = self._transport._driver
        self._driver._connection_pool.connection_cls = CheckedConnection
        self._must_arrive = messaging.TransportOptions(at_least_once=True)
        self._notifications: NotificationQueue | None = None
        self._listened: list[Any] = []
        """oslo.messaging's transports of listeners."""

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
        """Have one server run the method; returns its result, or raises an RpcError. See `Transport.call`."""
        message = _message(method, version, args)
        target = messaging.Target(topic=topic, version=version)

        def send() -> Any:
            self._open_reply_queue()
            return self._transport._send(
                target,
                context.to_dict(),
                dict(message),
                wait_for_reply=True,
                timeout=timeout,
                call_monitor_timeout=heartbeat_timeout,
                retry=0,
                transport_options=self._must_arrive,
            )

        return self._deliver(f"{method} on {topic}", send, timeout)

    def cast(
        self,
        topic: str,
        method: str,
        version: str,
        args: Mapping[str, Any],
        context: RequestContext,
        fanout: bool = False,
    ) -> None:
        """Have one server, or all of them, run the method; without an effect where there is none."""
        message = _message(method, version, args)
        target = messaging.Target(topic=topic, version=version, fanout=fanout)

        def send() -> None:
            self._transport._send(target, context.to_dict(), dict(message), retry=0)

        self._deliver(f"{method} on {topic}", send, self._delivery_seconds)

    def serve(
        self, topic: str, server_name: str, endpoints: Sequence[Endpoint], on_refusal: OnRefusal = ignore_refusals
    ) -> BrokerServer:
        """A server for the topic, not started yet. See `Transport.serve`."""
        target = messaging.Target(topic=topic, server=server_name)
        threads = self._options.executor_thread_pool_size
        return BrokerServer(self._transport, target, Dispatcher(endpoints, on_refusal), threads, self._clock)

    def notifier(self, publisher_id: str, topics: Sequence[str]) -> QueuedNotifier:
        """A notifier that uses the drivers of [oslo_messaging_notifications]."""
        if self._notifications is None:
            self._notifications = NotificationQueue(self._conf, self._clock)
        return QueuedNotifier(self._notifications, publisher_id, topics)

    def listen(
        self, topic: str, event_types: Sequence[str], on_notification: OnNotification, pool: str
    ) -> BrokerListener:
        """A listener on the broker of [oslo_messaging_notifications], not started yet. See `Transport.listen`."""
        transport = messaging.get_notification_transport(self._conf)
        transport._driver._connection_pool.connection_cls = CheckedConnection
        self._listened.append(transport)
        return BrokerListener(transport, topic, frozenset(event_types), on_notification, pool, self._clock)

    def close(self) -> None:
        """Close all connections, after the queued notifications were sent as far as that is quick."""
        if self._notifications is not None:
            self._notifications.close()
        for transport in (*self._listened, self._transport):
            transport.cleanup()

    def _open_reply_queue(self) -> None:
        """Connect before the first call, which creates the queue for replies: oslo.messaging would retry for ever."""
        if self._driver._reply_q is None:
            with self._driver._get_connection(retry=0):
                pass

    def _deliver(self, what: str, send: Callable[[], Result], timeout: float) -> Result:
        """Send, and retry only while no server can have taken the message."""
        give_up = self._clock.monotonic() + min(timeout, self._delivery_seconds)
        while True:
            try:
                return send()
            except messaging.MessagingTimeout:
                raise RpcTimeout(f"{what}: no answer in time", "it may have been carried out all the same") from None
            except messaging.MessageDeliveryFailure:
                problem = f"{what}: the connection to the broker broke while it was sent"
                raise RpcTimeout(problem, "it may have been carried out all the same") from None
            except messaging.MessageUndeliverable:
                unreachable = RpcUnreachable(f"{what}: no service serves this topic", "is the service running?")
            except (OperationalError, AMQPError, OSError) as error:
                problem = f"{what}: the broker cannot be reached: {error}"
                unreachable = BrokerUnreachable(problem, "see [DEFAULT] transport_url")
            if self._clock.monotonic() >= give_up:
                raise unreachable
            self._clock.sleep(RETRY_INTERVAL_SECONDS)


def connect_once(options: RpcOptions, files: Sequence[Path]) -> None:
    """Connect to the broker, log in and leave; BrokerUnreachable if that fails. Nothing is declared."""
    transport = make_transport(make_conf(options, files))
    try:
        with transport._driver._get_connection(retry=0):
            pass
    except (OperationalError, AMQPError, OSError) as error:
        raise BrokerUnreachable(f"the broker cannot be used: {error}", "see [DEFAULT] transport_url") from error
    finally:
        transport.cleanup()


def _message(method: str, version: str, args: Mapping[str, Any]) -> dict[str, Any]:
    message = {"method": method, "args": dict(args), "version": version}
    encode_request(message, f"{method}: an argument")
    return message
