# SPDX-License-Identifier: Apache-2.0
"""What can be asked of a scheduler, in every form that some release of nova uses. Start reading at
`select_destinations`: the request as it came, the driver, the answer as it goes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from roost.clock import Clock
from roost.config import Settings
from roost.errors import BadInput, FieldError, HostFault, NoValidHost, OptionError, PluginNotFound
from roost.model import Decision, RequestSpec
from roost.observe.logs import bound
from roost.observe.metrics import Metrics
from roost.rpc import RequestContext
from roost.rpc.interface import Method
from roost.scheduler.claiming import Placement
from roost.scheduler.drivers import Driver
from roost.scheduler.legacy.json_options import JsonOptionsFile
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.repeats_and_moves import leave
from roost.scheduler.replica.host_manager import HostManager
from roost.scheduler.service.notifications import RequestNotifications
from roost.scheduler.service.replies import as_dicts, as_objects, decision_facts, is_answer, told_as_nova_does
from roost.validation.containers import ListOf
from roost.validation.kinds import Matching
from roost.validation.vocabulary import UUID
from roost.wire import (
    aggregates_from_object,
    instances_from_object,
    request_from_dicts,
    request_from_object,
    versions_for,
)
from roost.wire.request_spec import MOST_INSTANCES

LOG = structlog.get_logger(__name__)
_NAME = Matching(r"(?s:.+)", "is no name")
_STORED_NAME = Matching("[^\0\ud800-\udfff]{1,255}", "is no name", "at most 255 characters, as Unicode has them")
"""A name that is written with a claim, or looked up: what every database can hold."""
_NAMES = ListOf(_NAME, make=list, types=(Sequence,))
_UUIDS = ListOf(UUID)
_Answer = list[dict[str, Any]] | list[list[dict[str, Any]]]


class PlacementRequest(NamedTuple):
    """A request as it was understood."""

    spec: RequestSpec
    uuids: list[str] | None
    """Of its instances; None where nobody says, and so nothing can be claimed for them."""


class SchedulerManager:
    """The surface of the service; `endpoints.py` says which message versions lead here. Shared by threads."""

    def __init__(
        self,
        driver: Driver,
        picture: HostManager,
        announcements: RequestNotifications,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self.driver, self.picture = driver, picture
        self._announcements, self._metrics, self._clock = announcements, metrics, clock
        self.take_up(driver.surroundings.settings)

    def take_up(self, settings: Settings) -> None:
        """Go by these options from now on."""
        self._service = settings.fill(ServiceOptions)
        self._most_alternates = settings.fill(SchedulerOptions).max_attempts - 1
        location = self._service.scheduler_json_config_location
        self._options_file = JsonOptionsFile(location, self._clock) if location else None

    # --- choosing hosts ----------------------------------------------------------------------------------

    def select_destinations(
        self,
        context: RequestContext,
        request_spec: Any = None,
        filter_properties: Any = None,
        spec_obj: Any = None,
        instance_uuids: Any = None,
        return_objects: bool = False,
        return_alternates: bool = False,
    ) -> _Answer:
        """Hosts for the instances of a request, in the form that the caller's version of the message has."""
        with bound(request_id=context.request_id), told_as_nova_does(self.driver.why_nowhere):
            asked = self.understand(request_spec, filter_properties, spec_obj, instance_uuids)
            form, wants_alternates = versions_for(spec_obj), bool(return_objects and return_alternates)
            placement = self.place(context, asked, self._most_alternates if wants_alternates else 0)
            if return_objects:
                return as_objects(placement, asked.spec, self._service.default_availability_zone, form)
            return as_dicts(placement, self.driver.names_nodes, form)

    def select_hosts(self, context: RequestContext, request_spec: Any, filter_properties: Any) -> list[str]:
        """The names alone."""
        return [each["host"] for each in self.select_destinations(context, request_spec, filter_properties)]  # type: ignore[call-overload]

    def place(
        self, context: RequestContext, asked: PlacementRequest, alternates: int = 0, is_announced: bool = True
    ) -> Placement:
        """Have the driver choose, and tell everybody who wants to know: notifications, metrics, log."""
        started = self._clock.monotonic()
        is_announced = is_announced and self.driver.notifies
        if is_announced:
            self._announcements.started(context, asked.spec)
        try:
            placement = self.driver.select_destinations(asked.spec, asked.uuids, alternates)
        except NoValidHost as error:
            self._note(context, asked, error.decision, self._clock.monotonic() - started, error.rounds)
            raise
        except Exception as error:
            self._note_failure(asked, error, self._clock.monotonic() - started)
            raise
        self._note(context, asked, placement.decision, self._clock.monotonic() - started, placement.rounds)
        context.when_answered(lambda: self.driver.get_ready(placement))
        if is_announced:
            self._announcements.ended(context, asked.spec)
        return placement

    def _note_failure(self, asked: PlacementRequest, error: Exception, seconds: float) -> None:
        """A wrong request is nothing for those who look after the scheduler, or anybody could call them."""
        if isinstance(error, BadInput) and not isinstance(error, (HostFault, OptionError, PluginNotFound)):
            LOG.info("not decided: the request is wrong", why=str(error), **_whose(asked))
            return
        self._metrics.failed(seconds)
        LOG.error("not decided", error=str(error), **_whose(asked))

    def _note(
        self, context: RequestContext, asked: PlacementRequest, decision: Decision, seconds: float, rounds: int
    ) -> None:
        """In metrics and log, once the caller has its answer: together they take as long as the choice."""

        def note() -> None:
            self._metrics.decided(decision, seconds, rounds=rounds)
            event, word = ("decided", "what") if decision.failed_at is None else ("no valid host", "why")
            with bound(request_id=context.request_id):
                LOG.info(event, **{word: decision.summary}, **_whose(asked), **decision_facts(decision))

        context.when_answered(note)

    def understand(
        self,
        request_spec: Any = None,
        filter_properties: Any = None,
        spec_obj: Any = None,
        instance_uuids: Any = None,
    ) -> PlacementRequest:
        """The request, in whichever form it came."""
        if spec_obj is not None:
            spec = request_from_object(spec_obj)
        elif request_spec is not None:
            spec = request_from_dicts(request_spec, filter_properties or {})
        else:
            raise FieldError("spec_obj", "is missing", "send spec_obj, or request_spec and filter_properties")
        uuids = _uuids_of(spec, request_spec, instance_uuids)
        _check_names(spec)
        if (len(uuids) if uuids is not None else spec.num_instances) > MOST_INSTANCES:
            raise FieldError("num_instances", f"more than {MOST_INSTANCES} at once", "ask in several requests")
        if self._options_file is not None:
            spec = spec.changed(config_options=self._options_file.values())
        return PlacementRequest(spec, uuids)

    # --- what agents and the API tell --------------------------------------------------------------------

    def update_aggregates(self, context: RequestContext, aggregates: Any) -> None:
        """One aggregate, or several, are now as said."""
        self.picture.update_aggregates(aggregates_from_object(aggregates))

    def delete_aggregate(self, context: RequestContext, aggregate: Any) -> None:
        """An aggregate is gone."""
        for each in aggregates_from_object(aggregate):
            self.picture.delete_aggregate(each)

    def update_instance_info(self, context: RequestContext, host_name: Any, instance_info: Any) -> None:
        """These instances are on that host, besides others."""
        self.picture.update_instance_info(_NAME.strict(host_name, "host_name"), instances_from_object(instance_info))

    def delete_instance_info(self, context: RequestContext, host_name: Any, instance_uuid: Any) -> None:
        """An instance has left that host, and holds nothing there any more: nova's agents know of no ledger."""
        host, uuid = _NAME.strict(host_name, "host_name"), _NAME.strict(instance_uuid, "instance_uuid")
        self.picture.delete_instance_info(host, uuid)
        table = self.picture.table
        nodes = [table.uuids[row] for row in table.rows_of_host(host) if row in table.uuids]
        if leave(self.driver.surroundings.ledger, uuid, nodes):
            LOG.info("instance left", instance=uuid, host=host)

    def sync_instance_info(self, context: RequestContext, host_name: Any, instance_uuids: Any) -> None:
        """These instances are on that host, and no others."""
        uuids = _distinct_uuids(instance_uuids, "instance_uuids")
        self.picture.sync_instance_info(_NAME.strict(host_name, "host_name"), uuids)

    def measured(self, name: str, method: Method) -> Method:
        """The same method; how it went is counted."""

        @functools.wraps(method)
        def measuring(context: RequestContext, **arguments: Any) -> Any:
            started, result = self._clock.monotonic(), "error"
            try:
                answer = method(context, **arguments)
                result = "ok"
                return answer
            except Exception as error:
                result = "expected_error" if is_answer(error) else "error"
                raise
            finally:
                seconds = self._clock.monotonic() - started
                context.when_answered(lambda: self._metrics.rpc_handled(name, result, seconds))

        return measuring


def _uuids_of(spec: RequestSpec, request_spec: Any, instance_uuids: Any) -> list[str] | None:
    """Of the message, or of the dict of older releases, or the one of a request for one instance."""
    given = instance_uuids
    if given is None and isinstance(request_spec, Mapping):
        given = request_spec.get("instance_uuids")
    if given is not None:
        # Claims of several requests share a transaction: what the database would refuse must not get that far.
        return list(_UUIDS.strict(_distinct_uuids(given, "instance_uuids"), "instance_uuids"))
    if spec.instance_uuid and spec.num_instances == 1:
        return [UUID.strict(spec.instance_uuid, "instance_uuid")]
    return None


def _distinct_uuids(value: Any, field: str) -> list[str]:
    """Texts, no two of which are the same uuid in another spelling."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise FieldError(field, "is no list of uuids")
    found: list[str] = _NAMES.strict(value, field)
    if len({each.lower().replace("-", "") for each in found}) < len(found):
        raise FieldError(field, "names an instance twice")
    return found


def _check_names(spec: RequestSpec) -> None:
    """FieldError for the first name that a database cannot hold."""
    names = {"project_id": spec.project_id, "user_id": spec.user_id}
    if group := spec.instance_group:
        names |= {"instance_group.uuid": group.uuid, "instance_group.name": group.name}
    if spec.requested_destination:
        names["requested_destination.cell"] = spec.requested_destination.cell
    for field, value in names.items():
        if value:
            _STORED_NAME.strict(value, field)


def _whose(asked: PlacementRequest) -> dict[str, Any]:
    """What tells one request from another, in the log."""
    first = asked.uuids[0] if asked.uuids else asked.spec.instance_uuid
    return {"project_id": asked.spec.project_id, "instance": first, "flavor": asked.spec.flavor.name}
