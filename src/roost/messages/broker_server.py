# SPDX-License-Identifier: Apache-2.0
"""The server on a broker: oslo.messaging's, with our dispatcher and a bounded number of messages at a time.

Any client of the broker can put anything into a queue, and oslo.messaging deserialises it before it checks it. So
what is delivered is read here: JSON of bounded size, in the shape of a message; MessageError for anything else.

While a request takes long, heartbeats keep its caller waiting for the answer. Messages do not say when they were
sent, so `QueueWait` bounds how long they waited: a server that had to wait for a message has seen its queue empty a
moment before, and what it takes afterwards was sent since then.
"""

from __future__ import annotations

import bz2
import heapq
import itertools
import logging
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import Any

from roost.clock import Clock
from roost.errors import MessageError
from roost.messages.context import MAX_BYTES, CallerPatience, decode
from roost.messages.dispatcher import Dispatcher, from_wire, is_expected
from roost.messages.oslo import ExpectedException, RPCServer

LOG = logging.getLogger(__name__)


RETRY_SECONDS = 3.0
"""Between two attempts to listen on a broker that refuses it."""
START_SECONDS = 5.0
"""How long `start` waits for the broker; after that a thread goes on waiting."""


class BrokerConsumer:
    """Takes messages of a topic from a broker as soon as that is there; subclasses say what takes them."""

    def __init__(self, name: str, threads: int, clock: Clock) -> None:
        """`name`: of the topic, for the log. `threads`: how many messages are handled at the same time."""
        self._name, self._threads, self._clock = name, threads, clock
        self._server = self.make_server()
        self._lock = threading.Lock()
        self._is_listening = threading.Event()
        self._is_stopped = False

    def make_server(self) -> Any:
        """oslo.messaging's server, not started yet."""
        raise NotImplementedError

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the broker, and a thread that reads from it."""
        if self._is_stopped or not self._is_listening.is_set():
            return False
        connection = self._server.listener._poll_style_listener.conn.connection
        return connection is not None and bool(connection.connection.connected)

    def start(self) -> None:
        """Take messages as soon as the broker is there. Returns after START_SECONDS at the latest."""
        threading.Thread(target=self._listen, name=f"rpc-start-{self._name}", daemon=True).start()
        if not self._clock.wait(self._is_listening, START_SECONDS):
            LOG.warning("%s: the broker does not answer; messages are taken when it does", self._name)

    def _listen(self) -> None:
        while not self._begin():
            self._clock.sleep(RETRY_SECONDS)
            if self._is_stopped:
                return
        with self._lock:
            self._is_listening.set()
            if self._is_stopped:
                self._server.stop()

    def _begin(self) -> bool:
        """Wait for the broker, and listen; returns False where it refuses that."""
        try:
            self._server.start(override_pool_size=self._threads)
        except Exception as error:  # a wrong password or a missing right, which may be corrected
            LOG.error("%s: the broker does not let us listen: %s", self._name, error)
            self._server = self.make_server()  # one that failed to start cannot be started again
            return False
        return True

    def stop(self) -> None:
        """Take no new messages. Those that were delivered and not taken go to other servers."""
        with self._lock:
            self._is_stopped = True
            if self._is_listening.is_set():
                self._server.stop()
                self._server.listener.cleanup()  # closes this connection; replies use others

    def wait(self) -> None:
        """Return when all taken messages have been handled. After `stop`."""
        if self._is_listening.is_set():
            self._server.wait()


class BrokerServer(BrokerConsumer):
    """An `RpcServer` that takes messages from a broker and answers each in a thread."""

    def __init__(self, transport: Any, target: Any, dispatcher: Dispatcher, threads: int, clock: Clock) -> None:
        self._heartbeats = CallHeartbeats(clock)
        adapter = _DispatcherAdapter(dispatcher, self._heartbeats)
        self._make = partial(_BoundedServer, transport, target, adapter, threads, clock)
        super().__init__(f"{target.topic}.{target.server}", threads, clock)

    def make_server(self) -> Any:
        """oslo.messaging's server with our dispatcher."""
        return self._make()

    def wait(self) -> None:
        """Return when all taken messages have been answered. After `stop`."""
        super().wait()
        self._heartbeats.stop()


class _BoundedServer(RPCServer):  # type: ignore[misc]  # oslo.messaging has no types
    """Takes a message only when a thread is free: one that has to wait stays in the queue, for other servers."""

    def __init__(self, transport: Any, target: Any, dispatcher: Any, threads: int, clock: Clock) -> None:
        super().__init__(transport, target, dispatcher)
        self._executor_cls = ThreadPoolExecutor  # futurist's checks once a second whether it has to stop
        self._free = threading.Semaphore(threads)
        self._wait = QueueWait(clock.monotonic)

    def _on_incoming(self, incoming: Any) -> None:
        self._wait.note_arrival(self.listener._poll_style_listener.conn.connection.connection)
        self._free.acquire()
        incoming[0].queued_seconds = self._wait.seconds()
        super()._on_incoming(incoming)
        self._wait.wait_for_next()

    def _process_incoming(self, incoming: Any) -> None:
        try:
            super()._process_incoming(incoming)
            self.dispatcher.finish(incoming[0])
        finally:
            self._free.release()


class _DispatcherAdapter:
    """Our dispatcher in the form that oslo.messaging's server calls."""

    def __init__(self, dispatcher: Dispatcher, heartbeats: CallHeartbeats) -> None:
        self._dispatcher = dispatcher
        self._heartbeats = heartbeats

    def dispatch(self, incoming: Any) -> Any:
        """Result of the method that the message names; ExpectedException around an error."""
        with self._heartbeats.while_running(incoming):
            patience = CallerPatience(incoming.client_timeout, incoming.queued_seconds)
            reply = self._dispatcher.answer(incoming.message, incoming.ctxt, patience)
        incoming.request_context = reply.context
        if reply.failure is not None:
            raise _as_expected(reply.failure)
        return reply.result

    def finish(self, incoming: Any) -> None:
        """Run what was deferred until the reply was sent. No context: the message could not be acknowledged."""
        context = getattr(incoming, "request_context", None)
        if context is not None:
            context.answered()


def _as_expected(failure: Exception) -> ExpectedException:
    """The failure in the form that oslo.messaging sends without logging it: the dispatcher has logged it."""
    wrapped = ExpectedException()
    wrapped.exc_info = (type(failure), failure, None if is_expected(failure) else failure.__traceback__)
    return wrapped


LONGEST_SECONDS = 30.0
"""Most seconds between two heartbeats, however long the caller would wait: so long is a request of it remembered."""
IDLE_SECONDS = 60.0
"""How long the thread sleeps while no request wants heartbeats."""


class CallHeartbeats:
    """Sends the heartbeats of all running requests of a server, from one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: list[tuple[float, int]] = []
        """Heap of (when, number of the request), in monotonic seconds; also of requests that were answered since."""
        self._running: dict[int, Any] = {}
        """Number of a request -> its incoming message."""
        self._numbers = itertools.count()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopped = False

    @contextmanager
    def while_running(self, incoming: Any) -> Iterator[None]:
        """Context in which heartbeats are sent for this message, twice at least within the timeout of its caller."""
        seconds = incoming.client_timeout
        if not isinstance(seconds, int | float) or seconds < 1:
            yield
            return
        number = self._begin(incoming, _interval(seconds))
        try:
            yield
        finally:
            with self._lock:
                del self._running[number]

    def stop(self) -> None:
        """Send no more heartbeats; the thread ends."""
        self._is_stopped = True
        self._wake.set()

    def _begin(self, incoming: Any, every: float) -> int:
        number = next(self._numbers)
        with self._lock:
            self._running[number] = incoming
            is_first = not self._due or self._clock.monotonic() + every < self._due[0][0]
            heapq.heappush(self._due, (self._clock.monotonic() + every, number))
            if self._thread is None:
                self._thread = threading.Thread(target=self._send_all, name="rpc-heartbeats", daemon=True)
                self._thread.start()
        if is_first:
            self._wake.set()
        return number

    def _send_all(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            for incoming in self._take_due():
                _send(incoming)
            self._clock.wait(self._wake, max(self.seconds_to_next(), 0.01))

    def seconds_to_next(self) -> float:
        """Seconds until a heartbeat may be due."""
        with self._lock:
            return self._due[0][0] - self._clock.monotonic() if self._due else IDLE_SECONDS

    def _take_due(self) -> list[Any]:
        taken = []
        with self._lock:
            while self._due and self._due[0][0] <= self._clock.monotonic():
                _, number = heapq.heappop(self._due)
                if (incoming := self._running.get(number)) is not None:
                    taken.append(incoming)
                    next_time = self._clock.monotonic() + _interval(incoming.client_timeout)
                    heapq.heappush(self._due, (next_time, number))
        return taken


def _interval(timeout_seconds: float) -> float:
    """Seconds between two heartbeats for a caller that gives up after so long without one."""
    return min(LONGEST_SECONDS, timeout_seconds / 2)


def _send(incoming: Any) -> None:
    try:
        incoming.heartbeat()
    except Exception as error:  # whatever a driver raises, the other callers get theirs
        LOG.info("a caller could not be told that its request is still worked on: %s", error)


JSON = "application/json"
ENVELOPE_VERSION, ENVELOPE = "oslo.version", "oslo.message"

_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "application/x-gzip": zlib.decompressobj,
    "application/x-bz2": bz2.BZ2Decompressor,
}
"""By kombu's names; what it calls gzip is zlib."""


def read_request(body: str | bytes, content_type: Any, compression: Any = None) -> dict[str, Any]:
    """A request of at most MAX_BYTES, whose reply address is valid or absent."""
    message = _read(body, content_type, compression, MAX_BYTES)
    for name in ("_msg_id", "_reply_q", "_unique_id"):
        if not isinstance(message.get(name), str | None):
            raise MessageError(f"{name} is no text")
    if not isinstance(message.get("_timeout"), int | float | None):
        raise MessageError("_timeout is no number")
    if "_context_self" in message:
        raise MessageError("no context has a part named self")
    return message


def read_reply(body: str | bytes, content_type: Any, compression: Any = None) -> dict[str, Any]:
    """A reply of any size; a failure in it becomes the exception that the caller gets as its result."""
    message = _read(body, content_type, compression, None)
    failure = message.get("failure")
    message["failure"] = None
    if failure:
        message["result"] = from_wire(failure)
    return message


def _read(body: str | bytes, content_type: Any, compression: Any, max_bytes: int | None) -> dict[str, Any]:
    if content_type != JSON:
        raise MessageError(f"its content is {str(content_type)[:80]!r}, not {JSON}")
    if compression:
        body = _inflate(body, compression, max_bytes)
    message = decode(body, max_bytes)
    if isinstance(message, dict) and ENVELOPE in message and ENVELOPE_VERSION in message:
        message = decode(_contents(message), max_bytes)
    if not isinstance(message, dict):
        raise MessageError("it is no JSON object")
    return message


def _contents(envelope: Mapping[str, Any]) -> str:
    version, contents = envelope[ENVELOPE_VERSION], envelope[ENVELOPE]
    if version != "2.0":
        raise MessageError(f"its envelope has version {str(version)[:20]!r}, not 2.0")
    if not isinstance(contents, str):
        raise MessageError("there is no text in its envelope")
    return contents


def _inflate(body: str | bytes, compression: Any, max_bytes: int | None) -> bytes:
    """At most `max_bytes` + 1 decompressed bytes: the one too many makes `decode` refuse it."""
    decompressor = _DECOMPRESSORS.get(compression) if isinstance(compression, str) else None
    if decompressor is None or isinstance(body, str):
        raise MessageError(f"it is compressed with {str(compression)[:80]!r}")
    try:
        inflated: bytes = decompressor().decompress(body, -1 if max_bytes is None else max_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MessageError(f"it cannot be decompressed: {error}") from None
    return inflated


EMPTY_SECONDS = 0.05
"""A message that takes longer to come was not in the queue when the server began to wait for it."""
FIRST_EMPTY_SECONDS = 2.0
"""For the first message over a connection, which is still being made."""


class QueueWait:
    """Bounds the time in the queue of the messages that one thread takes. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds. The server begins to wait now."""
        self._clock, self._began, self._threshold = clock, clock(), FIRST_EMPTY_SECONDS
        self._empty_at = -inf
        self._connection: object = None

    def note_arrival(self, connection: object = None) -> None:
        """A message has come over this connection: nothing is known of the queue while there was another one."""
        if self._connection is not None and connection is not self._connection:
            self._began, self._threshold, self._empty_at = self._clock(), FIRST_EMPTY_SECONDS, -inf
        self._connection = connection
        if self._clock() - self._began >= self._threshold:
            self._empty_at = self._clock()
        self._threshold = EMPTY_SECONDS

    def seconds(self) -> float:
        """How long the message that came last may have waited until now, in its queue and since; may be infinite."""
        return self._clock() - self._empty_at

    def wait_for_next(self) -> None:
        """The server begins to wait for another message."""
        self._began = self._clock()
