# SPDX-License-Identifier: Apache-2.0
"""Assembles one conductor process, and says what a conductor can be asked.

Start reading at `ConductorManager`: each part has the methods of one subject.

| caller | methods | form |
| --- | --- | --- |
| clients | create_servers, list_hosts, ... | checks, takes the first step, answers, then goes on |
| agents and conductors | build_instances, ... | context, server_uuid, generation; not answered |

Decisions of the schedulers are shown to admins only: they name hosts, and reasons that name hosts.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.builds import Builds
from roost.conductor.janitor import Cleaning, GuestRemovalNotices, Janitor, Outcome, outcomes_of
from roost.conductor.live_migration import LiveMigrations
from roost.conductor.moves import AbandonedMoves, ResizesAndColdMigrations
from roost.conductor.names import RequestNames, ServerDetails
from roost.conductor.options import ConductorOptions, ConductorSettings, MoveOptions
from roost.conductor.parts import ConductorParts, HostRecords, Record
from roost.conductor.power import DeletesAndPower, StateResets
from roost.conductor.questions import SchedulerQuestions
from roost.conductor.rebuild import Rebuilds, Shelving
from roost.conductor.views import HostsView, ServersView, Snapshots
from roost.errors import BadInput
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import CONDUCTOR_VERSION, ServerMessages, as_client_errors
from roost.messages.interface import Method, RpcServer, Transport
from roost.messages.objects.to_objects import NovaObjects
from roost.messages.options import RpcOptions
from roost.messages.scheduler_client import SchedulerClient
from roost.options.settings import Settings
from roost.records.decisions import DecisionQueries, DecisionStore
from roost.records.outages import probe_seconds, save_probe
from roost.records.server import Server
from roost.records.server_steps import next_work
from roost.records.servers import ServerStore
from roost.records.services import save_service_heartbeat
from roost.services.metrics import Metrics
from roost.services.options import HeartbeatOptions, HostOptions
from roost.services.rpc_service import PeriodicTask, RpcService, measured
from roost.store.store_clock import StoreClock

METHODS = frozenset(
    {
        *("create_servers", "list_servers", "get_server", "delete_server", "start_server", "stop_server"),
        *("resize_server", "migrate_server_cold", "confirm_resize", "revert_resize", "live_migrate_server"),
        *("evacuate_server", "rebuild_server", "shelve_server", "unshelve_server", "list_migrations"),
        *("list_hosts", "get_host", "set_host", "list_flavors", "list_images", "get_snapshot"),
        *("list_decisions", "get_decision", "update_server", "set_server_metadata", "delete_server_metadata"),
        "reset_server_state",
        *("build_instances", "migrate_server", "live_migrate_instance", "rebuild_instance", "unshelve_instance"),
        "delete_unplaced",
    }
)
"""Names of all methods, for metrics."""


class MethodGroup(Protocol):
    """Methods of one subject."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """What clients call, by name."""


class ConductorManager:
    """The methods of all parts, and the janitor that goes on where one of them was interrupted. Thread-safe."""

    def __init__(
        self,
        settings: ConductorSettings,
        engine: Engine,
        transport: Transport,
        rpc: RpcOptions,
        *,
        clock: Clock,
        randomness: random.Random,
        metrics: Metrics,
    ) -> None:
        self.store = ServerStore(engine, clock)
        self.ledger = Ledger(engine, times=self.store.times, sleep=clock.sleep, randomness=randomness)
        self.scheduler = SchedulerQuestions(SchedulerClient(transport, NovaObjects(), rpc), clock, randomness)
        views = ServersView(self.store)
        names = RequestNames(engine, self.store, settings.default_zone, views.describe_server)
        self.parts = parts = ConductorParts(
            self.store,
            self.ledger,
            ServerMessages(transport, rpc),
            self.scheduler,
            names,
            HostRecords(engine, clock, lambda: settings.seconds_until_down),
            MoveOptions(settings.may_stay, settings.max_attempts, settings.migrate_max_retries),
            randomness,
            lambda method: measured(method.__name__, method, clock, metrics),
        )
        deletes = DeletesAndPower(parts)
        moves = (ResizesAndColdMigrations(parts), LiveMigrations(parts), Rebuilds(parts), Shelving(parts))
        records = ServerDetails(parts), StateResets(parts)
        decisions = DecisionsView(engine, clock, names)
        snapshots = Snapshots(engine, clock, settings.deciding_options)
        other_views = HostsView(engine, clock, settings), snapshots, decisions
        self.methods = _methods_of((Builds(parts, names), deletes, *moves, *records, views, *other_views))
        self.janitor = Janitor(parts, _outcomes(parts, deletes, moves), settings.own, clock, metrics)
        self.removal_notices = GuestRemovalNotices(parts)
        self.cleaning = Cleaning(engine, parts, settings.own, metrics)


def _methods_of(owners: Sequence[MethodGroup]) -> Mapping[str, Method]:
    """Name -> method, of clients and of services."""
    called = {name: _for_client(each) for owner in owners for name, each in owner.methods.items()}
    return {**called, **_internal_methods(owners)}


def _internal_methods(owners: Sequence[MethodGroup]) -> dict[str, Method]:
    """Name -> method that agents and conductors call; most parts have none."""
    return {name: each for owner in owners for name, each in getattr(owner, "internal_methods", {}).items()}


def _outcomes(parts: ConductorParts, deletes: DeletesAndPower, moves: Sequence[MethodGroup]) -> Mapping[str, Outcome]:
    """Task state -> what becomes of a server whose task cannot go on, because its host is down."""
    abandoned = AbandonedMoves(parts, _internal_methods(moves))
    return outcomes_of(
        {state: _chosen_by_task(abandoned) for state in abandoned.task_states},
        deletes.finish_without_host,
        deletes.undo_power_change,
    )


def _for_client(method: Method) -> Method:
    """A method whose errors the client can raise again."""

    @functools.wraps(method)
    def answer(context: RequestContext, **arguments: Any) -> Any:
        with as_client_errors(context.is_admin):
            return method(context, **arguments)

    return answer


def _chosen_by_task(abandoned: AbandonedMoves) -> Outcome:
    """What the table of tasks says for a move whose next host is down."""

    def act(server: Server, reason: str) -> None:
        due = next_work(server)
        if due is not None:
            abandoned.outcomes[str(due.work.if_down)](server, reason)

    return act


BINARY = "nova-conductor"
"""Name of the service in its database record, as operators know it."""
LONGEST_CLEANING_SECONDS = 60.0
"""Most seconds between two searches for leaked claims and old records."""


class ConductorService(RpcService):
    """A conductor as a `ManagedService` of roost.services.lifecycle."""

    binary = BINARY

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        transport: Transport,
        *,
        clock: Clock,
        randomness: random.Random,
        metrics: Metrics,
        read_again: Callable[[], Settings] | None = None,
        owned: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`read_again`: reads the configuration once more, for a reload. `owned`: closed last, after the stop."""
        super().__init__(
            settings, engine, transport, clock=clock, metrics=metrics, read_again=read_again, owned=owned
        )
        self._options, self._rpc = settings.fill(ConductorOptions), settings.fill(RpcOptions)
        self._host = settings.fill(HostOptions).service_host
        self._seconds_until_down = settings.fill(HeartbeatOptions).seconds_until_down
        self.manager = ConductorManager(
            ConductorSettings.of(settings),
            engine,
            transport,
            self._rpc,
            clock=clock,
            randomness=randomness,
            metrics=metrics,
        )

    def make_servers(self) -> dict[str, RpcServer]:
        """The server of this conductor; all conductors share its topic."""
        return {
            self._host: self.serve(self._rpc.conductor_topic, self._host, self.manager.methods, CONDUCTOR_VERSION)
        }

    def tasks(self) -> Sequence[PeriodicTask]:
        """The janitor, the probe that it needs, and what removes leaked claims and old records."""
        return (
            PeriodicTask("outage probe", self._probe, lambda: probe_seconds(self._seconds_until_down)),
            PeriodicTask("stalled tasks", self.manager.janitor.run, lambda: self._options.janitor_interval),
            PeriodicTask(
                "guests left behind", self.manager.removal_notices.run, lambda: self._options.janitor_interval
            ),
            PeriodicTask("leaked claims and old records", self.manager.cleaning.run, self._cleaning_seconds),
        )

    def _cleaning_seconds(self) -> float:
        """As often as claims can come of age, so that a short timeout is kept."""
        own = self._options
        return min(LONGEST_CLEANING_SECONDS, max(own.leaked_claim_timeout, own.janitor_interval))

    def _probe(self) -> None:
        """Show that the database takes writes: the janitor judges silent hosts by it."""
        save_probe(self._engine, self.manager.store.times, self._seconds_until_down)

    def send_heartbeat(self) -> None:
        """Send a heartbeat, stamped by the database."""
        stamp = self.manager.store.times.stamp()
        save_service_heartbeat(self._engine, self._host, BINARY, self._rpc.conductor_topic, stamp)


class DecisionsView:
    """Lists and shows decisions, with the state that they were made from."""

    def __init__(self, engine: Engine, clock: Clock, names: RequestNames) -> None:
        self._store, self._names = DecisionStore(engine, StoreClock(engine, clock)), names
        self.methods: Mapping[str, Method] = {
            "list_decisions": self.list_decisions,
            "get_decision": self.get_decision,
        }

    def list_decisions(self, context: RequestContext, filters: Mapping[str, Any]) -> Record:
        """The decisions that match all filters, the latest first: {"decisions": [...]}, without their records."""
        return {"decisions": self._queries(context).list_decisions(filters)}

    def get_decision(self, context: RequestContext, decision: Any, with_state: bool = False) -> Record:
        """A decision by its id, by the id of its request, or the latest one about a server."""
        return self._queries(context).get_decision(decision, with_state)

    def _queries(self, context: RequestContext) -> DecisionQueries:
        if not context.is_admin:
            raise BadInput("only an admin may look at decisions", "ask as an admin")
        return DecisionQueries(self._store, lambda name: self._names.find_server(context, name).uuid)
