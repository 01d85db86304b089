# SPDX-License-Identifier: Apache-2.0
"""The transport within one process, by the rules of a broker: versions are checked, all values pass through JSON in
both directions, errors are rebuilt from their form on the wire, servers of a topic take turns (round robin).

A call costs two thread switches, well under a millisecond. With `in_callers_thread` it costs none, and calls run in
the order in which they are made.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from roost.best_effort import best_effort
from roost.clock import Clock, SystemClock
from roost.errors import MessageError, RpcTimeout, RpcUnreachable
from roost.messages.context import RequestContext, decode, encode, encode_request
from roost.messages.dispatcher import Dispatcher, from_wire, to_wire
from roost.messages.interface import Endpoint, Notification, OnNotification, OnRefusal, ignore_refusals

LOG = logging.getLogger(__name__)


class InProcessTransport:
    """A `Transport` between the threads of one process."""

    def __init__(
        self,
        clock: Clock | None = None,
        threads: int = 64,
        in_callers_thread: bool = False,
        on_notification: OnNotification | None = None,
    ) -> None:
        """`threads`: of each server. `on_notification`: a listener; without any, notifications are disabled."""
        self._clock = clock or SystemClock()
        self._threads = 0 if in_callers_thread else threads
        self._listeners: list[OnNotification] = [on_notification] if on_notification else []
        self._lock = threading.Lock()
        self._servers: dict[str, list[InProcessServer]] = {}
        self._turns: dict[str, Iterator[int]] = {}

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
        """Have one server run the method; returns its result, or raises an RpcError. Heartbeats are not needed."""
        pending = _PendingCall(_write(method, version, args, context))
        if not any(server.take(pending) for server in self._round_robin(topic)):
            raise RpcUnreachable(f"{method}: no service serves the topic {topic}", "start a service for it")
        if not pending.is_answered.is_set() and not self._clock.wait(pending.is_answered, timeout):
            raise RpcTimeout(f"{method} on {topic}: no answer within {timeout:g} seconds")
        reply = json.loads(pending.reply)
        if reply["failure"]:
            raise from_wire(reply["failure"])
        return reply["result"]

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
        text = _write(method, version, args, context)
        for server in self._round_robin(topic):
            is_taken = server.take(_PendingCall(text))
            if is_taken and not fanout:
                break

    def serve(
        self, topic: str, server_name: str, endpoints: Sequence[Endpoint], on_refusal: OnRefusal = ignore_refusals
    ) -> InProcessServer:
        """A server for the topic, not started yet. See `Transport.serve`."""
        dispatcher = Dispatcher(endpoints, on_refusal)
        return InProcessServer(self, (topic, f"{topic}.{server_name}"), dispatcher, self._threads)

    def notifier(self, publisher_id: str, topics: Sequence[str]) -> InProcessNotifier:
        """A notifier that calls all listeners."""
        return InProcessNotifier(publisher_id, topics, self._listeners, self._clock)

    def listen(
        self, topic: str, event_types: Sequence[str], on_notification: OnNotification, pool: str
    ) -> InProcessListener:
        """A listener, not started yet. Every listener gets every notification, whatever its pool."""
        return InProcessListener(self._listeners, topic, frozenset(event_types), on_notification)

    def close(self) -> None:
        """Stop servers that are still running."""
        with self._lock:
            left = {server for servers in self._servers.values() for server in servers}
        for server in left:
            server.stop()
            server.wait()

    def register(self, server: InProcessServer) -> None:
        """Send messages to this server from now on."""
        with self._lock:
            for topic in server.topics:
                self._servers.setdefault(topic, []).append(server)
                self._turns.setdefault(topic, itertools.count())

    def unregister(self, server: InProcessServer) -> None:
        """Send this server no more messages."""
        with self._lock:
            for topic in server.topics:
                self._servers[topic] = [each for each in self._servers.get(topic, []) if each is not server]

    def _round_robin(self, topic: str) -> list[InProcessServer]:
        """Servers of the topic, the next in turn first."""
        with self._lock:
            servers = self._servers.get(topic)
            if not servers:
                return []
            first = next(self._turns[topic]) % len(servers)
            return servers[first:] + servers[:first]


class InProcessServer:
    """An `RpcServer` that answers in threads of its own, or in the thread of the caller."""

    def __init__(
        self, transport: InProcessTransport, topics: tuple[str, str], dispatcher: Dispatcher, threads: int
    ) -> None:
        """`threads`: 0 to answer in the thread of the caller."""
        self.topics = topics
        self._transport = transport
        self._dispatcher = dispatcher
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._changed = threading.Condition()
        self._running = 0
        self._is_started = False

    @property
    def is_connected(self) -> bool:
        """Whether it was started, and not stopped."""
        return self._is_started

    def start(self) -> None:
        """Take messages from now on."""
        with self._changed:
            if self._is_started:
                return
            if self._threads:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix=f"rpc-{self.topics[1]}")
            self._is_started = True
        self._transport.register(self)

    def stop(self) -> None:
        """Take no new messages."""
        self._transport.unregister(self)
        with self._changed:
            self._is_started = False

    def wait(self) -> None:
        """Return when all taken messages have been answered."""
        with self._changed:
            self._changed.wait_for(lambda: not self._running)
            executor, self._executor = self._executor, None
        if executor:
            executor.shutdown()

    def take(self, pending: _PendingCall) -> bool:
        """Answer this message, or have a thread do so; returns False where the server is not running."""
        with self._changed:
            if not self._is_started:
                return False
            self._running += 1
            if self._executor:
                self._executor.submit(self._answer, pending)
                return True
        self._answer(pending)
        return True

    def _answer(self, pending: _PendingCall) -> None:
        try:
            self._reply_to(pending)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def _reply_to(self, pending: _PendingCall) -> None:
        try:
            message = decode(pending.request)
        except MessageError as error:
            LOG.warning("%s: %s", self.topics[0], error)
            pending.answer(json.dumps({"result": None, "failure": to_wire(error)}))
            return
        reply = self._dispatcher.answer(message, message["context"])
        failure = to_wire(reply.failure) if reply.failure else None
        pending.answer(json.dumps({"result": reply.result, "failure": failure}))
        reply.context.answered()


class InProcessListener:
    """An `RpcServer` that takes notifications, in the sender's thread."""

    def __init__(
        self,
        listeners: list[OnNotification],
        topic: str,
        event_types: frozenset[str],
        on_notification: OnNotification,
    ) -> None:
        """`listeners`: those of the transport, which it joins when it is started."""
        self._listeners, self._topic, self._event_types = listeners, topic, event_types
        self._on_notification = on_notification
        self._turns = threading.Lock()
        self.is_connected = False

    def start(self) -> None:
        """Take notifications from now on."""
        self._listeners.append(self._take)
        self.is_connected = True

    def stop(self) -> None:
        """Take no new notifications."""
        if self.is_connected:
            self._listeners.remove(self._take)
        self.is_connected = False

    def wait(self) -> None:
        """Return when the last taken notification has been handled."""
        with self._turns:
            pass

    def _take(self, notification: Notification) -> None:
        if notification.topic == self._topic and notification.event_type in self._event_types:
            with self._turns:
                self._on_notification(notification)


class InProcessNotifier:
    """Calls listeners with each notification, in the sender's thread."""

    dropped = 0

    def __init__(
        self, publisher_id: str, topics: Sequence[str], listeners: Sequence[OnNotification], clock: Clock
    ) -> None:
        self._publisher_id = publisher_id
        self._topics = tuple(topics)
        self._listeners, self._clock = listeners, clock

    @property
    def is_enabled(self) -> bool:
        """Whether there is a listener."""
        return bool(self._listeners)

    def info(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification of priority INFO."""
        self._send("INFO", context, event_type, payload)

    def error(self, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        """Send a notification of priority ERROR."""
        self._send("ERROR", context, event_type, payload)

    def _send(self, priority: str, context: RequestContext, event_type: str, payload: Mapping[str, Any]) -> None:
        if not self._listeners:
            return
        received, now = decode(encode(payload, f"the payload of {event_type}")), str(self._clock.now())
        for topic in self._topics:
            sent = Notification(topic, priority, self._publisher_id, event_type, received, context, now)
            for listener in tuple(self._listeners):
                with best_effort("notifications"):
                    listener(sent)


class _PendingCall:
    """A request as JSON, and its reply once there is one."""

    def __init__(self, request: str) -> None:
        self.request = request
        self.reply = ""
        self.is_answered = threading.Event()

    def answer(self, reply: str) -> None:
        self.reply = reply
        self.is_answered.set()


def _write(method: str, version: str, args: Mapping[str, Any], context: RequestContext) -> str:
    message = {"method": method, "version": version, "args": dict(args), "context": context.to_dict()}
    return encode_request(message, f"{method}: an argument")
