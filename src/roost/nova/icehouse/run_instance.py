# SPDX-License-Identifier: Apache-2.0
"""run_instance and prep_resize: choose hosts, and send each instance to its own.

run_instance casts run_instance to the host of each instance. Instances for which no host is left fail; those before
them are built. Once an instance was cast to a host, a later error does not fail it. prep_resize chooses a host for an
instance that gets another size, and tells that host to prepare for it.

Agents of Icehouse and Juno know of no ledger: after a failure the scheduler releases what it claimed on a host that
an instance cannot use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import FieldError, NoValidHost, RoostError
from roost.hosts.record import Pair
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.interface import Transport
from roost.messages.objects.request import MOST_INSTANCES
from roost.messages.objects.selections import versions_for
from roost.model import RequestSpec
from roost.model.resources import move_of
from roost.nova.icehouse.outcomes import (
    ACTIVE,
    ERROR,
    NO_HOST,
    Outcomes,
    count_attempt,
    fields_of,
    properties_for,
    reason_of,
    sent_uuid_of,
    tried_hosts,
    uuid_of,
    uuids_in,
    with_fields,
)
from roost.records.servers import find_known_servers, save_server_scheduled
from roost.scheduler.claiming import Replica
from roost.scheduler.cloud import as_dicts
from roost.scheduler.rounds import plan_claims, read_held

if TYPE_CHECKING:
    from roost.scheduler.manager import SchedulerManager


LOG = structlog.get_logger(__name__)


class ClaimRestore:
    """What some instances held before hosts were chosen for them, so that the choice can be undone."""

    def __init__(self, ledger: Ledger, uuids: Collection[str]) -> None:
        self._ledger = ledger
        self._before = read_held(ledger, list(uuids))

    def claim(self, claim: Claim, source: str) -> None:
        """Claim another host for an instance that runs on the host `source`, which it keeps as that of a move."""
        plan = plan_claims([claim], read_held(self._ledger, [claim.consumer_uuid]), [source])
        self._ledger.claim_and_move(*plan)

    def restore(self, uuids: Collection[str]) -> None:
        """Undo the claims since: undo moves, release new claims. What is as it was before stays."""
        now = read_held(self._ledger, list(uuids))
        for uuid in uuids:
            migration = move_of(uuid)
            if all(now.get(each) == self._before.get(each) for each in (uuid, migration)):
                continue
            if migration in now:
                self._ledger.undo_move(migration, uuid, now.get(uuid))
            else:
                self._ledger.release_on([uuid], now.get(uuid, {}).keys() - self._before.get(uuid, {}).keys())


@contextmanager
def restored_on_failure(ledger: Ledger, uuids: Collection[str]) -> Iterator[ClaimRestore]:
    """If the block raises, restore the claims of the instances that are in `uuids` at that time."""
    held = ClaimRestore(ledger, uuids)
    try:
        yield held
    except Exception:
        try:
            held.restore(list(uuids))
        except RoostError as error:  # the error of the block is the one to raise
            LOG.error("claims of instances that failed are still there", instances=list(uuids), error=str(error))
        raise


def leave_tried_hosts(
    ledger: Ledger, replica: Replica, uuid: str, tried: Collection[Pair], home: Pair | None = None
) -> None:
    """Release a host that an instance holds and on which its build failed.

    `home`: (host, node) where the instance runs, for one that was to move; it holds that again.
    """
    with replica.lock:
        table = replica.table
        rows = [row for host, _ in tried for row in table.rows_of_host(host) if row in table.uuids]
        nodes = [table.uuids[row] for row in rows if _has_failed(table.names[row], tried, home)]
    if not nodes:
        return
    if home is None:
        ledger.release_on([uuid, move_of(uuid)], nodes)
    else:
        ledger.undo_move(move_of(uuid), uuid, nodes)


def _has_failed(pair: Pair, tried: Collection[Pair], home: Pair | None) -> bool:
    host, _ = pair
    return pair != home and (pair in tried or (host, "") in tried)


COMPUTE_VERSION = "3.0"
"""Message version for agents, which every release with a 3.x understands."""
RUN_INSTANCE = "run_instance"


class Build(NamedTuple):
    """A run_instance request."""

    context: RequestContext
    request_spec: Mapping[str, Any]
    filter_properties: Mapping[str, Any]
    handed_on: Mapping[str, Any]
    """Arguments that are passed on to the host. They contain secrets: not to be logged."""
    waiting: dict[str, str]
    """Uuids, in order, that were neither cast to a host nor failed yet, each with its spelling in the request."""


class ChosenHosts(NamedTuple):
    """Hosts for the first instances of a request."""

    hosts: list[dict[str, Any]]
    """Dicts of host, nodename and limits."""
    weights: list[float]
    refusal: NoValidHost | None
    """Why there is no host for the next instance; None where there was."""


class RunInstance:
    """Handles run_instance. May be shared by threads."""

    def __init__(
        self,
        manager: SchedulerManager,
        ledger: Ledger,
        transport: Transport,
        engine: Engine,
        outcomes: Outcomes,
        clock: Clock,
    ) -> None:
        self._manager, self._ledger, self._transport, self._engine = manager, ledger, transport, engine
        self._outcomes, self._clock = outcomes, clock

    def run(
        self,
        context: RequestContext,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
        handed_on: Mapping[str, Any],
    ) -> None:
        """Handle a request. "No valid host" is notified and logged, not raised: the message is a cast."""
        waiting = uuids_in(request_spec, most=MOST_INSTANCES)
        build = Build(context, request_spec, filter_properties, handed_on, waiting)
        try:
            self._outcomes.notify(context, f"{RUN_INSTANCE}.start", request_spec)
            self._run(build)
            self._outcomes.notify(context, f"{RUN_INSTANCE}.end", request_spec)
        except NO_HOST as error:
            self._fail_waiting(build, error)
        except Exception as error:
            self._fail_waiting(build, error)
            raise

    def _run(self, build: Build) -> None:
        build = self._counting_this_attempt(build)
        spec, _ = self._manager.parse_request(build.request_spec, build.filter_properties)
        with restored_on_failure(self._ledger, build.waiting):
            self._place_and_tell(build, spec, list(build.waiting))

    def _place_and_tell(self, build: Build, spec: RequestSpec, uuids: list[str]) -> None:
        known = find_known_servers(self._engine, uuids)
        chosen = self._choose(build.context, spec, uuids)
        for index, (uuid, host) in enumerate(zip(uuids, chosen.hosts, strict=False)):
            self._tell_scheduled(build, index, build.waiting[uuid], host["host"], chosen.weights[index])
            if self._is_still_wanted(uuid, uuid in known):
                self._hand_over(build, index, build.waiting[uuid], host)
            del build.waiting[uuid]
        if chosen.refusal:
            self._fail_waiting(build, chosen.refusal)

    def _counting_this_attempt(self, build: Build) -> Build:
        """Increment the attempt counter; release what the instance holds on hosts that were tried before.

        A request has several instances only at its first attempt, when no host was tried.
        """
        first = next(iter(build.waiting), "")
        properties = count_attempt(build.filter_properties, self._manager.settings, first)
        tried = tried_hosts(build.filter_properties)
        leave_tried_hosts(self._ledger, self._manager.replica, first, tried)
        return build._replace(filter_properties=properties)

    def _choose(self, context: RequestContext, spec: RequestSpec, uuids: list[str]) -> ChosenHosts:
        """Hosts for the first instances that have one; placing is all or nothing, so it is repeated for fewer."""
        refusal = None
        while uuids:
            try:
                some = spec.changed(num_instances=len(uuids))
                placement = self._manager.place(context, some, uuids, is_announced=False)
            except NoValidHost as error:
                refusal = refusal or error
                uuids = uuids[: min(error.decision.failed_at or 0, len(uuids) - 1)]
                continue
            ranked = [each.ranked for each in placement.decision.selections]
            hosts = as_dicts(placement, self._manager.driver.names_nodes, versions_for(None))
            return ChosenHosts(hosts, [each.weight if each else 0.0 for each in ranked], refusal)
        return ChosenHosts([], [], refusal)

    def _tell_scheduled(self, build: Build, index: int, uuid: str, host: str, weight: float) -> None:
        self._outcomes.notify(
            build.context,
            f"{RUN_INSTANCE}.scheduled",
            _request_spec_for(build, index),
            weighted_host={"weight": weight, "host": host},
            instance_id=uuid,
        )

    def _is_still_wanted(self, uuid: str, was_known: bool) -> bool:
        """Whether the instance still exists. One without a record here may have one in nova's database."""
        if save_server_scheduled(self._engine, uuid, self._clock.now()) or not was_known:
            return True
        LOG.warning("instance vanished while a host was chosen", instance=uuid)
        self._ledger.release([uuid])
        return False

    def _hand_over(self, build: Build, index: int, uuid: str, chosen: Mapping[str, Any]) -> None:
        request_spec = _request_spec_for(build, index)
        scheduled_at = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%f")
        own = {"uuid": uuid, "scheduled_at": scheduled_at, "host": None, "node": None}
        told = {
            "instance": with_fields(request_spec["instance_properties"], **own),
            "request_spec": request_spec,
            "filter_properties": properties_for(build.filter_properties, chosen, index),
            "node": chosen["nodename"],
            **build.handed_on,
        }
        self._transport.cast(f"compute.{chosen['host']}", RUN_INSTANCE, COMPUTE_VERSION, told, build.context)

    def _fail_waiting(self, build: Build, error: Exception) -> None:
        reason = reason_of(error, self._manager.driver)
        for uuid, spelt in list(build.waiting.items()):
            self._outcomes.failed(build.context, RUN_INSTANCE, spelt, reason, build.request_spec)
            del build.waiting[uuid]


def _request_spec_for(build: Build, index: int) -> dict[str, Any]:
    """The request_spec for one of its instances."""
    properties = build.request_spec.get("instance_properties") or {}
    if not isinstance(properties, Mapping):
        raise FieldError("request_spec.instance_properties", f"{type(properties).__name__} is no mapping")
    return {**build.request_spec, "instance_properties": with_fields(properties, launch_index=index)}


PREP_RESIZE = "prep_resize"


class Resize(NamedTuple):
    """A request to change the size of an instance."""

    context: RequestContext
    uuid: str
    instance: Any
    request_spec: Mapping[str, Any]
    filter_properties: Mapping[str, Any]
    handed_on: Mapping[str, Any]
    """Arguments that are passed on to the host."""


class PrepResize:
    """Handles prep_resize. May be shared by threads."""

    def __init__(self, manager: SchedulerManager, ledger: Ledger, transport: Transport, outcomes: Outcomes) -> None:
        self._manager, self._ledger, self._transport, self._outcomes = manager, ledger, transport, outcomes

    def prepare(
        self,
        context: RequestContext,
        instance: Any,
        request_spec: Mapping[str, Any],
        filter_properties: Mapping[str, Any],
        handed_on: Mapping[str, Any],
    ) -> None:
        """Choose a host and cast prep_resize to it. Without a host the instance stays as it was; nothing is raised.

        Quota reservations are not rolled back here: nova expires the ones that are not committed.
        """
        uuid = uuid_of(instance, "instance")
        complete = {
            "instance_type": handed_on["instance_type"],
            "instance_uuids": [sent_uuid_of(instance, "instance")],
        }
        complete |= {**request_spec, "num_instances": 1}
        resize = Resize(context, uuid, instance, complete, filter_properties, handed_on)
        try:
            self._prepare(resize)
        except NO_HOST as error:
            self._fail(resize, error, str(fields_of(instance, "instance").get("vm_state") or ACTIVE))
        except Exception as error:
            self._fail(resize, error, ERROR)
            raise

    def _prepare(self, resize: Resize) -> None:
        properties = self._count_this_attempt(resize)
        spec, _ = self._manager.parse_request(resize.request_spec, properties)
        with restored_on_failure(self._ledger, [resize.uuid]):
            self._place_and_tell(resize, spec, properties)

    def _place_and_tell(self, resize: Resize, spec: RequestSpec, properties: Mapping[str, Any]) -> None:
        placement = self._manager.place(resize.context, spec, [resize.uuid], is_announced=False)
        (chosen,) = as_dicts(placement, self._manager.driver.names_nodes, versions_for(None))
        told = {
            "instance": resize.instance,
            "request_spec": resize.request_spec,
            "filter_properties": properties_for(properties, chosen),
            "node": chosen["nodename"],
            **resize.handed_on,
        }
        self._transport.cast(f"compute.{chosen['host']}", PREP_RESIZE, COMPUTE_VERSION, told, resize.context)

    def _count_this_attempt(self, resize: Resize) -> dict[str, Any]:
        """Increment the attempt counter; release what the instance holds on hosts that were tried before."""
        before = resize.filter_properties
        properties = count_attempt(before, self._manager.settings, resize.uuid)
        fields = fields_of(resize.instance, "instance")
        home = (str(fields.get("host") or ""), str(fields.get("node") or fields.get("host") or ""))
        leave_tried_hosts(self._ledger, self._manager.replica, resize.uuid, tried_hosts(before), home)
        return properties

    def _fail(self, resize: Resize, error: Exception, vm_state: str) -> None:
        if reserved := resize.handed_on.get("reservations"):
            LOG.info("reservations of quota are left to run out", instance=resize.uuid, count=len(reserved))
        reason = reason_of(error, self._manager.driver)
        spelt = sent_uuid_of(resize.instance, "instance")
        self._outcomes.failed(resize.context, PREP_RESIZE, spelt, reason, resize.request_spec, vm_state=vm_state)
