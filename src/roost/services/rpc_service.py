# SPDX-License-Identifier: Apache-2.0
"""A service of RPC servers and periodic tasks, as conductor and compute are: readiness, reload, stop.

Its methods are counted and timed, and their log lines have the request's id. Options that services of every kind
share are declared here, by nova's names.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.messages.context import RequestContext
from roost.messages.dispatcher import is_expected
from roost.messages.interface import Method, RpcServer, Transport
from roost.options.declare import declared
from roost.options.settings import OptionDifference, Settings, compare
from roost.services.lifecycle import Periodic
from roost.services.logs import bound, set_up_logging
from roost.services.metrics import Metrics
from roost.services.options import HeartbeatOptions, LogOptions, StopOptions
from roost.store.schema_upgrade import ensure_current

LOG = structlog.get_logger(__name__)
MONITOR_SECONDS = 1.0
LONGEST_JOIN_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 2.5
"""Between two attempts to save a heartbeat."""
MOST_STOPPED_TOGETHER = 64
"""RPC servers that are stopped at the same time: each needs half a second to notice."""
RELOADED = frozenset((each.group, each.name) for owner in (LogOptions, StopOptions) for each in declared(owner))
"""(Section, name) of the options that a running service applies; all others need a restart."""


@dataclass(frozen=True)
class RpcEndpoint:
    """RPC methods of one version."""

    methods: Mapping[str, Method]
    version: str


class PeriodicTask(NamedTuple):
    """Work that is repeated."""

    name: str
    run: Callable[[], object]
    seconds: Callable[[], float]
    """From the end of a run to the next one."""


class RpcService:
    """A `ManagedService` of roost.services.lifecycle with RPC servers and periodic tasks, each in threads of its own.

    Subclasses say what is prepared, served and repeated. Services of one process share transport and engine: who
    opened them closes them, or has the service do so (`owned`).
    """

    binary: str
    """Name of the service in logs and in its database record, as operators know it: nova's."""
    hangs = False
    """Always: work that takes long keeps no other from being done."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        transport: Transport,
        *,
        clock: Clock,
        metrics: Metrics,
        read_again: Callable[[], Settings] | None = None,
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`read_again`: reads the configuration once more, for a reload. `owned`: closed last, after the stop."""
        self.settings, self._engine, self._transport = settings, engine, transport
        self._clock, self._metrics = clock, metrics
        self._read_again, self._owned = read_again, owned
        self._reloaded = settings
        """The settings as they were read last; `settings`: as at the start."""
        self._servers: dict[str, RpcServer] = {}
        self._tasks: list[Periodic] = []
        self._has_beaten = True
        """Whether the last heartbeat was saved."""
        self._is_started, self._is_stopping = threading.Event(), threading.Event()

    # --- for subclasses ----------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Do what has to be done before messages are taken; nothing here."""

    def make_servers(self) -> dict[str, RpcServer]:
        """Host -> its RPC server, not started yet; see `serve`."""
        raise NotImplementedError

    def tasks(self) -> Sequence[PeriodicTask]:
        """What is repeated, besides heartbeats and monitoring."""
        raise NotImplementedError

    def send_heartbeat(self) -> None:
        """Send a heartbeat, stamped by the database."""
        raise NotImplementedError

    def close(self) -> None:
        """Close what the service has opened; no message and no task is running."""

    def serve(self, topic: str, host: str, methods: Mapping[str, Method], version: str) -> RpcServer:
        """An RPC server whose methods are measured, not started yet."""
        endpoint = RpcEndpoint(measure_all(methods, self._clock, self._metrics), version)
        return self._transport.serve(topic, host, [endpoint], self._metrics.rpc_refused)

    # --- for run_service ---------------------------------------------------------------------------------

    def check_databases(self) -> None:
        """SchemaError for a database of another version or another program, another DatabaseError if it is away."""
        ensure_current(self._engine)

    def start(self) -> None:
        """Prepare, take messages, then start the tasks; SchemaError for a database of another version."""
        self.check_databases()
        self.prepare()
        self._servers = self.make_servers()
        for server in self._servers.values():
            server.start()
        self._is_started.set()
        self._tasks = self._make_tasks()
        for task in self._tasks:
            task.start()

    def _make_tasks(self) -> list[Periodic]:
        tasks = (
            PeriodicTask("heartbeat", self._beat, self._seconds_to_next_beat),
            *self.tasks(),
            PeriodicTask("monitor", self._monitor, lambda: MONITOR_SECONDS),
        )
        return [Periodic(*task, self._clock) for task in tasks]

    def _beat(self) -> None:
        self._has_beaten = False
        self.send_heartbeat()
        self._has_beaten = True

    def _seconds_to_next_beat(self) -> float:
        """Less after a failure: once the database is back, hosts have limited time for a heartbeat."""
        interval = self.settings.fill(HeartbeatOptions).report_interval
        return interval if self._has_beaten else min(interval / 4, LONGEST_RETRY_SECONDS)

    def _monitor(self) -> None:
        """Update what Prometheus shows: connection, readiness, errors of watchers."""
        self._metrics.rpc_connection(not self._unreachable())
        self._metrics.service_is(not self.unready())
        self._metrics.watchers_checked()

    def unready(self) -> list[str]:
        """Reasons why no request should be sent here now; empty when ready."""
        if self._is_stopping.is_set():
            return ["it is stopping"]
        if not self._is_started.is_set():
            return ["it has not started yet"]
        away, count = self._unreachable(), len(self._servers)
        what = "it" if away == count else f"{away} of its {count} hosts"
        reasons = [f"messages do not reach {what}: the broker is away"] if away else []
        return reasons + [f"{task.name}: fails" for task in self._tasks if task.is_failing]

    def _unreachable(self) -> int:
        """Number of RPC servers that get no messages."""
        return sum(not server.is_connected for server in self._servers.values())

    def look_after(self) -> None:
        """Nothing to do: all tasks run in threads of their own."""

    def is_alive(self) -> bool:
        """True: a message that takes long keeps no other from being handled."""
        return True

    def seconds_to_end(self) -> float:
        """Seconds that running work is given to end: `graceful_shutdown_timeout`."""
        return self._reloaded.fill(StopOptions).graceful_shutdown_timeout

    def stop(self, is_hurried: bool) -> None:
        """Take no new messages, finish those that were taken, then close what the service has opened or owns."""
        self._is_stopping.set()
        for task in self._tasks:
            task.stop()
        if is_hurried:
            return
        with ThreadPoolExecutor(MOST_STOPPED_TOGETHER) as stops:
            list(stops.map(stop_server, self._servers.values()))
        for task in self._tasks:
            task.join(LONGEST_JOIN_SECONDS)
        self.close()
        for close in self._owned:
            close()

    # --- reload ------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Apply changed log options and `graceful_shutdown_timeout`, and say what else changes with a restart.

        RoostError, and no change, where the configuration is wrong.
        """
        if self._read_again is None:
            return
        settings = self._read_again()
        changes = compare(self._reloaded, settings)
        set_up_logging(settings.fill(LogOptions), self.binary)
        self._reloaded = settings
        for change in changes:
            LOG.info("option changed", option=f"[{change.group}] {change.name}", result=self._outcome_of(change))
        if not changes:
            LOG.info("configuration read again: nothing changed; what is for oslo.messaging counts from a restart on")

    def _outcome_of(self, change: OptionDifference) -> str:
        key = change.group, change.name
        if key in RELOADED:
            return "taken up"
        is_as_started = self._reloaded.value(*key) == self.settings.value(*key)
        return "as it runs" if is_as_started else "changes with a restart"


def stop_server(server: RpcServer) -> None:
    """Take no new messages, and finish those that were taken."""
    server.stop()
    server.wait()


def measure_all(methods: Mapping[str, Method], clock: Clock, metrics: Metrics) -> dict[str, Method]:
    """Name -> the method, which counts each of its calls, whether it failed, and how long it took."""
    return {name: measured(name, method, clock, metrics) for name, method in methods.items()}


def measured(
    name: str,
    method: Method,
    clock: Clock,
    metrics: Metrics,
    is_answer: Callable[[Exception], bool] = is_expected,
) -> Method:
    """A method that counts calls, failures and time of this one, after the answer was sent.

    `is_answer`: whether an exception is an answer to the caller; it is counted as expected_error, any other as error.
    """

    @functools.wraps(method)
    def measuring(context: RequestContext, **arguments: Any) -> Any:
        started, result, seconds = clock.monotonic(), "error", 0.0
        # Before what the method defers, which may take long.
        context.when_answered(lambda: metrics.rpc_handled(name, result, seconds))
        try:
            with bound(request_id=context.request_id):
                answer = method(context, **arguments)
            result = "ok"
            return answer
        except Exception as error:
            result = "expected_error" if is_answer(error) else "error"
            raise
        finally:
            seconds = clock.monotonic() - started

    return measuring
