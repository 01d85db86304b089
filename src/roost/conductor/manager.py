# SPDX-License-Identifier: Apache-2.0
"""What a conductor can be asked. Start reading at `ConductorManager`: each part has the methods of one subject.

| caller | methods | form |
| --- | --- | --- |
| clients | create_servers, list_hosts, ... | checks, takes the first step, answers, then goes on |
| agents and conductors | build_instances, ... | context, server_uuid, generation; not answered |
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.abandoned_moves import AbandonedMoves
from roost.conductor.builds import Builds
from roost.conductor.decisions_view import DecisionsView
from roost.conductor.deletes_and_power import DeletesAndPower
from roost.conductor.guest_removal_notices import GuestRemovalNotices
from roost.conductor.host_records import HostRecords
from roost.conductor.hosts_view import HostsView
from roost.conductor.janitor import Cleaning, Janitor, Outcome, outcomes_of
from roost.conductor.live_migration import LiveMigrations
from roost.conductor.move_options import MoveOptions
from roost.conductor.moves import ResizesAndColdMigrations
from roost.conductor.options import ConductorSettings
from roost.conductor.parts import ConductorParts
from roost.conductor.rebuild import Rebuilds
from roost.conductor.request_names import RequestNames
from roost.conductor.scheduler_questions import SchedulerQuestions
from roost.conductor.server_details import ServerDetails
from roost.conductor.servers_view import ServersView
from roost.conductor.shelving import Shelving
from roost.conductor.snapshots import Snapshots
from roost.conductor.state_resets import StateResets
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import as_client_errors
from roost.messages.interface import Method, Transport
from roost.messages.objects.to_objects import NovaObjects
from roost.messages.oslo import RpcOptions
from roost.messages.scheduler_client import SchedulerClient
from roost.messages.server_messages import ServerMessages
from roost.records.server import Server
from roost.records.server_steps import next_work
from roost.records.servers import ServerStore
from roost.services.metrics import Metrics
from roost.services.rpc_service import measured

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


class Part(Protocol):
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


def _methods_of(owners: Sequence[Part]) -> Mapping[str, Method]:
    """Name -> method, of clients and of services."""
    called = {name: _for_client(each) for owner in owners for name, each in owner.methods.items()}
    return {**called, **_internal_methods(owners)}


def _internal_methods(owners: Sequence[Part]) -> dict[str, Method]:
    """Name -> method that agents and conductors call; most parts have none."""
    return {name: each for owner in owners for name, each in getattr(owner, "internal_methods", {}).items()}


def _outcomes(parts: ConductorParts, deletes: DeletesAndPower, moves: Sequence[Part]) -> Mapping[str, Outcome]:
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
