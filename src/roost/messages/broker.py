# SPDX-License-Identifier: Apache-2.0
"""The transport over RabbitMQ, with oslo.messaging: the form on the wire is nova's.

Incoming messages are checked before they are deserialised, and outgoing ones published once. The connection uses
private names of oslo.messaging; ADR 0015 lists them with the defect that each works around. Notifications are taken
one after the other; `broker_server.py` serves calls and casts.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from amqp import spec
from amqp.exceptions import AMQPError
from kombu.exceptions import OperationalError

from roost.clock import Clock
from roost.errors import BrokerUnreachable, MessageError, RpcTimeout, RpcUnreachable
from roost.messages.broker_server import BrokerConsumer, BrokerServer, read_reply, read_request
from roost.messages.context import RequestContext, encode_request
from roost.messages.dispatcher import Dispatcher
from roost.messages.interface import Endpoint, Notification, OnNotification, OnRefusal, ignore_refusals
from roost.messages.notification_queue import NotificationQueue, QueuedNotifier
from roost.messages.options import RpcOptions
from roost.messages.oslo import (
    NotificationDispatcher,
    NotificationServer,
    impl_rabbit,
    make_conf,
    make_transport,
    messaging,
    name_process,
)

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


POLL_SECONDS = 0.25
"""How long a listener waits for a message before it checks whether it has to stop."""

CONFIRM_SECONDS = 5.0
REPLY_ATTEMPTS = 20
"""Attempts to send a reply while the broker is away: about a minute."""


class CheckedConnection(impl_rabbit.Connection):  # type: ignore[misc]  # oslo.messaging has no types
    """Checks messages before they are deserialised, and publishes each message at most once."""

    max_retries: int | None

    def declare_consumer(self, consumer: Any) -> Any:
        """Replace oslo.messaging's callback for deliveries by ours."""
        consumer._callback = DeliveryReader(consumer)
        return super().declare_consumer(consumer)

    def consume(self, timeout: float | None = None) -> None:
        """Wait for a delivery, at most POLL_SECONDS.

        oslo.messaging polls after 1, 2, 4, ... ms, to send acknowledgements that our messages send themselves; that
        would only take time from the thread that handles the message.
        """
        super().consume(timeout=POLL_SECONDS)

    def stop_consuming(self) -> None:
        """Ignore further deliveries: unacknowledged, they go to other servers when the connection is closed."""
        for consumer in self._consumers:
            consumer._callback.is_closed = True
        super().stop_consuming()

    def topic_send(self, *args: Any, **kwargs: Any) -> None:
        """Publish to one server, at most once."""
        self._revive()
        with _ConfirmationReader(self):
            super().topic_send(*args, **kwargs)

    def fanout_send(self, *args: Any, **kwargs: Any) -> None:
        """Publish to all servers, at most once."""
        self._revive()
        super().fanout_send(*args, **kwargs)

    def direct_send(self, *args: Any, **kwargs: Any) -> None:
        """Publish a reply; where that fails it is logged as lost, and its caller runs into the timeout."""
        try:
            with _ConfirmationReader(self):
                super().direct_send(*args, **kwargs)
        except messaging.MessageDeliveryFailure as error:
            LOG.error("a reply could not be sent: %s", error)

    def close(self) -> None:
        """Cancel the consumers first: the broker logs an error for consumers of a deleted queue."""
        try:
            for consumer, tag in self._consumers.items():
                consumer.cancel(tag)
        except (AMQPError, AttributeError, OSError):
            LOG.debug("the broker was gone already", exc_info=True)
        super().close()

    def _revive(self) -> None:
        """Reconnect if the connection is dead: that must not be found out by losing a message."""
        with self._connection_lock:
            if self._is_dead():
                usual, self.max_retries = self.max_retries, 0
                self.connection.collect()  # it may still count as connected
                try:
                    self.ensure_connection()
                finally:
                    self.max_retries = usual

    def _is_dead(self) -> bool:
        """Whether the broker has closed the connection, by peeking at the socket."""
        try:
            stream = self.channel.connection.sock
            readable, _, _ = select.select([stream], [], [], 0)
            # Encrypted data cannot be peeked at: such a connection shows its end in use.
            return bool(readable) and not isinstance(stream, ssl.SSLSocket) and not stream.recv(1, socket.MSG_PEEK)
        except (AttributeError, ValueError, OSError):  # no channel, no socket, or one that is closed
            return True

    def _ensure_publishing(self, *args: Any, retry: int | None = None, **kwargs: Any) -> None:
        """Publish with a bounded number of attempts: oslo.messaging retries replies for ever, which blocks a stop."""
        super()._ensure_publishing(*args, retry=REPLY_ATTEMPTS if retry is None else retry, **kwargs)

    def _heartbeat_thread_job(self) -> None:
        """Send heartbeats over a live connection; a dead one is left to `_revive`, in the next sender's thread.

        oslo.messaging reconnects in this thread, for ever, and senders wait for it.
        """
        while not self._heartbeat_exit_event.wait(self._heartbeat_wait_timeout):
            with self._connection_lock.for_heartbeat():
                if not self._is_dead():
                    self._keep_alive()

    def _keep_alive(self) -> None:
        try:
            self._heartbeat_check()
            self.connection.drain_events(timeout=0.001)
        except TimeoutError:
            pass  # nothing to read
        except (AMQPError, OSError) as error:
            LOG.info("a connection to the broker was lost: %s", error)
            self._set_current_channel(None)


class _ConfirmationReader:
    """Context manager that reads the confirmation of a message that no queue took.

    The broker returns such a message and confirms it afterwards. oslo.messaging raises at the return and leaves the
    confirmation unread, where the next message would mistake it for its own.
    """

    def __init__(self, connection: CheckedConnection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None and issubclass(kind, messaging.MessageUndeliverable):
            with self.connection._connection_lock:
                self.connection.channel.wait([spec.Basic.Ack, spec.Basic.Nack], timeout=CONFIRM_SECONDS)


class DeliveryReader:
    """Callback for the deliveries of one queue."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._read = read_reply if consumer.type == "direct" else read_request
        self.is_closed = False

    def __call__(self, raw: Any) -> None:
        """Check the delivery and pass it on. What is no message is logged and dropped: requeued, it would return."""
        if self.is_closed:
            return
        headers = raw.properties.get("application_headers") or {}
        self._note_offset(headers)
        try:
            message = ReceivedMessage(
                self._read(raw.body, raw.properties.get("content_type"), headers.get("compression"))
            )
        except MessageError as error:
            LOG.warning("a message in the queue %s was dropped: %s", self._consumer.queue_name, error)
            raw.channel.basic_ack(raw.delivery_tag)
            return
        message.raw = raw
        self._consumer.callback(message)

    def _note_offset(self, headers: Any) -> None:
        """Remember where to resume after a reconnect, with rabbit_stream_fanout."""
        if self._consumer.rabbit_stream_fanout and "x-stream-offset" in headers:
            self._consumer.next_stream_offset = headers["x-stream-offset"] + 1


class ReceivedMessage(dict[str, Any]):
    """A message that can be acknowledged or requeued; the methods are those that oslo.messaging calls."""

    raw: Any

    def acknowledge(self) -> None:
        """Tell the broker that it was taken."""
        self.raw.channel.basic_ack(self.raw.delivery_tag)

    def requeue(self) -> None:
        """Have the broker deliver it again, to any server."""
        self.raw.channel.basic_reject(self.raw.delivery_tag, requeue=True)


class BrokerListener(BrokerConsumer):
    """An `RpcServer` that takes notifications from a broker, in one thread, so that they keep their order."""

    def __init__(
        self,
        transport: Any,
        topic: str,
        event_types: frozenset[str],
        on_notification: OnNotification,
        pool: str,
        clock: Clock,
    ) -> None:
        """`transport`: one for notifications. `pool`: see `Transport.listen`."""
        self._transport, self._target, self._pool = transport, messaging.Target(topic=topic), pool
        self._endpoint = _ListenerEndpoint(topic, event_types, on_notification)
        super().__init__(topic, 1, clock)

    def make_server(self) -> Any:
        """oslo.messaging's listener with our endpoint."""
        self._bounded = _BoundedListener(self._transport, self._target, self._endpoint, self._pool)
        return self._bounded

    def stop(self) -> None:
        """Take no new notifications, and end the one that was begun; the others stay in the queue."""
        self._bounded.finish()
        super().stop()


class _BoundedListener(NotificationServer):  # type: ignore[misc]  # oslo.messaging has no types
    """Takes a notification when the one before is done: oslo.messaging would put a whole queue into memory."""

    def __init__(self, transport: Any, target: Any, endpoint: Any, pool: str) -> None:
        super().__init__(
            transport, [target], NotificationDispatcher([endpoint], None), allow_requeue=False, pool=pool or None
        )
        self._free = threading.Semaphore(1)
        self._is_finished = False

    def finish(self) -> None:
        """Begin no further notification, and wait for the one that was begun: it is acknowledged in `stop`."""
        self._is_finished = True
        with self._free:
            pass

    def _on_incoming(self, incoming: Any) -> None:
        self._free.acquire()
        if self._is_finished:  # not acknowledged: the broker delivers it again
            self._free.release()
        else:
            super()._on_incoming(incoming)

    def _process_incoming(self, incoming: Any) -> None:
        try:
            super()._process_incoming(incoming)
        finally:
            self._free.release()


class _ListenerEndpoint:
    """Passes notifications on; the methods are those that oslo.messaging calls, one for each priority."""

    def __init__(self, topic: str, event_types: frozenset[str], on_notification: OnNotification) -> None:
        self._topic, self._event_types, self._on_notification = topic, event_types, on_notification

    def info(self, context: Any, publisher_id: Any, event_type: Any, payload: Any, metadata: Any) -> None:
        """Pass on a notification of priority INFO."""
        self._pass_on("INFO", context, publisher_id, event_type, payload, metadata)

    def error(self, context: Any, publisher_id: Any, event_type: Any, payload: Any, metadata: Any) -> None:
        """Pass on a notification of priority ERROR."""
        self._pass_on("ERROR", context, publisher_id, event_type, payload, metadata)

    def _pass_on(
        self, priority: str, context: Any, publisher_id: Any, event_type: Any, payload: Any, metadata: Any
    ) -> None:
        if not isinstance(event_type, str) or event_type not in self._event_types:
            return
        if not isinstance(payload, Mapping):
            LOG.warning("a notification %s on %s was dropped: its payload is no JSON object", event_type, self._topic)
            return
        caller = RequestContext.from_dict(context if isinstance(context, Mapping) else {})
        made_at = str(metadata.get("timestamp") or "")
        self._on_notification(
            Notification(self._topic, priority, str(publisher_id), event_type, payload, caller, made_at)
        )
