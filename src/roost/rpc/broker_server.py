# SPDX-License-Identifier: Apache-2.0
"""The server on a broker: oslo.messaging's, with our dispatcher and a bounded number of messages at a time."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from roost.clock import Clock
from roost.rpc.call_heartbeats import CallHeartbeats
from roost.rpc.context import CallerPatience
from roost.rpc.dispatcher import Dispatcher
from roost.rpc.oslo import ExpectedException, RPCServer
from roost.rpc.queue_wait import QueueWait
from roost.rpc.wire_errors import is_expected

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
