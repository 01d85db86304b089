# SPDX-License-Identifier: Apache-2.0
"""Sends notifications in the background: a slow or absent broker costs notifications, never a request."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roost.clock import Clock
from roost.errors import MessageError
from roost.messages.context import RequestContext, encode
from roost.messages.oslo import messaging

LOG = logging.getLogger(__name__)

GROUP = "oslo_messaging_notifications"
QUEUE_SIZE = 1000
"""Notifications that may be queued; further ones are dropped."""
WARN_EVERY_SECONDS = 60.0
CLOSE_SECONDS = 2.0
"""How long `close` waits for queued notifications to be sent."""
SECRETS = ("auth_token", "service_catalog", "service_token")
"""Values of a context that are not sent to listeners."""


class QueuedNotification(NamedTuple):
    """A notification that is to be sent."""

    notifier: Any
    priority: str
    context: RequestContext
    event_type: str
    payload: Mapping[str, Any]


class NotificationQueue:
    """Queue of all notifiers of a transport, and the thread that sends from it."""

    def __init__(self, conf: Any, clock: Clock, size: int = QUEUE_SIZE) -> None:
        self.transport = messaging.get_notification_transport(conf)  # also registers the options of the section
        self.is_enabled = any(name and name != "noop" for name in conf[GROUP].driver)
        self.dropped = 0
        self._clock = clock
        self._queue: queue.Queue[QueuedNotification | None] = queue.Queue(size)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_done = threading.Event()
        self._warn_after = float("-inf")

    def put(self, notification: QueuedNotification) -> None:
        """Queue the notification; drop it where the queue is full."""
        self._start()
        try:
            self._queue.put_nowait(notification)
        except queue.Full:
            self._drop("they cannot be sent fast enough; is the broker there?")

    def close(self) -> None:
        """Send what is queued, within CLOSE_SECONDS; what is left then is lost."""
        if self._thread is not None:
            try:
                self._queue.put_nowait(None)
                is_done = self._clock.wait(self._is_done, CLOSE_SECONDS)
            except queue.Full:
                is_done = False
            if not is_done:
                LOG.warning("notifications were not sent before the end: %d", self._queue.qsize())
                return
        self.transport.cleanup()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="rpc-notifications", daemon=True)
                self._thread.start()

    def _send_all(self) -> None:
        while (each := self._queue.get()) is not None:
            try:
                send = getattr(each.notifier, each.priority)
                send(_RedactableContext(each.context), each.event_type, each.payload)
            except Exception as error:  # whatever a notification driver raises, the next one is sent
                self._drop(f"{each.event_type}: {error}")
        self._is_done.set()

    def _drop(self, reason: str) -> None:
        with self._lock:
            self.dropped += 1
            if self._clock.monotonic() < self._warn_after:
                return
            self._warn_after = self._clock.monotonic() + WARN_EVERY_SECONDS
        LOG.warning("%d notifications dropped so far: %s", self.dropped, reason)


class QueuedNotifier:
    """A `Notifier` of one publisher, through the queue of its transport."""

    def __init__(self, shared_queue: NotificationQueue, publisher_id: str, topics: Sequence[str]) -> None:
        self._queue = shared_queue
        self._notifier: Any = None
        if shared_queue.is_enabled:
            self._notifier = messaging.Notifier(shared_queue.transport, publisher_id, topics=list(topics))

    @property
    def is_enabled(self) -> bool:
        """Whether a driver other than noop is configured."""
        return self._queue.is_enabled

    @property
    def dropped(self) -> int:
        """Number of notifications that were dropped, of all notifiers of this transport."""
        return self._queue.dropped

    def info(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification of priority INFO."""
        self._put("info", context, event_type, payload)

    def error(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification of priority ERROR."""
        self._put("error", context, event_type, payload)

    def _put(self, priority: str, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        if self._notifier is None:
            return
        try:
            encode(payload, f"the payload of {event_type}")
        except MessageError as error:
            LOG.warning("%s", error)
            return
        self._queue.put(QueuedNotification(self._notifier, priority, context, event_type, payload))


class _RedactableContext:
    """A context with the method that oslo.messaging calls to get it without secrets."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    def redacted_copy(self) -> dict[str, Any]:
        return {name: value for name, value in self._context.to_dict().items() if name not in SECRETS}
