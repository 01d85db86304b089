# SPDX-License-Identifier: Apache-2.0
"""Builds servers: checks the request, has a scheduler choose hosts, and wakes the agents there.

What a request names is looked up; what cannot be is refused with BadInput. A host that fails is followed by its
alternates, each claimed when its turn comes; then by a fresh choice, until [scheduler] max_attempts hosts were tried.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from string import ascii_lowercase, digits
from typing import Any, NamedTuple

import structlog

from roost.conductor.names import (
    LONGEST_NAME,
    RequestNames,
    WrittenDetails,
    check_caller,
    check_name,
    check_size,
    hostnames_of,
    parse_details,
)
from roost.conductor.parts import (
    UNEXPECTED,
    ConductorParts,
    Record,
    attempts_of,
    planned_step,
    retries_exhausted,
    scheduler_failure,
)
from roost.conductor.questions import without_failed
from roost.errors import (
    BadInput,
    BrokerUnreachable,
    DatabaseError,
    FieldError,
    RemoteNoValidHost,
    RpcError,
    ServerChanged,
    nearest,
)
from roost.messages.context import RequestContext
from roost.messages.interface import Method
from roost.messages.objects.request import request_to_object
from roost.messages.objects.selections import SelectedHost, selection_from_object
from roost.model import Flavor, Image, RequestSpec
from roost.model.request import Destination
from roost.records.server import BUILD, BUILDING, SCHEDULING, Fault, Server, TaskData

MOST_SERVERS = 1000
"""Servers of one request."""
_KEYS = (
    *("name", "flavor", "image", "count", "min_count", "max_count", "hints", "group", "availability_zone", "host"),
    *("node", "description", "metadata", "reservation_id", "user_data", "hostname", "access_ip_v4", "access_ip_v6"),
    "disk_config",
)

_HINTS_OF_TEXTS = frozenset(
    ("group", "different_host", "same_host", "build_near_host_ip", "cidr", "target_cell", "different_cell")
)


class NewServers(NamedTuple):
    """Servers that are wanted, and the request by which each is placed."""

    names: list[str]
    hostnames: list[str]
    """Of their guests."""
    spec: RequestSpec
    details: WrittenDetails


def parse_new_servers(context: RequestContext, request: Any, known: RequestNames) -> NewServers:
    """The servers that a request of `create_servers` asks for; BadInput where something in it is wrong."""
    if not isinstance(request, Mapping):
        raise FieldError("request", "is no object")
    for key in request:
        if key not in _KEYS:
            raise FieldError(str(key)[:60], "is not known", nearest(str(key), _KEYS))
    if request.get("user_data") is not None:
        raise FieldError("user_data", "is not supported", "leave it out")
    check_caller(context)
    details, names = parse_details(request), _names(check_name(request.get("name")), _count(request))
    if request.get("flavor") is None:
        raise FieldError("flavor", "is missing")
    flavor = known.find_flavor(context, request["flavor"])
    image = known.find_image(context, request.get("image"))
    check_image(flavor, image)
    hints = _hints(request.get("hints"))
    group = request.get("group") or next(iter(hints.pop("group", ())), None)
    found = known.find_group(context, group) if group is not None else None
    zone, host, node = (request.get(name) for name in ("availability_zone", "host", "node"))
    place = known.find_place(context, zone, host, node)
    spec = RequestSpec(
        flavor=flavor,
        image=image,
        project_id=context.project_id or None,
        user_id=context.user_id or None,
        availability_zone=place.zone,
        scheduler_hints={**hints, "group": (str(found.uuid),)} if found else hints,
        instance_group=found,
        force_hosts=(place.host,) if place.host else None,
        force_nodes=(place.node,) if place.node else None,
        requested_destination=Destination(*place.destination) if place.destination else None,
    )
    return NewServers(names, hostnames_of(names, details.hostname), spec, details)


def _count(request: Mapping[str, Any]) -> int:
    """How many servers are wanted: `count`, or `max_count`, which is at least `min_count`, as nova has it.

    All of them are placed or none: `min_count` would count where a quota allows fewer, and there are no quotas.
    """
    numbers = {name: request.get(name) for name in ("count", "min_count", "max_count")}
    for name, wanted in numbers.items():
        is_number = isinstance(wanted, int) and not isinstance(wanted, bool)
        if wanted is not None and not (is_number and 1 <= wanted <= MOST_SERVERS):
            raise FieldError(name, f"{str(wanted)[:20]} is not possible", f"give a number from 1 to {MOST_SERVERS}")
    count, least, most = numbers.values()
    if count is not None and (least or most):
        raise FieldError("count", "is given beside min_count or max_count", "leave it out")
    if (least or 1) > (most or MOST_SERVERS):
        raise FieldError("min_count", "min_count must be <= max_count")
    return count or most or least or 1


def _names(name: str, count: int) -> list[str]:
    """The name of each server: NAME, or NAME-1, NAME-2 and so on for several."""
    names = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
    if len(names[-1]) > LONGEST_NAME:
        problem = f"is too long with the number of the last server, {count}"
        raise FieldError("name", problem, f"{LONGEST_NAME} characters with the number")
    return names


def _hints(hints: Any) -> dict[str, tuple[str, ...]]:
    """Scheduler hints, each a list of texts; those that begin with _nova are nova's own, and dropped."""
    if hints is None:
        return {}
    if not isinstance(hints, Mapping):
        raise FieldError("hints", "is no object")
    check_size("hints", hints)
    found = {str(name): value for name, value in hints.items() if not str(name).startswith("_nova")}
    return {name: _texts(name, value) for name, value in found.items() if value is not None}


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """The values of a hint: a text or a list of texts; of hints that are not nova's also numbers and objects."""
    return tuple(_text(name, each) for each in (value if isinstance(value, (list, tuple)) else [value]))


def _text(name: str, value: Any) -> str:
    """A value of a hint as the text that filters read; that of an object is JSON."""
    if isinstance(value, str):
        return value
    if name in _HINTS_OF_TEXTS or not isinstance(value, (int, float, Mapping)):
        raise FieldError(f"hints.{name}", "is no text and no list of texts")
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def check_image(flavor: Flavor, image: Image | None) -> None:
    """Refuse an image that needs more memory or disk than the flavor has, in nova's words."""
    if image is None:
        return
    if flavor.memory_mb < (image.min_ram or 0):
        raise BadInput("Flavor's memory is too small for requested image.", f"it needs {image.min_ram} MiB")
    if flavor.root_gb and flavor.root_gb < (image.min_disk or 0):
        raise BadInput("Flavor's disk is too small for requested image.", f"it needs {image.min_disk} GiB")


LOG = structlog.get_logger(__name__)


class Builds:
    """Creation of servers, and the search for hosts that build them."""

    def __init__(self, parts: ConductorParts, names: RequestNames) -> None:
        self._parts, self._names = parts, names
        self.methods: Mapping[str, Method] = {"create_servers": self.create_servers}
        self.internal_methods: Mapping[str, Method] = {"build_instances": self.build_instances}

    # --- for clients -------------------------------------------------------------------------------------

    def create_servers(self, context: RequestContext, request: Any, dry_run: bool = False) -> Record:
        """Begin to build servers, all or none: {"servers": [...], "reservation_id": text}, or {"plan": [...]}."""
        wanted = parse_new_servers(context, request, self._names)
        uuids = [self._new_uuid() for _ in wanted.names]
        if dry_run:
            return self._plan(context, wanted, uuids)
        task = TaskData(
            action=BUILD,
            vm_state=BUILDING,
            batch=tuple(uuids) if len(uuids) > 1 else (),
            request_id=context.request_id,
            project_id=context.project_id,
            user_id=context.user_id,
        )
        details = wanted.details._replace(reservation_id=wanted.details.reservation_id or self._new_reservation_id())
        own_details = [details._replace(hostname=each) for each in wanted.hostnames]
        each_server = zip(count(), uuids, wanted.names, own_details, strict=False)
        self._parts.store.create([_new_server(*each, wanted.spec, task) for each in each_server])
        created = {server.uuid: server for server in self._parts.store.find(uuids)}
        first = created[uuids[0]]
        self._parts.run_when_answered(context, first, self.build_instances)
        described = [self._names.describe_server(context, created[own]) for own in uuids]
        return {"servers": described, "reservation_id": details.reservation_id}

    def _new_uuid(self) -> str:
        return str(uuid.UUID(int=self._parts.randomness.getrandbits(128), version=4))

    def _new_reservation_id(self) -> str:
        """An id as nova makes them: r- and eight letters or digits."""
        return "r-" + "".join(self._parts.randomness.choices(ascii_lowercase + digits, k=8))

    def _plan(self, context: RequestContext, wanted: NewServers, uuids: Sequence[str]) -> Record:
        plan = self._parts.scheduler.plan(context, wanted.spec.for_instance(uuids[0]), uuids)
        steps = [
            planned_step(context, None, name, "create", hosts[0].host, plan.summary)
            for name, hosts in zip(wanted.names, plan.selections, strict=True)
        ]
        return {"plan": steps}

    # --- the conductor's own side ------------------------------------------------------------------------

    def build_instances(self, context: RequestContext, server_uuid: str, generation: int) -> None:
        """Find a host for a server, and for all that were created with it; or another one after a failed build."""
        self._parts.run_if_due("build_instances", server_uuid, generation, partial(self._find_hosts, context))

    def _find_hosts(self, context: RequestContext, server: Server) -> None:
        """Find hosts; what cannot succeed at any later time fails the build."""
        try:
            self._retry(context, server) if server.task.attempts else self._place_batch(context, server)
        except (DatabaseError, BrokerUnreachable, ServerChanged):
            raise  # the janitor goes on when database and broker are back
        except Exception as error:
            LOG.exception("build failed", server=server.uuid)
            details = "\n".join(filter(None, (f"{type(error).__name__}: {error}", attempts_of(server.task))))
            self._fail([server], Fault(UNEXPECTED, details))

    def _place_batch(self, context: RequestContext, server: Server) -> None:
        """Find hosts for all servers that were created together and wait still: for all of them, or for none."""
        batch = self._waiting_members(server)
        uuids = [each.uuid for each in batch]
        try:
            chosen = self._parts.scheduler.select(context, server.spec, uuids)
        except BrokerUnreachable:
            raise
        except RpcError as error:
            self._fail(batch, _fault_of(error))
            return
        for each, hosts in zip(batch, chosen, strict=True):
            self._assign(context, each, hosts)

    def _waiting_members(self, server: Server) -> list[Server]:
        """The servers of its batch that wait for a host still, in their order, this one first if it is alone."""
        if not server.task.batch:
            return [server]
        members = {each.uuid: each for each in self._parts.store.find(server.task.batch)}
        in_order = (members[each] for each in server.task.batch if each in members)
        return [each for each in in_order if _waits_for_first_host(each)]

    def _assign(self, context: RequestContext, server: Server, hosts: Sequence[SelectedHost]) -> None:
        """Record the chosen host and wake its agent; a server that was deleted meanwhile is skipped."""
        try:
            self._parts.assign(context, server, hosts)
        except RpcError as error:  # the janitor sends the message again
            LOG.warning("agent not reached", server=server.uuid, reason=str(error))

    # --- retries -----------------------------------------------------------------------------------------

    def _retry(self, context: RequestContext, server: Server) -> None:
        """Try the next host after a failed build: an alternate, or one of a fresh choice."""
        self._release_failed(server)
        task, spec = server.task, without_failed(server.spec, server.task.attempts)
        refusal = ""
        try:
            if len(task.attempts) < self._parts.options.most_attempts:
                hosts = self._next_alternate(context, server, spec) or self._parts.scheduler.select_one(
                    context, spec, server.uuid
                )
                self._assign(context, server, hosts)
                return
        except RemoteNoValidHost as error:
            refusal = error.summary or error.message
        except BrokerUnreachable:
            raise
        except RpcError as error:
            self._fail([server], _fault_of(error, attempts_of(task)))
            return
        details = "\n".join(filter(None, (attempts_of(task), refusal)))
        self._fail([server], retries_exhausted(server, details).to_fault())

    def _next_alternate(
        self, context: RequestContext, server: Server, spec: RequestSpec
    ) -> list[SelectedHost] | None:
        """The first alternate that can be claimed, then those after it; None if none is left."""
        alternates, tried = list(map(selection_from_object, server.task.alternates)), set(server.task.tried)
        for at, place in enumerate(alternates):
            if (place.host, place.node) in tried:
                continue
            claimed = self._parts.scheduler.claim_alternate(context, spec, server.uuid, place)
            if claimed is not None:
                return [claimed, *alternates[at + 1 :]]
        return None

    def _release_failed(self, server: Server) -> None:
        """Release what is held on hosts where builds failed: the agent there may have been killed before it did."""
        ledger, failed = self._parts.ledger, set(server.task.tried)
        held = ledger.read_holdings([server.uuid]).get(server.uuid, {})
        nodes = [node for node, place in held.items() if (place.host, place.node) in failed]
        if nodes:
            ledger.release_on([server.uuid], nodes)

    def _fail(self, batch: Sequence[Server], fault: Fault) -> None:
        """Give servers the state error; what may be claimed for them, though the answer was lost, is released.

        The state first: a server that another conductor has found a host for keeps it, and its claim.
        """
        failed = []
        for server in batch:
            try:
                self._parts.store.advance(server, "fail build", fault=fault, host=None, node=None)
            except ServerChanged:
                LOG.info("server changed meanwhile", server=server.uuid, method="build_instances")
                continue
            failed.append(server.uuid)
            LOG.warning("build failed", server=server.uuid, reason=fault.message, details=fault.details)
        self._parts.ledger.release(failed)


def _new_server(
    index: int, own: str, name: str, details: WrittenDetails, spec: RequestSpec, task: TaskData
) -> Server:
    """A server of a request; `index`: which one."""
    return Server(
        own,
        name,
        BUILDING,
        SCHEDULING,
        project_id=spec.project_id,
        user_id=spec.user_id,
        request_spec=request_to_object(spec.for_instance(own)),
        task=replace(task),
        image_id=spec.image.id if spec.image else None,
        launch_index=index,
        **details._asdict(),
    )


def _waits_for_first_host(server: Server) -> bool:
    is_waiting = (server.vm_state, server.task_state) == (BUILDING, SCHEDULING)
    return is_waiting and server.task.target is None and not server.task.attempts


def _fault_of(error: RpcError, attempts: str = "") -> Fault:
    """The fault for a scheduler's refusal, or for none that answers: with the decision's summary in the details."""
    if isinstance(error, RemoteNoValidHost):
        message, details = error.message, error.summary
    else:  # whose text may name the address of a broker or a database
        message, details = scheduler_failure(error).message, str(error)
    return Fault(message, "\n".join(filter(None, (details, attempts))))
