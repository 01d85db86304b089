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
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Engine

from roost.claims import Ledger
from roost.clock import Clock
from roost.conductor.abandoned_moves import AbandonedMoves
from roost.conductor.builds import Builds
from roost.conductor.deletes_and_power import DeletesAndPower
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
from roost.conductor.servers_view import ServersView
from roost.conductor.shelving import Shelving
from roost.observe.logs import bound
from roost.observe.metrics import Metrics
from roost.rpc import RequestContext, RpcOptions, SchedulerClient, Transport
from roost.rpc.client_errors import as_client_errors
from roost.rpc.interface import Method
from roost.rpc.server_messages import CONDUCTOR_VERSION, ServerMessages
from roost.rpc.wire_errors import is_expected
from roost.servers import Server, ServerStore
from roost.servers.tasks import next_work
from roost.wire import NovaObjects

METHODS = frozenset(
    {
        *("create_servers", "list_servers", "get_server", "delete_server", "start_server", "stop_server"),
        *("resize_server", "migrate_server_cold", "confirm_resize", "revert_resize", "live_migrate_server"),
        *("evacuate_server", "rebuild_server", "shelve_server", "unshelve_server", "list_migrations"),
        *("list_hosts", "get_host", "set_host", "list_flavors", "list_images"),
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


@dataclass(frozen=True)
class ConductorEndpoint:
    """The RPC methods of a conductor."""

    methods: Mapping[str, Method]
    version: str = CONDUCTOR_VERSION


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
        self._clock, self._metrics = clock, metrics
        self.store = store = ServerStore(engine, clock)
        self.ledger = Ledger(engine, now=clock.now, sleep=clock.sleep, randomness=randomness)
        self.scheduler = scheduler = SchedulerQuestions(
            SchedulerClient(transport, NovaObjects(), rpc), clock, randomness
        )
        views = ServersView(store)
        names = RequestNames(engine, store, settings.default_zone, views.describe_server)
        self.parts = parts = ConductorParts(
            store,
            self.ledger,
            ServerMessages(transport, rpc),
            scheduler,
            names,
            HostRecords(engine, clock, lambda: settings.seconds_until_down),
            MoveOptions(settings.may_stay, settings.max_attempts, settings.migrate_max_retries),
            randomness,
        )
        deletes = DeletesAndPower(parts)
        moves = (ResizesAndColdMigrations(parts), LiveMigrations(parts), Rebuilds(parts), Shelving(parts))
        owners: Sequence[Part] = (
            Builds(parts, names),
            deletes,
            *moves,
            views,
            HostsView(engine, clock, settings),
        )
        own = {name: each for owner in owners for name, each in _internal(owner).items()}
        called = {name: _for_client(each) for owner in owners for name, each in owner.methods.items()}
        self.methods: Mapping[str, Method] = {
            name: self._measured(name, each) for name, each in {**called, **own}.items()
        }
        abandoned = AbandonedMoves(parts, {name: each for owner in moves for name, each in _internal(owner).items()})
        outcomes = outcomes_of(
            {state: _chosen_by_task(abandoned) for state in abandoned.task_states},
            deletes.finish_without_host,
            deletes.undo_power_change,
        )
        self.janitor = Janitor(parts, outcomes, settings.own, clock, metrics)
        self.cleaning = Cleaning(engine, parts, settings.own, metrics)

    def _measured(self, name: str, method: Method) -> Method:
        """A method that counts calls, failures and time of this one."""

        @functools.wraps(method)
        def measuring(context: RequestContext, **arguments: Any) -> Any:
            started, result = self._clock.monotonic(), "error"
            try:
                with bound(request_id=context.request_id):
                    answer = method(context, **arguments)
                result = "ok"
                return answer
            except Exception as error:
                result = "expected_error" if is_expected(error) else "error"
                raise
            finally:
                self._metrics.rpc_handled(name, result, self._clock.monotonic() - started)

        return measuring


def _for_client(method: Method) -> Method:
    """A method whose errors the client can raise again."""

    @functools.wraps(method)
    def answer(context: RequestContext, **arguments: Any) -> Any:
        with as_client_errors(context.is_admin):
            return method(context, **arguments)

    return answer


def _internal(part: Any) -> Mapping[str, Method]:
    found: Mapping[str, Method] = getattr(part, "internal_methods", {})
    return found


def _chosen_by_task(abandoned: AbandonedMoves) -> Outcome:
    """What the table of tasks says for a move whose next host is down."""

    def act(server: Server, reason: str) -> None:
        due = next_work(server)
        if due is not None:
            abandoned.outcomes[str(due.work.if_down)](server, reason)

    return act
