# SPDX-License-Identifier: Apache-2.0
"""The agent on a host: takes messages about servers, one at a time for each server, and does what their records say.

A message only says that there is something to do. What that is, the record of the server says (`records/server_steps.py`):
so a message that is doubled, late or for another host changes nothing, and an agent that was killed goes on at its
next start with what it left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from roost.clock import Clock
from roost.compute.agent_parts import AgentParts, Task, context_of
from roost.compute.builds import BuildHandlers
from roost.compute.drivers.base import ComputeDriver
from roost.compute.hypervisor_comparison import HypervisorComparison
from roost.compute.live_migration import LiveMigrationHandlers
from roost.compute.moves import MoveHandlers
from roost.compute.options import ComputeOptions
from roost.compute.power import PowerHandlers
from roost.compute.rebuilds import RebuildHandlers
from roost.compute.reporter import HostReporter
from roost.compute.server_turns import ServerTurns
from roost.compute.tracker import ResourceTracker
from roost.errors import RoostError, ServerChanged
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.server_messages import ServerMessages
from roost.records.server import Server
from roost.records.server_steps import next_work
from roost.records.servers import ServerStore

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
