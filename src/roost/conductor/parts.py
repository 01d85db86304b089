# SPDX-License-Identifier: Apache-2.0
"""What all parts of a conductor share: records, ledger, messages, the scheduler, and hosts as they are now.

Hosts are as the database has them now: whether they are up, their hypervisor, their memory. Errors and faults of
moves are in nova's words. A message about a server that the conductor works on already is ignored (`WorkInProgress`).
"""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.conductor.options import MoveOptions
from roost.conductor.questions import NamedHost, SchedulerQuestions
from roost.errors import (
    BadInput,
    ClaimRejected,
    DatabaseError,
    FieldError,
    RemoteFailure,
    RoostError,
    RpcError,
    ServerChanged,
    UnknownName,
)
from roost.hosts import HostRecord
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.dispatcher import ServerMessages
from roost.messages.interface import Method
from roost.messages.objects.flavor_image_group import flavor_from_object
from roost.messages.objects.selections import SelectedHost, selection_to_object
from roost.model import Flavor, Image, RequestSpec
from roost.model.resources import move_of
from roost.records.node_reader import read_nodes
from roost.records.node_writer import find_node_ids
from roost.records.outages import read_heartbeat_rule
from roost.records.server import DELETED, DELETING, RESIZED, Attempt, Fault, Migration, Server, TaskData
from roost.records.server_steps import LIFE_CYCLE, cannot_while, next_work
from roost.records.servers import ServerStore, end_move
from roost.store.store_clock import StoreClock
from roost.store.transactions import database_errors


class HostFacts(NamedTuple):
    """A host and its node, as moves look at them."""

    host: str
    node: str
    uuid: str
    """Of the node."""
    is_up: bool
    hypervisor_type: str
    hypervisor_version: int
    memory_mb: int
    """All of it."""
    free_ram_mb: int
    ram_allocation_ratio: float

    @property
    def available_ram_mb(self) -> float:
        """Memory that may still be promised, with the host's overcommitment, MiB."""
        return self.memory_mb * self.ram_allocation_ratio - (self.memory_mb - self.free_ram_mb)


class HostRecords:
    """Reads hosts, one at a time, by the clock of the database."""

    def __init__(self, engine: Engine, clock: Clock, seconds_until_down: Callable[[], float]) -> None:
        """`seconds_until_down`: without a heartbeat."""
        self._engine, self._times, self._seconds_until_down = engine, StoreClock(engine, clock), seconds_until_down

    def find(self, host: str) -> HostFacts | None:
        """A host, by its first node; None where there is none."""
        with database_errors(self._engine), self._engine.connect() as connection:
            nodes = find_node_ids(connection, [host])
            down_after = self._seconds_until_down()
            rule = read_heartbeat_rule(connection, self._times, down_after)
            found = read_nodes(connection, nodes, rule=rule) if nodes else iter(())
            return next((_facts_of(each.record, down_after) for each in found), None)

    def get(self, host: str) -> HostFacts:
        """A host; UnknownName in nova's words where there is none."""
        found = self.find(host)
        if found is None:
            raise UnknownName(f"Compute host {host[:60]} could not be found.", "roost host list shows them")
        return found

    def is_up(self, host: str | None) -> bool:
        """Whether the service of a host is up; False for one that does not exist."""
        found = self.find(host) if host else None
        return found is not None and found.is_up


def _facts_of(record: HostRecord, down_after: float) -> HostFacts:
    return HostFacts(
        record.host,
        record.nodename,
        record.uuid,
        record.service.is_up(down_after),
        record.hypervisor_type or "",
        record.hypervisor_version,
        record.total_usable_ram_mb,
        record.ram_mb_left,
        record.ram_allocation_ratio,
    )


NO_VALID_HOST = "No valid host was found."
NOT_ASKED = "No scheduler could be asked for a host."
NOT_UNDERSTOOD = "The scheduler could not answer the request."
TOO_MANY_RETRIES = "Exceeded maximum number of retries."


class MoveRefused(RoostError):
    """A move that cannot begin, or found no host. `name`: nova's class for it; `details`: for admins.

    `migration_status`: of the migration record, then.
    """

    code = "roost.move_refused"

    def __init__(self, name: str, message: str, details: str = "", migration_status: str = "error") -> None:
        super().__init__(message)
        self.name, self.details, self.migration_status = name, details, migration_status

    def to_fault(self) -> Fault:
        """The fault of the server."""
        return Fault(self.message, self.details)


def refuse_unless_admin(context: RequestContext, what: str) -> None:
    """BadInput for a caller who is no admin: nova leaves this to admins, who know the hosts."""
    if not context.is_admin:
        raise BadInput(f"only an admin may {what}", "ask an operator")


def no_valid_host(error: RemoteFailure, reason: str = "", attempts: str = "") -> MoveRefused:
    """The refusal of a scheduler; `reason`: in nova's words for the operation, else that of the scheduler."""
    message = f"{NO_VALID_HOST} {reason}" if reason else error.message
    found = error.summary or error.message
    return MoveRefused("NoValidHost", message, "\n".join(filter(None, (found, attempts))))


def scheduler_failure(error: RpcError) -> MoveRefused:
    """A failure of a scheduler, or of the way to it; its text, which may name addresses, is for admins."""
    if isinstance(error, RemoteFailure):
        return MoveRefused(error.name, NOT_UNDERSTOOD, error.message)
    return MoveRefused(type(error).__name__, NOT_ASKED, error.message)


def retries_exhausted(server: Server, attempts: str) -> MoveRefused:
    """No alternate is left after failures on all hosts before; `attempts`: with their reasons."""
    reason = f"Exhausted all hosts available for retrying build failures for instance {server.uuid}."
    return MoveRefused("MaxRetriesExceeded", f"{TOO_MANY_RETRIES} {reason}", attempts)


class WorkInProgress:
    """Servers that this process works on now, by generation. Thread-safe."""

    def __init__(self) -> None:
        self._lock, self._keys = threading.Lock(), set[tuple[str, int]]()

    @contextmanager
    def begin(self, server_uuid: str, generation: int) -> Iterator[bool]:
        """Within it, the server counts as worked on; False if it did before."""
        key = (server_uuid, generation)
        with self._lock:
            is_new = key not in self._keys
            self._keys.add(key)
        try:
            yield is_new
        finally:
            if is_new:
                with self._lock:
                    self._keys.discard(key)


LOG = structlog.get_logger(__name__)

UNEXPECTED = "An unexpected error prevented the server from getting a host"
Record = dict[str, Any]
"""JSON data of an answer."""


class Catalogue(Protocol):
    """Servers, flavors and images by the names that clients give them."""

    def find_server(self, context: RequestContext, name_or_uuid: str) -> Server:
        """A server that the caller may see; UnknownName where there is none."""

    def find_flavor(self, context: RequestContext, wanted: Any) -> Flavor:
        """A flavor by its name or id, or for admins as its fields; BadInput where there is none."""

    def find_image(self, context: RequestContext, wanted: Any) -> Image | None:
        """An image by its name or id, or for admins as its fields; BadInput where there is none."""

    def find_zone(self, zone: Any) -> str:
        """An availability zone by its name; UnknownName where there is none."""

    def describe_server(self, context: RequestContext, server: Server) -> Record:
        """A server as clients see it."""


class HostRequest(NamedTuple):
    """How a host is found for a server, and what becomes of the server with or without one."""

    find: Callable[[RequestContext, Server], Sequence[SelectedHost]]
    """The chosen host, claimed, then its alternates; MoveRefused where there is none.

    Empty if the search goes on with another message.
    """
    give_up: str
    """The step of the life cycle that is taken without a host."""
    status: str | None = None
    """New status of the migration, with a host; None: as before."""


@dataclass(frozen=True)
class ConductorParts:
    """What builds, deletions and moves work with."""

    store: ServerStore
    ledger: Ledger
    messages: ServerMessages
    scheduler: SchedulerQuestions
    catalogue: Catalogue
    hosts: HostRecords
    options: MoveOptions
    randomness: random.Random
    measure: Callable[[Method], Method]
    """Makes a method count its calls and their time."""
    in_progress: WorkInProgress = field(default_factory=WorkInProgress)

    # --- the caller's side -------------------------------------------------------------------------------

    def find(self, context: RequestContext, name_or_uuid: str, step: str, verb: str) -> Server:
        """A server that can take this step now; IllegalStep in nova's words where it cannot."""
        server = self.catalogue.find_server(context, name_or_uuid)
        if not LIFE_CYCLE[step].is_legal(server.vm_state, server.task_state):
            raise cannot_while(server, verb)
        if server.request_spec is None:
            problem = f"server {server.uuid} was imported, and has no request to place it by"
            raise BadInput(problem, "boot it anew")
        return server

    def named_host(self, host: str | None, is_forced: bool = False) -> NamedHost | None:
        """The host that the caller names; UnknownName where there is none, BadInput for force without a host."""
        if not isinstance(is_forced, bool):
            raise FieldError("force", f"{str(is_forced)[:60]!r} is neither true nor false")
        if host is None:
            if is_forced:
                raise BadInput("force without a host", "name the host")
            return None
        if not isinstance(host, str):
            raise FieldError("host", f"{str(host)[:60]!r} is no name")
        return NamedHost(host, self.hosts.get(host).node, is_forced)

    def new_task(self, context: RequestContext, server: Server, action: str, **more: Any) -> TaskData:
        """Data of a task that begins now for the caller."""
        return TaskData(
            action=action,
            vm_state=server.vm_state,
            request_id=context.request_id,
            project_id=context.project_id,
            user_id=context.user_id,
            **more,
        )

    def new_move(self, context: RequestContext, server: Server, action: str, **more: Any) -> TaskData:
        """Data of a move that begins now: with its source, and a new uuid for its record."""
        source = (str(server.host), str(server.node))
        own = str(uuid.UUID(int=self.randomness.getrandbits(128), version=4))
        return self.new_task(context, server, action, source=source, migration_uuid=own, **more)

    def begin_move(self, server: Server, step: str, data: TaskData, status: str, **written: Any) -> Server:
        """Take the first step of a move, and insert its record in the same transaction.

        `written`: what is written on the server with that.
        """
        source = data.source or (None, None)
        old, new = (_flavor_details(each, server) for each in (data.old_flavor, data.flavor))
        record = Migration(str(data.migration_uuid), server.uuid, data.action, status, *source)
        record = replace(record, old_flavor=old, new_flavor=new)
        return self.store.advance(server, step, task=data, also=self.store.create_migration(record), **written)

    def go_on(self, context: RequestContext, server: Server, method: Method) -> Record:
        """The answer to the caller; after it was sent, the method goes on with the server."""
        self.run_when_answered(context, server, method)
        return self.catalogue.describe_server(context, server)

    def run_when_answered(self, context: RequestContext, server: Server, method: Method) -> None:
        """Have an internal method go on with the server once the caller has its answer, without a message."""
        measured = self.measure(method)
        context.when_answered(lambda: measured(context, server_uuid=server.uuid, generation=server.generation))

    def plan(self, context: RequestContext, server: Server, action: str, spec: RequestSpec) -> Record:
        """The answer to a dry run: the host that a scheduler would choose now. RemoteNoValidHost where none fits."""
        (chosen, *_), *_ = (plan := self.scheduler.plan(context, spec, [server.uuid])).selections
        return self.planned(context, server, action, chosen.host, plan.summary)

    def planned(
        self, context: RequestContext, server: Server, action: str, host: str | None, summary: str = ""
    ) -> Record:
        """The answer to a dry run; `host`: the one that would get or keep the server."""
        return {"plan": [planned_step(context, server.uuid, server.name, action, host, summary)]}

    # --- the conductor's own side ------------------------------------------------------------------------

    def wanted_host(self, data: TaskData) -> NamedHost | None:
        """The host that the caller named when the move began; None: any."""
        if data.destination is None:
            return None
        found = self.hosts.find(data.destination)
        return NamedHost(data.destination, found.node if found else None, data.is_forced)

    def run_if_due(self, method: str, server_uuid: str, generation: int, work: Callable[[Server], None]) -> None:
        """Do the work of a method for a server, unless the message is out of date, or the work is being done.

        What fails for now is logged: the janitor of a conductor sends the message again.
        """
        with self.in_progress.begin(server_uuid, generation) as is_new:
            server = self._find_due(method, server_uuid, generation) if is_new else None
            if server is None:
                LOG.debug("message out of date, or doubled", server=server_uuid, method=method, generation=generation)
                return
            try:
                work(server)
            except ServerChanged:
                LOG.info("server changed meanwhile", server=server_uuid, method=method)
            except (DatabaseError, RpcError) as error:
                LOG.warning("not done yet", server=server_uuid, method=method, reason=str(error))

    def find_and_assign(
        self, method: str, context: RequestContext, server_uuid: str, generation: int, search: HostRequest
    ) -> None:
        """Find a host for a server that waits for one, and have an agent go on; without one, the move is given up."""

        def work(server: Server) -> None:
            self._finish_move_before(server)
            try:
                self._find_or_give_up(method, context, server, search)
            except ServerChanged:
                self._drop_claim(server)
                raise

        self.run_if_due(method, server_uuid, generation, work)

    def _find_or_give_up(self, method: str, context: RequestContext, server: Server, search: HostRequest) -> None:
        """ServerChanged if the server has a new generation by now: a claim may have been made all the same."""
        try:
            chosen = search.find(context, server)
        except (DatabaseError, RpcError, ServerChanged):
            raise
        except MoveRefused as refusal:
            self.undo(server, search.give_up, refusal.to_fault(), refusal.migration_status)
        except Exception as error:  # it would fail again and again
            LOG.exception("no host found", server=server.uuid, method=method)
            self.undo(server, search.give_up, Fault(UNEXPECTED, f"{type(error).__name__}: {error}"))
        else:
            if chosen:
                self.assign(context, server, chosen, search.status)

    def _finish_move_before(self, server: Server) -> None:
        """Release what the move before this one left, of which an agent has not told the ledger yet.

        There is such a move if the server holds its present size on its present host, and a migration holds something
        besides; of the move that begins now, the migration holds just that.
        """
        if server.task.migration_uuid is None:
            return
        move = move_of(server.uuid)
        held = self.ledger.read_holdings([server.uuid, move])
        size = {name: amount for name, amount in server.spec.amounts.items() if amount}
        own = held.get(server.uuid, {}).values()
        if move in held and any((place.host, place.amounts) == (server.host, size) for place in own):
            LOG.info("move before ended in the ledger", server=server.uuid)
            self.ledger.finish_move(move, list(held[move]))

    def _find_due(self, method: str, server_uuid: str, generation: int) -> Server | None:
        """The server if a conductor has to run this method for it now."""
        for server in self.store.find([server_uuid]):
            due = next_work(server)
            if server.generation == generation and due and (due.host, due.work.method) == (None, method):
                return server
        return None

    def assign(
        self, context: RequestContext, server: Server, chosen: Sequence[SelectedHost], status: str | None = None
    ) -> None:
        """Record the chosen host and its alternates, and wake the agent that goes on.

        `status`: the new one of the migration. If the server changed meanwhile, the claim is dropped.
        """
        target, *alternates = map(selection_to_object, chosen)
        data = replace(server.task, target=target, alternates=tuple(alternates))
        also = None
        if data.migration_uuid:
            place = {"dest_compute": data.selection.host, "dest_node": data.selection.node}
            values = place | ({"status": status} if status else {})
            also = self.store.update_migration(data.migration_uuid, **values)
        try:
            assigned = self.store.advance(server, "assign", task=data, also=also)
        except ServerChanged:
            self._drop_claim(server)
            return
        LOG.info("host chosen", server=server.uuid, action=data.action, host=data.selection.host)
        self.wake_next(context, assigned)

    def _drop_claim(self, server: Server) -> None:
        """Release what was claimed for a server that is deleted, is being deleted, or whose task was given up.

        `server`: as it was when a host was asked for. Another conductor may have been faster, and have found a host:
        then the agent on the target looks into the ledger and decides.
        """
        LOG.info("server changed meanwhile", server=server.uuid, action=server.task.action)
        for current in self.store.find([server.uuid]):
            if current.vm_state == DELETED:
                self.ledger.release([server.uuid, move_of(server.uuid)])
            elif current.task_state == DELETING:
                self._drop_target(server, current.host)
            elif not current.is_busy and current.host is None:
                self.ledger.release([server.uuid], spares_used=True)  # its next task may have begun by now
            elif not current.is_busy and current.vm_state != RESIZED:
                end_move(self.ledger, current)

    def _drop_target(self, server: Server, host: str | None) -> None:
        """Undo a move of a server that is being deleted, or release what it holds on other hosts than this one.

        The agent on its host releases the rest.
        """
        held = list(self.ledger.read_allocations([server.uuid]).get(server.uuid, {}))
        if self.undo_in_ledger(server, held):
            return
        place = self.hosts.find(host) if host else None
        elsewhere = [node_uuid for node_uuid in held if place is None or node_uuid != place.uuid]
        if elsewhere:
            self.ledger.release_on([server.uuid], elsewhere)

    def wake_next(self, context: RequestContext, server: Server) -> None:
        """Wake the agent that has to go on with the server."""
        due = next_work(server)
        if due is not None and due.host is not None:
            self.messages.wake(context, due.host, due.work.method, server.uuid, server.generation)

    def undo_in_ledger(self, server: Server, node_uuids: Sequence[str]) -> bool:
        """Release the target of a move, if it is one of these nodes, and give the source back to the server.

        `server`: as it was during the move. The end of the move before, which an agent has not told the ledger yet,
        is left to the agent: it came from elsewhere.
        """
        move, source = move_of(server.uuid), server.task.source
        held = self.ledger.read_holdings([move]).get(move, {})
        sources = [uuid for uuid, place in held.items() if source and place.host == source[0]]
        if not (node_uuids and sources):
            return False
        try:
            return self.ledger.undo_move(move, server.uuid, node_uuids, sources)
        except ClaimRejected as error:  # it would split an affinity group
            LOG.warning("move not undone in the ledger", server=server.uuid, reason=str(error))
            return False

    def undo(self, server: Server, step: str, fault: Fault, status: str = "error", **values: Any) -> Server:
        """End a move on its source: the record goes back by this step, the ledger gives the source back.

        `status`: of the migration. `values`: of the record, besides.
        """
        held = list(self.ledger.read_allocations([server.uuid]).get(server.uuid, {}))
        left = {server.task.target_host} - {values.get("host", server.host)}
        undone = self.store.advance(server, step, fault=fault, migration_status=status, left_on=left, **values)
        self.undo_in_ledger(server, held)
        if undone.host is None:
            self.ledger.release([server.uuid])
        LOG.warning("move given up", server=server.uuid, action=server.task.action, reason=fault.message)
        return undone


def _flavor_details(flavor: Mapping[str, Any] | None, server: Server) -> Record:
    """What the record of a move says of a flavor, a Flavor object of nova's; None: the one that the server has."""
    found = server.spec.flavor if flavor is None else flavor_from_object(flavor)
    return {**found.to_details(), "id": found.id}


def planned_step(
    context: RequestContext, server_uuid: str | None, name: str, action: str, host: str | None, summary: str
) -> Record:
    """What a dry run says of one server; its host and the summary of the decision are for admins."""
    for_admins = {"host": host, "summary": summary} if context.is_admin else {"host": None, "summary": ""}
    return {"server": server_uuid, "name": name, "action": action, **for_admins}


def attempts_of(data: TaskData) -> str:
    """Where a task failed and why, a line each, for the details of a fault."""
    return "\n".join(f"{each.host}: {each.reason}" for each in data.attempts)


def with_attempt(data: TaskData, host: str, node: str, reason: str) -> TaskData:
    """The task data after a failure on a host: no host is chosen any more."""
    return replace(data, target=None, attempts=(*data.attempts, Attempt(host, node, reason)))


def context_of(server: Server) -> RequestContext:
    """The context of the request that began the running task."""
    data = server.task
    return RequestContext.new(data.request_id, data.user_id, data.project_id)
