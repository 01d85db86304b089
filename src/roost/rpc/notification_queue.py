# SPDX-License-Identifier: Apache-2.0
"""Notifications, sent in the background: a broker in trouble costs notifications, never a request."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roost.clock import Clock
from roost.errors import MessageError
from roost.rpc.context import RequestContext
from roost.rpc.messages import encode
from roost.rpc.oslo import messaging

LOG = logging.getLogger(__name__)

GROUP = "oslo_messaging_notifications"
QUEUE_SIZE = 1000
"""Notifications that may wait to be sent."""
WARN_EVERY_SECONDS = 60.0
CLOSE_SECONDS = 2.0
"""How long those that wait may take at the end."""
SECRETS = ("auth_token", "service_catalog", "service_token")
"""Parts of a context that no listener needs."""


class Waiting(NamedTuple):
    """A notification that is to be sent."""

    notifier: Any
    priority: str
    context: RequestContext
    event_type: str
    payload: Mapping[str, Any]


class NotificationQueue:
    """Notifications on their way, from all notifiers of a transport; one thread sends them."""

    def __init__(self, conf: Any, clock: Clock, size: int = QUEUE_SIZE) -> None:
        self.transport = messaging.get_notification_transport(conf)  # also registers the options of the section
        self.is_enabled = any(name and name != "noop" for name in conf[GROUP].driver)
        self.dropped = 0
        self._clock = clock
        self._waiting: queue.Queue[Waiting | None] = queue.Queue(size)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_done = threading.Event()
        self._warn_after = float("-inf")

    def put(self, waiting: Waiting) -> None:
        """Send it soon, or drop it where there is no room."""
        self._start()
        try:
            self._waiting.put_nowait(waiting)
        except queue.Full:
            self._drop("they cannot be sent fast enough; is the broker there?")

    def close(self) -> None:
        """Send what waits, as far as that is quick."""
        if self._thread is not None:
            try:
                self._waiting.put_nowait(None)
                is_done = self._clock.wait(self._is_done, CLOSE_SECONDS)
            except queue.Full:
                is_done = False
            if not is_done:
                LOG.warning("notifications were not sent before the end: %d", self._waiting.qsize())
                return
        self.transport.cleanup()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="rpc-notifications", daemon=True)
                self._thread.start()

    def _send_all(self) -> None:
        while (waiting := self._waiting.get()) is not None:
            try:
                send = getattr(waiting.notifier, waiting.priority)
                send(_Redacted(waiting.context), waiting.event_type, waiting.payload)
            except Exception as error:  # whatever a notification driver does, the next one is sent
                self._drop(f"{waiting.event_type}: {error}")
        self._is_done.set()

    def _drop(self, reason: str) -> None:
        with self._lock:
            self.dropped += 1
            if self._clock.monotonic() < self._warn_after:
                return
            self._warn_after = self._clock.monotonic() + WARN_EVERY_SECONDS
        LOG.warning("%d notifications dropped so far: %s", self.dropped, reason)


class QueuedNotifier:
    """Sends notifications in one publisher's name."""

    def __init__(self, waiting: NotificationQueue, publisher_id: str, topics: Sequence[str]) -> None:
        self._queue = waiting
        self._notifier: Any = None
        if waiting.is_enabled:
            self._notifier = messaging.Notifier(waiting.transport, publisher_id, topics=list(topics))

    @property
    def is_enabled(self) -> bool:
        """Whether some driver but noop is configured."""
        return self._queue.is_enabled

    @property
    def dropped(self) -> int:
        """Those that did not fit into the queue, of all notifiers of this transport."""
        return self._queue.dropped

    def info(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Something happened."""
        self._put("info", context, event_type, payload)

    def error(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Something went wrong."""
        self._put("error", context, event_type, payload)

    def _put(self, priority: str, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        if self._notifier is None:
            return
        try:
            encode(payload, f"the payload of {event_type}")
        except MessageError as error:
            LOG.warning("%s", error)
            return
        self._queue.put(Waiting(self._notifier, priority, context, event_type, payload))


class _Redacted:
    """A context as oslo.messaging wants it: able to leave out what is secret."""

    def __init__(self, context: RequestContext) -> None:
        self._context = context

    def redacted_copy(self) -> dict[str, Any]:
        return {name: value for name, value in self._context.to_dict().items() if name not in SECRETS}
