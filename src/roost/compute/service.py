# SPDX-License-Identifier: Apache-2.0
"""Assembles one compute process: an agent with its own queue for each hypervisor, usually one.

It is ready once all hosts are reported and messages reach all agents. What agents left behind when they were stopped
is resumed after that, beside new messages.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Engine

from roost.claims import Ledger
from roost.clock import Clock
from roost.compute.agent import ComputeAgent
from roost.compute.drivers.base import ComputeDriver
from roost.compute.options import ComputeOptions
from roost.compute.reporter import HostReporter
from roost.compute.tracker import ResourceTracker
from roost.config import Settings, compare
from roost.inventory import is_agent_up, read_longest_silence, save_heartbeats
from roost.observe.metrics import Metrics
from roost.rpc import RequestContext, RpcOptions, RpcServer, Transport
from roost.rpc.interface import Method
from roost.rpc.server_messages import AGENT_VERSION, ServerMessages
from roost.servers import Server, ServerStore
from roost.service.options import HeartbeatOptions, StopOptions
from roost.service.periodic import Periodic
from roost.store.schema_upgrade import ensure_current

LOG = structlog.get_logger(__name__)
BINARY = "nova-compute"
"""Name of the service in its database record, as operators know it."""
MONITOR_SECONDS = 1.0
COMPARISON_SECONDS = 600.0
"""Seconds between two looks for guests that servers left behind."""
LONGEST_JOIN_SECONDS = 5.0
MOST_STOPPED_TOGETHER = 64
"""Queues that are closed at the same time when a process of many agents stops."""
NEVER_SECONDS = float(threading.TIMEOUT_MAX)


@dataclass(frozen=True)
class AgentEndpoint:
    """The RPC methods of an agent."""

    methods: Mapping[str, Method]
    version: str = AGENT_VERSION


class ComputeService:
    """Agents as a `ManagedService` of roost.service.lifecycle."""

    hangs = False
    """Always: a hypervisor that hangs fails the messages about its servers; others go on."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        transport: Transport,
        drivers: Mapping[str, ComputeDriver],
        *,
        clock: Clock,
        randomness: random.Random,
        metrics: Metrics,
        read_again: Callable[[], Settings] | None = None,
    ) -> None:
        """`drivers`: host name -> its hypervisor. `read_again`: reads the configuration once more, for a reload."""
        self.settings, self._engine, self._transport = settings, engine, transport
        self._clock, self._metrics, self._read_again = clock, metrics, read_again
        self._options = settings.fill(ComputeOptions)
        self._store = ServerStore(engine, clock)
        self._ledger = Ledger(engine, now=clock.now, sleep=clock.sleep, randomness=randomness)
        self._messages = ServerMessages(transport, settings.fill(RpcOptions))
        self.agents: Mapping[str, ComputeAgent] = {
            host: self._make_agent(host, driver) for host, driver in drivers.items()
        }
        self._servers: dict[str, RpcServer] = {}
        self._tasks: list[Periodic] = []
        self._is_started, self._is_stopping = threading.Event(), threading.Event()
        self._unfinished: Sequence[Server] | None = None
        """Servers that had a task at the start, until their agents go on with them."""
        self._recovered: set[str] = set()
        """Hosts whose agents have gone on with what they left behind."""
        self._was_silent = threading.Event()
        """Set after heartbeats were missed for so long that the servers may have been given to other hosts."""
        self._reports_periodically = False

    def _make_agent(self, host: str, driver: ComputeDriver) -> ComputeAgent:
        tracker = ResourceTracker(host, self._store, self._ledger, self._options)
        reporter = HostReporter(host, driver, tracker, self._engine, self._clock)
        parts = driver, self._store, self._ledger, self._messages, reporter, tracker
        return ComputeAgent(host, *parts, self._options, self._clock, self._is_up)

    def _is_up(self, host: str) -> bool:
        seconds = self.settings.fill(HeartbeatOptions).seconds_until_down
        return is_agent_up(self._engine, host, self._store.times, seconds)

    # --- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Report all hosts, then take messages; what was left behind is resumed by a task beside them."""
        ensure_current(self._engine)
        for agent in self.agents.values():
            agent.driver.open()
            agent.tracker.rebuild()
            agent.reporter.report()
        self._unfinished = self._store.list_unfinished()  # before messages bring new tasks
        topic = self.settings.fill(RpcOptions).compute_topic
        for host, agent in self.agents.items():
            endpoint = AgentEndpoint({name: self._measured(name, method) for name, method in agent.methods.items()})
            self._servers[host] = self._transport.serve(topic, host, [endpoint], self._metrics.rpc_refused)
        for server in self._servers.values():
            server.start()
        LOG.info("agents started", hosts=len(self.agents))
        self._is_started.set()
        self._tasks = self._make_tasks()
        for task in self._tasks:
            task.start()

    def _make_tasks(self) -> list[Periodic]:
        options = self._options
        interval = self.settings.fill(HeartbeatOptions).report_interval
        wanted = (
            ("sign of life", self.send_heartbeats, lambda: interval),
            ("resume and compare", self.compare, lambda: COMPARISON_SECONDS),
            ("compare power states", self.check_power_states, lambda: options.power_seconds or NEVER_SECONDS),
            ("compare after silence", self._compare_after_silence, lambda: MONITOR_SECONDS),
            ("report hosts", self._report_again, lambda: options.update_seconds or NEVER_SECONDS),
            ("monitor", self._monitor, lambda: MONITOR_SECONDS),
        )
        return [Periodic(name, run, seconds, self._clock) for name, run, seconds in wanted]

    def _measured(self, name: str, method: Method) -> Method:
        """A method that counts calls, failures and time of this one."""

        @functools.wraps(method)
        def measuring(context: RequestContext, **arguments: Any) -> Any:
            started, result = self._clock.monotonic(), "error"
            try:
                answer = method(context, **arguments)
                result = "ok"
                return answer
            finally:
                self._metrics.rpc_handled(name, result, self._clock.monotonic() - started)

        return measuring

    # --- periodic work -----------------------------------------------------------------------------------

    def send_heartbeats(self) -> None:
        """Send a heartbeat for all hosts, in one transaction.

        After a silence that made the hosts count as down, all of them are compared with the records.
        """
        hosts = list(self.agents)
        silence = read_longest_silence(self._engine, hosts, self._store.times)
        save_heartbeats(self._engine, hosts, self._store.times)
        if silence > self.settings.fill(HeartbeatOptions).seconds_until_down:
            LOG.warning("no heartbeats for some time: hypervisors are compared", seconds=round(silence))
            self._was_silent.set()

    def _report_again(self) -> None:
        """Report all hosts, but not the first time: the start has done that."""
        if self._reports_periodically:
            self.report()
        self._reports_periodically = True

    def report(self) -> None:
        """Report each host, after its books were made anew from the records."""
        self._for_each(ComputeAgent.update_available_resource)

    def compare(self) -> None:
        """Report and remove guests that are not in the records; the first time, go on with what agents left behind.

        Power states are compared the first time, and by a task of their own later.
        """
        if self._unfinished is None:
            self._unfinished = self._store.list_unfinished()
        try:
            self._for_each(self._recover_or_clean_up)
        finally:
            if self._recovered >= self.agents.keys():
                self._unfinished = ()
            self._count_unknown_guests()

    def _recover_or_clean_up(self, agent: ComputeAgent) -> None:
        if agent.host in self._recovered:
            agent.clean_up()
            return
        agent.resume(self._unfinished or ())
        self._recovered.add(agent.host)  # once only: from now on messages bring tasks that were not interrupted
        agent.compare()

    def check_power_states(self) -> None:
        """Compare power states with the records, of agents that have gone on with what they left behind."""
        self._for_each(lambda agent: agent.check_power_states() if agent.host in self._recovered else None)

    def _compare_after_silence(self) -> None:
        if not self._was_silent.is_set():
            return
        self._was_silent.clear()
        try:
            self._for_each(lambda agent: agent.compare() if agent.host in self._recovered else None)
        except Exception:
            self._was_silent.set()
            raise
        self._count_unknown_guests()

    def _count_unknown_guests(self) -> None:
        self._metrics.unknown_guests(sum(agent.strangers for agent in self.agents.values()))

    def _for_each(self, run: Callable[[ComputeAgent], None]) -> None:
        """Run something for each agent; the failure of one is raised when all had their turn."""
        failures: list[Exception] = []
        for agent in self.agents.values():
            if self._is_stopping.is_set():
                return
            try:
                run(agent)
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _monitor(self) -> None:
        self._metrics.rpc_connection(all(server.is_connected for server in self._servers.values()))
        self._metrics.service_is(not self.unready())

    def drop_agent(self, host: str) -> None:
        """End the agent on one host, which gets no more messages and sends no more heartbeats; the others go on."""
        self.agents = {name: agent for name, agent in self.agents.items() if name != host}
        server = self._servers[host]
        self._servers = {name: each for name, each in self._servers.items() if name != host}
        server.stop()
        server.wait()

    # --- for run_service ---------------------------------------------------------------------------------

    def unready(self) -> list[str]:
        """Reasons why no server should be built here now; empty when ready."""
        if self._is_stopping.is_set():
            return ["it is stopping"]
        if not self._is_started.is_set():
            return ["its hosts are not reported yet"]
        away = sorted(host for host, server in self._servers.items() if not server.is_connected)
        reasons = [f"messages do not reach {len(away)} of its hosts: the broker is away"] if away else []
        return reasons + [f"{task.name} fails" for task in self._tasks if task.is_failing]

    def look_after(self) -> None:
        """Nothing to do: all tasks run in threads of their own."""

    def is_alive(self) -> bool:
        """True: a message that takes long keeps no other from being handled."""
        return True

    def reload(self) -> None:
        """Read the configuration again and say what changes with a restart; RoostError where it is wrong."""
        if self._read_again is None:
            return
        settings = self._read_again()
        for change in compare(self.settings, settings):
            LOG.info("option changed", option=f"[{change.group}] {change.name}", result="changes with a restart")

    def seconds_to_end(self) -> float:
        """Seconds that running work is given to end: `graceful_shutdown_timeout`."""
        return self.settings.fill(StopOptions).graceful_shutdown_timeout

    def stop(self, is_hurried: bool) -> None:
        """Take no new messages, finish those that were taken, then close hypervisors, transport and database.

        Guests go on running. What is not finished is resumed at the next start.
        """
        self._is_stopping.set()
        for task in self._tasks:
            task.stop()
        if is_hurried:
            return
        with ThreadPoolExecutor(MOST_STOPPED_TOGETHER) as stops:  # a queue takes half a second to notice
            list(stops.map(_stop_server, self._servers.values()))
        for task in self._tasks:
            task.join(LONGEST_JOIN_SECONDS)
        for agent in self.agents.values():
            agent.driver.close()
        self._transport.close()
        self._engine.dispose()


def _stop_server(server: RpcServer) -> None:
    """Take no new messages, and finish those that were taken."""
    server.stop()
    server.wait()
