# SPDX-License-Identifier: Apache-2.0
"""The listener for notifications on a broker: oslo.messaging's, which takes one notification after the other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from roost.clock import Clock
from roost.rpc.broker_server import BrokerConsumer
from roost.rpc.context import RequestContext
from roost.rpc.interface import Notification, OnNotification
from roost.rpc.oslo import NotificationDispatcher, NotificationServer, messaging

LOG = logging.getLogger(__name__)


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
