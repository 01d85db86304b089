# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's connection to RabbitMQ, with incoming messages checked and outgoing ones published once.

It uses private names of oslo.messaging; ADR 0015 lists them with the defect that each works around.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
from typing import Any

from amqp import spec
from amqp.exceptions import AMQPError

from roost.errors import MessageError
from roost.rpc.incoming import read_reply, read_request
from roost.rpc.oslo import impl_rabbit, messaging

LOG = logging.getLogger(__name__)

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
