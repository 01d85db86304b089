# SPDX-License-Identifier: Apache-2.0
"""run_instance: choose hosts for the instances of a request, and cast run_instance to each of them.

Instances for which no host is left fail; those before them are built. Once an instance was cast to a host, a later
error does not fail it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import FieldError, NoValidHost
from roost.ledger.ledger import Ledger
from roost.messages.context import RequestContext
from roost.messages.interface import Transport
from roost.messages.objects.request import MOST_INSTANCES
from roost.messages.objects.selections import versions_for
from roost.model import RequestSpec
from roost.records.servers import find_known_servers, save_server_scheduled
from roost.scheduler.legacy.attempts import count_attempt, properties_for
from roost.scheduler.legacy.claim_restore import leave_tried_hosts, restored_on_failure
from roost.scheduler.legacy.instance_records import uuids_in, with_fields
from roost.scheduler.legacy.outcomes import NO_HOST, Outcomes, reason_of
from roost.scheduler.legacy.retry_data import tried_hosts
from roost.scheduler.replies import as_dicts

if TYPE_CHECKING:
    from roost.scheduler.manager import SchedulerManager

LOG = structlog.get_logger(__name__)

COMPUTE_VERSION = "3.0"
"""Message version for agents, which every release with a 3.x understands."""
METHOD = "run_instance"


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
            self._outcomes.notify(context, f"{METHOD}.start", request_spec)
            self._run(build)
            self._outcomes.notify(context, f"{METHOD}.end", request_spec)
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
            f"{METHOD}.scheduled",
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
        self._transport.cast(f"compute.{chosen['host']}", METHOD, COMPUTE_VERSION, told, build.context)

    def _fail_waiting(self, build: Build, error: Exception) -> None:
        reason = reason_of(error, self._manager.driver)
        for uuid, spelt in list(build.waiting.items()):
            self._outcomes.failed(build.context, METHOD, spelt, reason, build.request_spec)
            del build.waiting[uuid]


def _request_spec_for(build: Build, index: int) -> dict[str, Any]:
    """The request_spec for one of its instances."""
    properties = build.request_spec.get("instance_properties") or {}
    if not isinstance(properties, Mapping):
        raise FieldError("request_spec.instance_properties", f"{type(properties).__name__} is no mapping")
    return {**build.request_spec, "instance_properties": with_fields(properties, launch_index=index)}
