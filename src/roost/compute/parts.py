# SPDX-License-Identifier: Apache-2.0
"""What all handlers of an agent share: its host, hypervisor, tracked usage and messages, and a task to work on.

`ServerTurns` serialises the work on each server: a deletion waits for the build that it interrupts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from roost.compute.drivers.base import ComputeDriver
from roost.compute.reporter import HostReporter
from roost.compute.tracker import ResourceTracker
from roost.errors import RoostError
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import ServerMessages
from roost.records.server import Attempt, Fault, Server, TaskData
from roost.records.servers import ServerStore

LOG = structlog.get_logger(__name__)


class Task(NamedTuple):
    """A server with something to do, as it was read, and the context of the request."""

    context: RequestContext
    server: Server
    is_restart: bool = False
    """Whether the agent may have begun with it before it was restarted."""


@dataclass(frozen=True)
class AgentParts:
    """The host of an agent, and what it works with."""

    host: str
    driver: ComputeDriver
    store: ServerStore
    ledger: Ledger
    messages: ServerMessages
    reporter: HostReporter
    tracker: ResourceTracker
    is_up: Callable[[str], bool]
    """Whether the agent on a host is alive, by its heartbeats."""

    def wake(self, task: Task, host: str | None, method: str, server: Server) -> None:
        """Have the agent on a host, or a conductor if the host is None, go on with a server as it is now."""
        self.messages.wake(task.context, host, method, server.uuid, server.generation)

    def note(self, server: Server) -> None:
        """Count a server as it is now in the tracked usage of the host, and report the change."""
        self.tracker.note(server)
        self.report_change()

    def leave_for_later(self, server: Server, error: Exception) -> None:
        """Have the guest of a server that has left this host removed later: the hypervisor refuses for now."""
        LOG.warning("guest not removed", host=self.host, server=server.uuid, reason=reason_of(error))
        self.store.removals.note(server.uuid, self.host, server.generation)

    def forget(self, uuid: str) -> None:
        """Count a server no longer, and report the change."""
        self.tracker.forget(uuid)
        self.report_change()

    def report_change(self) -> None:
        """Report the host now. A failure is logged: the next periodic report makes up for it."""
        try:
            self.reporter.note_change()
        except RoostError as error:
            LOG.warning("host not reported", host=self.host, reason=str(error))

    def attempted(self, data: TaskData, error: Exception) -> TaskData:
        """The task data after a failure on this host: without a target, and with the reason."""
        node = data.selection.node
        attempt = Attempt(self.host, node, reason_of(error))
        return replace(data, target=None, attempts=(*data.attempts, attempt))

    def fault(self, message: str, error: Exception) -> Fault:
        """A fault on this host: the message is for users, the reason for admins."""
        return Fault(message, f"{self.host}: {reason_of(error)}", host=self.host)


def reason_of(error: Exception) -> str:
    """An error in one line: the message of one of Roost's, else with the name of its class."""
    return str(error) if isinstance(error, RoostError) else f"{type(error).__name__}: {error}"


def context_of(server: Server) -> RequestContext:
    """The context of the request that began the running task."""
    task = server.task
    return RequestContext.new(task.request_id, task.user_id, task.project_id)


Work = Callable[[], None]
"""Something to do for a server. It must not raise an Exception: other work may wait behind it."""


class ServerTurns:
    """One piece of work per server at a time, in the order in which it came. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, dict[Hashable, Work]] = {}
        """Server uuid -> running work, and then the waiting one, by key."""

    def run(self, uuid: str, key: Hashable, work: Work) -> None:
        """Do the work now, or have the thread that works on the server do it next.

        Work with the key of running or waiting work of the same server is dropped: it is a doubled message.
        """
        with self._lock:
            queue = self._queues.get(uuid)
            if queue is not None:
                queue.setdefault(key, work)
                return
            self._queues[uuid] = {key: work}
        self._empty_queue(uuid)

    def run_if_idle(self, uuid: str, work: Work) -> bool:
        """Do the work now if nothing else is being done for the server; returns whether it was done."""
        with self._lock:
            if uuid in self._queues:
                return False
            self._queues[uuid] = {None: work}
        self._empty_queue(uuid)
        return True

    def _empty_queue(self, uuid: str) -> None:
        try:
            while True:
                with self._lock:
                    queue = self._queues[uuid]
                    if not queue:
                        del self._queues[uuid]
                        return
                    key, work = next(iter(queue.items()))
                work()
                with self._lock:
                    del queue[key]
        except BaseException:
            with self._lock:
                self._queues.pop(uuid, None)
            raise
