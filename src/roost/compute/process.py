# SPDX-License-Identifier: Apache-2.0
"""The agent on a host, and the process that has an agent for each of its hypervisors, usually one.

An agent takes messages about servers, one at a time for each server. A message only says that there is something to
do. What that is, the record of the server says (`records/server_steps.py`): so a message that is doubled, late or for
another host changes nothing, and an agent that was killed goes on at its next start with what it left behind.

Each agent has a queue of its own. The process is ready once all hosts are reported and messages reach all agents.
What agents left behind when they were stopped is resumed after that, beside new messages.

`HypervisorComparison` compares the guests of the hypervisor with the records of servers:

| found | what is done |
| --- | --- |
| a guest that Roost did not define, or whose server the database does not know | reported once, never touched |
| a guest of a server that is deleted or elsewhere, and does not move here | removed, with a line in the log |
| no guest of a server that has left one here | acknowledged (`records/guest_removals.py`) |
| a server that should run here, without a running guest | becomes stopped, with a fault that says so |
| another power state than recorded | recorded |
| a move that has ended, and that the ledger still holds resources for | ended in the ledger |
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.compute.builds import BuildHandlers, PowerHandlers, RebuildHandlers, hosts_of
from roost.compute.drivers.base import ComputeDriver, FoundGuest
from roost.compute.live_migration import LiveMigrationHandlers
from roost.compute.moves import MoveHandlers
from roost.compute.options import ComputeOptions
from roost.compute.parts import AgentParts, ServerTurns, Task, context_of, reason_of
from roost.compute.reporter import HostReporter
from roost.compute.tracker import ResourceTracker
from roost.errors import RoostError, ServerChanged
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import AGENT_VERSION, ServerMessages
from roost.messages.interface import Method, RpcServer, Transport
from roost.messages.options import RpcOptions
from roost.model.resources import move_of
from roost.options.settings import Settings
from roost.records.server import ACTIVE, DELETED, NO_STATE, PAUSED, RESIZED, SHUTDOWN, Fault, Server
from roost.records.server_steps import next_work
from roost.records.server_views import ENDED
from roost.records.servers import ServerStore, end_move
from roost.records.services import is_agent_up, read_longest_silence, save_heartbeats
from roost.services.metrics import Metrics
from roost.services.options import HeartbeatOptions
from roost.services.rpc_service import PeriodicTask, RpcService, stop_server

LOG = structlog.get_logger(__name__)


Handler = Callable[[Task], None]


class ComputeAgent:
    """The agent of one host. Thread-safe."""

    def __init__(
        self,
        host: str,
        driver: ComputeDriver,
        store: ServerStore,
        ledger: Ledger,
        messages: ServerMessages,
        reporter: HostReporter,
        tracker: ResourceTracker,
        options: ComputeOptions,
        clock: Clock,
        is_up: Callable[[str], bool],
    ) -> None:
        """`is_up`: whether the agent on a host is alive, by its heartbeats."""
        self.host, self.driver, self.options = host, driver, options
        self.reporter, self.tracker = reporter, tracker
        self._store, self._clock = store, clock
        self._turns = ServerTurns()
        parts = AgentParts(host, driver, store, ledger, messages, reporter, tracker, is_up)
        live_migration = LiveMigrationHandlers(parts)
        owners = (BuildHandlers, PowerHandlers, RebuildHandlers, MoveHandlers)
        self._handlers: dict[str, Handler] = dict(live_migration.methods)
        for owner in owners:
            self._handlers |= owner(parts).methods
        self._comparison = HypervisorComparison(parts, self._turns)
        by_message: dict[str, Method] = {name: partial(self._take, name) for name in self._handlers}
        self.methods: Mapping[str, Method] = {
            **by_message,
            **live_migration.calls,
            "refresh_instance": self.refresh_instance,
        }
        """RPC methods by name; those that change a server have the arguments context, server_uuid, generation."""

    # --- messages ----------------------------------------------------------------------------------------

    def _take(self, method: str, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Do what a message asks for, after what is being done for the same server."""
        work = partial(self._work, method, context, server_uuid, generation, False)
        self._turns.run(server_uuid, (method, generation), work)

    def refresh_instance(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Look at a server that a move brought here or took away: count it, or remove what it left here."""
        work = partial(self._logged, "refresh_instance", server_uuid, partial(self._comparison.refresh, server_uuid))
        self._turns.run(server_uuid, ("refresh_instance", generation), work)

    def _work(
        self, method: str, context: RequestContext, server_uuid: str, generation: int, is_restart: bool
    ) -> None:
        def handle() -> None:
            server = self._find(server_uuid, method, generation)
            if server is not None:
                self._handlers[method](Task(context, server, is_restart))

        self._logged(method, server_uuid, handle)

    def _find(self, server_uuid: str, method: str, generation: int) -> Server | None:
        """The server if this is what has to be done for it now, and here; None for a message that is out of date."""
        found = self._store.find([server_uuid])
        server = found[0] if found else None
        if server is not None and server.generation == generation:
            due = next_work(server)
            if due is not None and (due.host, due.work.method) == (self.host, method):
                return server
        LOG.debug("message out of date", host=self.host, server=server_uuid, method=method, generation=generation)
        return None

    def _logged(self, method: str, server_uuid: str, handle: Callable[[], None]) -> None:
        """Run a handler; what it raises is logged. The janitor of a conductor sends the message again."""
        try:
            handle()
        except ServerChanged:
            LOG.info("server changed meanwhile", host=self.host, server=server_uuid, method=method)
            self._note_again(server_uuid)
        except RoostError as error:
            LOG.warning("not done yet", host=self.host, server=server_uuid, method=method, reason=str(error))
        except Exception:
            LOG.exception("not done yet", host=self.host, server=server_uuid, method=method)

    def _note_again(self, server_uuid: str) -> None:
        for server in self._store.find([server_uuid]):
            self.tracker.note(server)

    # --- start, and periodic work ------------------------------------------------------------------------

    def recover(self, unfinished: Sequence[Server] | None = None) -> None:
        """Go on with what this agent had to do when it was stopped, then compare the hypervisor with the records.

        `unfinished`: servers with a running task, where the caller has read them already.
        """
        self.resume(self._store.list_unfinished() if unfinished is None else unfinished)
        self.compare()

    def resume(self, unfinished: Sequence[Server]) -> None:
        """Go on with what this agent had to do when it was stopped. `unfinished`: servers with a task by then."""
        for server in unfinished:
            due = next_work(server)
            if due is not None and due.host == self.host:
                method, generation = due.work.method, server.generation
                LOG.info("goes on after a restart", host=self.host, server=server.uuid, method=method)
                work = partial(self._work, method, context_of(server), server.uuid, generation, True)
                self._turns.run(server.uuid, (method, generation), work)

    def update_available_resource(self) -> None:
        """Count the usage of the host again from the records of servers, and report it."""
        self.tracker.rebuild()
        self.reporter.report()

    def compare(self) -> None:
        """Compare the guests of the hypervisor with the records of servers."""
        self._comparison.compare()

    def clean_up(self) -> None:
        """Report unknown guests, remove those that servers left behind, and end moves in the ledger."""
        self._comparison.clean_up()

    def check_power_states(self) -> None:
        """Look for servers without a running guest, and record power states."""
        self._comparison.check_power_states()

    @property
    def unknown_guests(self) -> int:
        """Number of guests of the hypervisor that Roost does not know, by the last comparison."""
        return len(self._comparison.unknown_guests)


BINARY = "nova-compute"
"""Name of the service in its database record, as operators know it."""
SILENCE_CHECK_SECONDS = 1.0
COMPARISON_SECONDS = 600.0
"""Seconds between two looks for guests that servers left behind."""
NEVER_SECONDS = float(threading.TIMEOUT_MAX)


class ComputeService(RpcService):
    """Agents as a `ManagedService` of roost.services.lifecycle.

    A hypervisor that hangs fails the messages about its servers; others go on. Guests go on running when it stops,
    and what is not finished is resumed at the next start.
    """

    binary = BINARY

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
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`drivers`: host name -> its hypervisor. The other arguments are those of `RpcService`."""
        super().__init__(
            settings, engine, transport, clock=clock, metrics=metrics, read_again=read_again, owned=owned
        )
        self._options = settings.fill(ComputeOptions)
        self._store = ServerStore(engine, clock)
        self._ledger = Ledger(engine, times=self._store.times, sleep=clock.sleep, randomness=randomness)
        self._messages = ServerMessages(transport, settings.fill(RpcOptions))
        self.agents: Mapping[str, ComputeAgent] = {
            host: self._make_agent(host, driver) for host, driver in drivers.items()
        }
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
        """Report all hosts, then take messages and start the tasks."""
        super().start()
        LOG.info("agents started", hosts=len(self.agents))

    def prepare(self) -> None:
        """Report all hosts. What agents left behind is resumed by a task, beside messages."""
        for agent in self.agents.values():
            agent.driver.open()
            agent.tracker.rebuild()
            agent.reporter.report()
        self._unfinished = self._store.list_unfinished()  # before messages bring new tasks

    def make_servers(self) -> dict[str, RpcServer]:
        """A server for each host, which has a queue of its own."""
        topic = self.settings.fill(RpcOptions).compute_topic
        return {host: self.serve(topic, host, agent.methods, AGENT_VERSION) for host, agent in self.agents.items()}

    def close(self) -> None:
        """Close the connections to hypervisors."""
        for agent in self.agents.values():
            agent.driver.close()

    def tasks(self) -> Sequence[PeriodicTask]:
        """What compares and reports hosts."""
        options = self._options
        return (
            PeriodicTask("resume and compare", self.compare, lambda: COMPARISON_SECONDS),
            PeriodicTask(
                "compare power states", self.check_power_states, lambda: options.power_seconds or NEVER_SECONDS
            ),
            PeriodicTask("compare after silence", self._compare_after_silence, lambda: SILENCE_CHECK_SECONDS),
            PeriodicTask("report hosts", self._report_again, lambda: options.update_seconds or NEVER_SECONDS),
        )

    # --- periodic work -----------------------------------------------------------------------------------

    def send_heartbeat(self) -> None:
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
        """Report each host, after its usage was counted again from the records."""
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
        self._metrics.unknown_guests(sum(agent.unknown_guests for agent in self.agents.values()))

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

    def drop_agent(self, host: str) -> None:
        """End the agent on one host, which gets no more messages and sends no more heartbeats; the others go on."""
        self.agents = {name: agent for name, agent in self.agents.items() if name != host}
        server = self._servers[host]
        self._servers = {name: each for name, each in self._servers.items() if name != host}
        stop_server(server)


class HypervisorComparison:
    """Compares one hypervisor with the records, at the start of its agent and periodically."""

    def __init__(self, parts: AgentParts, turns: ServerTurns) -> None:
        self._parts, self._turns = parts, turns
        self.unknown_guests: frozenset[str] = frozenset()
        """Uuids of the guests that were reported and are not touched."""

    def compare(self) -> None:
        """Compare all guests and servers of the host."""
        servers, guests = self._acknowledge_and_read()
        self._clean_up(servers, guests)
        self._check_guests(servers, guests)

    def clean_up(self) -> None:
        """Report unknown guests, remove left-over ones, and end moves in the ledger."""
        self._clean_up(*self._acknowledge_and_read())

    def check_power_states(self) -> None:
        """Look for servers without a running guest, and record power states."""
        self._check_guests(*self._read())

    def _read(self) -> tuple[dict[str, Server], dict[str, FoundGuest]]:
        """Servers and guests of the host, by uuid."""
        parts = self._parts
        # Servers first: one that is built meanwhile is not taken for vanished. Generations protect all changes.
        servers = {server.uuid: server for server in parts.store.list_on(parts.host)}
        return servers, {guest.uuid: guest for guest in parts.driver.list_guests()}

    def _acknowledge_and_read(self) -> tuple[dict[str, Server], dict[str, FoundGuest]]:
        """Servers and guests of the host, by uuid; removals are acknowledged of guests that are not there."""
        removals = self._parts.store.removals
        left = removals.list_on(self._parts.host)  # before the guests: one that is left meanwhile is another removal
        servers, guests = self._read()
        for removal in left:
            if removal.server_uuid not in guests:
                removals.acknowledge(removal.server_uuid, removal.host, removal.generation)
        return servers, guests

    def _clean_up(self, servers: Mapping[str, Server], guests: Mapping[str, FoundGuest]) -> None:
        parts = self._parts
        others = parts.store.find([uuid for uuid, guest in guests.items() if guest.is_own and uuid not in servers])
        known = {server.uuid for server in others} | servers.keys()
        self._report_unknown_guests(
            [guest for guest in guests.values() if not guest.is_own or guest.uuid not in known]
        )
        for server in (*others, *servers.values()):
            if server.uuid in guests and guests[server.uuid].is_own and self._is_left_over(server):
                self.remove_left_over(server.uuid)
        self._end_moves(list(servers.values()))

    # --- unknown guests ----------------------------------------------------------------------------------

    def _report_unknown_guests(self, found: Sequence[FoundGuest]) -> None:
        for guest in found:
            if guest.uuid not in self.unknown_guests:
                why = "its server is not in the database" if guest.is_own else "Roost did not define it"
                LOG.warning(
                    "unknown guest: left alone", host=self._parts.host, guest=guest.uuid, name=guest.name, reason=why
                )
        self.unknown_guests = frozenset(guest.uuid for guest in found)
        self._parts.tracker.note_foreign_guests(found)

    # --- guests that were left behind --------------------------------------------------------------------

    def refresh(self, uuid: str) -> None:
        """Compare one server: count its usage as it is now, or remove the guest that it left here.

        A removal is acknowledged, unless the hypervisor refuses, or a move that has not ended keeps the guest here.
        """
        parts = self._parts
        for server in parts.store.find([uuid]):
            if self._is_left_over(server):
                is_here = any(guest.uuid == uuid and guest.is_own for guest in parts.driver.list_guests())
                is_settled = not is_here or self._remove(server)
                parts.forget(uuid)
            else:
                is_settled = parts.host in hosts_of(server)
                parts.note(server)
            if is_settled:
                parts.store.removals.acknowledge(uuid, parts.host, server.generation)

    def remove_left_over(self, uuid: str) -> None:
        """Remove the guest of a server that is not here any more, unless a handler works on it."""

        def work() -> None:
            for server in self._parts.store.find([uuid]):
                if self._is_left_over(server) and self._remove(server):
                    self._parts.store.removals.acknowledge(uuid, self._parts.host, server.generation)

        self._turns.run_if_idle(uuid, work)

    def _remove(self, server: Server) -> bool:
        """Remove the guest that a server left here; False where the hypervisor refuses."""
        state = "deleted" if server.vm_state == DELETED else f"on {server.host or 'no host'}"
        try:
            self._parts.driver.destroy(server.uuid)
        except Exception as error:
            LOG.warning("guest not removed", host=self._parts.host, server=server.uuid, reason=reason_of(error))
            return False
        LOG.warning("left-over guest removed", host=self._parts.host, server=server.uuid, reason=f"it is {state}")
        return True

    def _is_left_over(self, server: Server) -> bool:
        host = self._parts.host
        if server.vm_state == DELETED:
            return True
        if host in hosts_of(server):
            return False
        return not any(
            host in (move.source_compute, move.dest_compute) and move.status not in ENDED
            for move in self._parts.store.list_migrations(server.uuid)
        )

    # --- servers without a running guest -----------------------------------------------------------------

    def _check_guests(self, servers: Mapping[str, Server], guests: Mapping[str, FoundGuest]) -> None:
        for server in servers.values():
            if server.host == self._parts.host and not server.is_busy:
                self._check_guest(server, guests.get(server.uuid))

    def _check_guest(self, server: Server, guest: FoundGuest | None) -> None:
        power_state = guest.power_state if guest else NO_STATE
        if server.vm_state in (ACTIVE, PAUSED) and power_state in (SHUTDOWN, NO_STATE):
            self._stop_vanished(server, "is gone from" if guest is None else "is shut off on", power_state)
        elif power_state != server.power_state and (guest or server.vm_state != RESIZED):
            self._parts.store.note_power_state(server, power_state)

    def _stop_vanished(self, server: Server, what: str, power_state: str) -> None:
        parts = self._parts
        message = f"The guest of the server {what} the hypervisor, though nothing here stopped it"
        fault = Fault(message, f"{parts.host}: found by the comparison of hypervisor and records", host=parts.host)
        try:
            parts.note(parts.store.advance(server, "vanish", fault=fault, power_state=power_state))
        except ServerChanged:
            return
        LOG.warning("server has no running guest", host=parts.host, server=server.uuid, reason=message)

    # --- the ledger --------------------------------------------------------------------------------------

    def _end_moves(self, servers: Sequence[Server]) -> None:
        """End moves in the ledger whose servers are idle: an agent was killed between the two."""
        parts = self._parts
        settled: Mapping[str, Server] = {
            move_of(server.uuid): server
            for server in servers
            if server.host == parts.host and not server.is_busy and server.vm_state != RESIZED
        }
        for uuid in parts.ledger.read_holdings(list(settled)) if settled else ():
            current = parts.store.get(settled[uuid].uuid)
            if current.generation == settled[uuid].generation:
                end_move(parts.ledger, current)
                LOG.info("ended move released in the ledger", host=parts.host, server=current.uuid)
