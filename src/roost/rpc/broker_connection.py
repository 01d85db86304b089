# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's connection to RabbitMQ, with what it lacks: care for what comes in and for what is sent twice.

This module, `broker.py`, `serving.py` and `oslo.py` use names that oslo.messaging keeps for itself; the tests on a
real broker notice when they move.
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

LISTEN_SECONDS = 0.25
"""How long a listener listens before it looks up to see whether it is to stop."""

CONFIRM_SECONDS = 5.0
REPLY_ATTEMPTS = 20
"""To send a reply while the broker is away: about a minute."""


class CarefulConnection(impl_rabbit.Connection):  # type: ignore[misc]  # oslo.messaging has no types
    """Checks messages before anything is made of them, and never publishes one twice."""

    max_retries: int | None

    def declare_consumer(self, consumer: Any) -> Any:
        """Put our reading in place of oslo.messaging's."""
        consumer._callback = Reader(consumer)
        return super().declare_consumer(consumer)

    def consume(self, timeout: float | None = None) -> None:
        """Come back often enough to be stopped soon, and no more often.

        oslo.messaging would look up after 1, 2, 4, ... ms, for acknowledgements that it sends with another kind of
        message; with ours that only takes time from whoever works on the message that just came.
        """
        super().consume(timeout=LISTEN_SECONDS)

    def stop_consuming(self) -> None:
        """Nobody takes what comes from now on: left alone, it goes to others when the connection is closed."""
        for consumer in self._consumers:
            consumer._callback.is_closed = True
        super().stop_consuming()

    def topic_send(self, *args: Any, **kwargs: Any) -> None:
        """Publish to one server, once."""
        self._revive()
        with _Settled(self):
            super().topic_send(*args, **kwargs)

    def fanout_send(self, *args: Any, **kwargs: Any) -> None:
        """Publish to all servers, once."""
        self._revive()
        super().fanout_send(*args, **kwargs)

    def direct_send(self, *args: Any, **kwargs: Any) -> None:
        """Publish a reply, or say in a line that it is lost: its caller will hear nothing in time."""
        try:
            with _Settled(self):
                super().direct_send(*args, **kwargs)
        except messaging.MessageDeliveryFailure as error:
            LOG.error("a reply could not be sent: %s", error)

    def close(self) -> None:
        """Take leave of the queues first: the broker would complain about consumers of a queue that is deleted."""
        try:
            for consumer, tag in self._consumers.items():
                consumer.cancel(tag)
        except (AMQPError, AttributeError, OSError):
            LOG.debug("the broker was gone already", exc_info=True)
        super().close()

    def _revive(self) -> None:
        """A connection that has died meanwhile is noticed before something is sent, not by sending it."""
        with self._connection_lock:
            if self._is_dead():
                usual, self.max_retries = self.max_retries, 0
                self.connection.collect()  # it may not know yet that it is dead
                try:
                    self.ensure_connection()
                finally:
                    self.max_retries = usual

    def _is_dead(self) -> bool:
        """Whether the other side has hung up. What it sent before that does not matter here."""
        try:
            stream = self.channel.connection.sock
            readable, _, _ = select.select([stream], [], [], 0)
            # Nobody can look ahead into what is encrypted: such a connection shows its end in use.
            return bool(readable) and not isinstance(stream, ssl.SSLSocket) and not stream.recv(1, socket.MSG_PEEK)
        except (AttributeError, ValueError, OSError):  # no channel, no socket, or one that is closed
            return True

    def _ensure_publishing(self, *args: Any, retry: int | None = None, **kwargs: Any) -> None:
        """Replies too are given up one day: oslo.messaging would try for ever, and a server could not be stopped."""
        super()._ensure_publishing(*args, retry=REPLY_ATTEMPTS if retry is None else retry, **kwargs)

    def _heartbeat_thread_job(self) -> None:
        """Keep alive what is alive; who sends next connects again.

        oslo.messaging would connect again here, for ever, while those who have something to send wait.
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
            pass  # nothing to read, which is as it should be
        except (AMQPError, OSError) as error:
            LOG.info("a connection to the broker was lost: %s", error)
            self._set_current_channel(None)


class _Settled:
    """Leaves no confirmation unread behind.

    A message that no queue takes is returned, and confirmed after that. oslo.messaging raises at the first and leaves
    the second in the line, where the next message would take it for its own.
    """

    def __init__(self, connection: CarefulConnection) -> None:
        self.connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None and issubclass(kind, messaging.MessageUndeliverable):
            with self.connection._connection_lock:
                self.connection.channel.wait([spec.Basic.Ack, spec.Basic.Nack], timeout=CONFIRM_SECONDS)


class Reader:
    """Takes what the broker delivers from one queue."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._read = read_reply if consumer.type == "direct" else read_request
        self.is_closed = False

    def __call__(self, raw: Any) -> None:
        """Hand it on, or drop it with a line in the log: given back, it would come again and again."""
        if self.is_closed:
            return
        headers = raw.properties.get("application_headers") or {}
        self._note_offset(headers)
        try:
            message = Received(self._read(raw.body, raw.properties.get("content_type"), headers.get("compression")))
        except MessageError as error:
            LOG.warning("a message in the queue %s was dropped: %s", self._consumer.queue_name, error)
            raw.channel.basic_ack(raw.delivery_tag)
            return
        message.raw = raw
        self._consumer.callback(message)

    def _note_offset(self, headers: Any) -> None:
        """Where to go on after the connection was lost, with rabbit_stream_fanout."""
        if self._consumer.rabbit_stream_fanout and "x-stream-offset" in headers:
            self._consumer.next_stream_offset = headers["x-stream-offset"] + 1


class Received(dict[str, Any]):
    """A message, and the way to tell the broker that it was taken."""

    raw: Any

    def acknowledge(self) -> None:
        """It was taken."""
        self.raw.channel.basic_ack(self.raw.delivery_tag)

    def requeue(self) -> None:
        """Somebody else is to take it."""
        self.raw.channel.basic_reject(self.raw.delivery_tag, requeue=True)
