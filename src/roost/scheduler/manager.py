# SPDX-License-Identifier: Apache-2.0
"""What a scheduler can be asked, in every form that some release of nova uses.

Start reading at `SchedulerManager.select_destinations`: parse the request, choose and claim hosts, make the reply.
`VERSIONS` has the RPC methods by version of the message: 2.9 and 3.0 are Icehouse and Juno, 4.x is everything since.
A server takes messages of its majors up to these minors.

`JsonOptionsFile` is the file of options that nova before Ocata handed to its filters, as `config_options` of a
request (`scheduler_json_config_location`). A file that is no JSON object counts as empty; an error is logged.
"""

from __future__ import annotations

import functools
import json
import logging
import random
import stat
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import structlog

from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import BadInput, FieldError, HostFault, NoValidHost, OptionError, PluginNotFound
from roost.messages.context import RequestContext
from roost.messages.dispatcher import nova_failure
from roost.messages.interface import Method
from roost.messages.objects.aggregates_instances import aggregates_from_object, instances_from_object
from roost.messages.objects.request import MOST_INSTANCES, request_from_object
from roost.messages.objects.selections import versions_for
from roost.messages.objects.to_objects import request_from_dicts
from roost.model import Decision, RequestSpec
from roost.model.fields import ListOf
from roost.model.kinds import Matching
from roost.model.resources import move_of
from roost.model.uuids import LONGEST_UUID, UUID, canonical_uuid
from roost.options.settings import Settings
from roost.records.recorder import DecisionRecorder, SeenState
from roost.scheduler.claiming import ClaimLoop, Placement
from roost.scheduler.cloud import (
    GIVEN_UP,
    NO_VALID_HOST,
    WANTS_SUMMARY,
    RequestNotifications,
    as_dicts,
    as_nova_errors,
    as_objects,
    decision_facts,
    is_answer,
)
from roost.scheduler.drivers import Driver
from roost.scheduler.options import SchedulerOptions, ServiceOptions
from roost.scheduler.replica import HostManager
from roost.scheduler.rounds import Granter
from roost.services.logs import bound
from roost.services.metrics import Metrics
from roost.services.rpc_service import measured
from roost.sources.snapshot import deciding_options

LOG = structlog.get_logger(__name__)
_Answer = list[dict[str, Any]] | list[list[dict[str, Any]]]


class ParsedRequest(NamedTuple):
    """A request as it was understood."""

    spec: RequestSpec
    uuids: list[str] | None
    """Uuids of its instances; None where the caller names none, so that nothing can be claimed for them."""


class Outcome(NamedTuple):
    """A decision, after how many rounds, and what it was made from."""

    decision: Decision
    rounds: int
    seen: SeenState | None


class _ManagerOptions(NamedTuple):
    """The options of a manager, and what follows from them."""

    settings: Settings
    service: ServiceOptions
    most_alternates: int
    json_options: JsonOptionsFile | None

    @classmethod
    def of(cls, settings: Settings, clock: Clock) -> _ManagerOptions:
        """The options in these settings; OptionError where one is wrong."""
        service, most_attempts = settings.fill(ServiceOptions), settings.fill(SchedulerOptions).max_attempts
        location = service.scheduler_json_config_location
        return cls(settings, service, most_attempts - 1, JsonOptionsFile(location, clock) if location else None)


class SchedulerManager:
    """Answers the methods of the service; `make_endpoints` maps message versions to them. Shared by threads.

    It owns the replica of the fleet, the granter, and the claim loop between them; the driver only chooses hosts.
    """

    def __init__(
        self,
        driver: Driver,
        replica: HostManager,
        granter: Granter,
        notifications: RequestNotifications,
        metrics: Metrics,
        clock: Clock,
        randomness: random.Random,
        recorder: DecisionRecorder | None = None,
    ) -> None:
        """`recorder`: keeps the decisions; None: they are counted and logged only."""
        self._recorder = recorder
        self.driver, self.replica, self._granter = driver, replica, granter
        self._notifications, self._metrics, self._clock = notifications, metrics, clock
        self.claims = ClaimLoop(
            replica,
            driver.chooser(),
            granter,
            preparation=driver.preparation(),
            longest_age_seconds=driver.longest_age_seconds,
            refreshes_before_refusal=driver.refreshes_before_refusal,
            randomness=randomness,
            clock=clock.monotonic,
            sleep=clock.sleep,
            on_refusal=metrics.claim_refused,
            observe=recorder.observe if recorder else None,
        )
        self._use(_ManagerOptions.of(driver.settings, clock))

    def reload(self, settings: Settings) -> None:
        """Go by these options from now on; RoostError, and no change, where they are wrong."""
        options = _ManagerOptions.of(settings, self._clock)
        driver, before = self.driver, self.settings
        driver.reload(settings)
        try:
            chooser, preparation, longest_age = driver.chooser(), driver.preparation(), driver.longest_age_seconds
        except BaseException:
            driver.reload(before)
            raise
        with self.replica.lock:  # each decision is recorded with the options that it was made by
            self.claims.chooser, self.claims.preparation = chooser, preparation
            if self._recorder is not None:
                with best_effort("decision_record"):
                    self._recorder.begin(deciding_options(settings))
        self.claims.longest_age_seconds = longest_age
        self._use(options)

    def _use(self, options: _ManagerOptions) -> None:
        self.settings, self._service, self._most_alternates, self._json_options = options

    def run_periodic_tasks(self) -> None:
        """Those of the driver, and a refresh of the replica where the driver wants one."""
        if self.driver.refreshes_periodically:
            self.claims.refresh()
        self.driver.run_periodic_tasks()

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
        with_summary = context.values.get(WANTS_SUMMARY) is True
        with as_nova_errors(self.driver.why_nowhere, with_summary):
            spec, uuids = self.parse_request(request_spec, filter_properties, spec_obj, instance_uuids)
            self._refuse_abandoned(context, spec, uuids)
            versions, wants_alternates = versions_for(spec_obj), bool(return_objects and return_alternates)
            placement = self.place(context, spec, uuids, self._most_alternates if wants_alternates else 0)
            answer: _Answer = (
                as_objects(placement, spec, self._service.default_availability_zone, versions)
                if return_objects
                else as_dicts(placement, self.driver.names_nodes, versions)
            )
            context.when_answered(functools.partial(self._granter.note_answered, uuids or ()))
            return answer

    def plan_destinations(
        self, context: RequestContext, spec_obj: Any, instance_uuids: Any = None
    ) -> dict[str, str | _Answer]:
        """A dry run of `select_destinations`, for Roost's conductor: Selection objects and a summary of the decision.

        Nothing is claimed, announced or counted as a decision; a failure has the summary, too.
        """
        with as_nova_errors(self.driver.why_nowhere, with_summary=True):
            spec, uuids = self.parse_request(spec_obj=spec_obj, instance_uuids=instance_uuids)
            asked = spec.changed(caller=context.caller())
            placement = self.claims.select(asked, uuids, self._most_alternates, is_dry_run=True)
            LOG.info("planned", what=placement.decision.summary, **_identity(spec, uuids))
            zone = self._service.default_availability_zone
            found = as_objects(placement, spec, zone, versions_for(spec_obj))
            return {"selections": found, "summary": placement.decision.summary}

    def _refuse_abandoned(self, context: RequestContext, spec: RequestSpec, uuids: Sequence[str] | None) -> None:
        """Refuse a request whose caller waits no longer: what is claimed for it would be held by no instance."""
        if context.is_abandoned(self._clock.now()):
            timeout = context.patience.timeout_seconds
            LOG.warning("not decided: the caller has given up", timeout_seconds=timeout, **_identity(spec, uuids))
            raise nova_failure("NoValidHost", f"{NO_VALID_HOST} {GIVEN_UP}", reason=GIVEN_UP)

    def select_hosts(self, context: RequestContext, request_spec: Any, filter_properties: Any) -> list[str]:
        """Names of the hosts for the instances of a request."""
        return [each["host"] for each in self.select_destinations(context, request_spec, filter_properties)]  # type: ignore[call-overload]

    def place(
        self,
        context: RequestContext,
        spec: RequestSpec,
        uuids: list[str] | None,
        alternates: int = 0,
        is_announced: bool = True,
    ) -> Placement:
        """Choose and claim hosts; notifications, metrics and log say so. Arguments as of `ParsedRequest`."""
        started, identity = self._clock.monotonic(), _identity(spec, uuids)
        spec = spec.changed(caller=context.caller())
        is_announced = is_announced and self.driver.notifies
        if is_announced:
            self._notifications.started(context, spec)
        try:
            placement = self.claims.select(spec, uuids, alternates)
        except NoValidHost as error:
            outcome = Outcome(error.decision, error.rounds, error.seen)
            self._note(context, identity, outcome, uuids, self._clock.monotonic() - started)
            raise
        except Exception as error:
            self._note_failure(identity, error, self._clock.monotonic() - started)
            raise
        outcome = Outcome(placement.decision, placement.rounds, placement.seen)
        self._note(context, identity, outcome, uuids, self._clock.monotonic() - started)
        context.when_answered(lambda: self.claims.warm(placement))
        if is_announced:
            self._notifications.ended(context, spec)
        return placement

    @best_effort("log")
    def _note_failure(self, identity: Mapping[str, Any], error: Exception, seconds: float) -> None:
        """Count and log a failure; a wrong request is the caller's mistake, and no failure of the scheduler."""
        if isinstance(error, BadInput) and not isinstance(error, (HostFault, OptionError, PluginNotFound)):
            LOG.info("not decided: the request is wrong", why=str(error), **identity)
            return
        self._metrics.failed(seconds)
        LOG.error("not decided", error=str(error), **identity)

    def _note(
        self,
        context: RequestContext,
        identity: Mapping[str, Any],
        outcome: Outcome,
        uuids: Sequence[str] | None,
        seconds: float,
    ) -> None:
        """Count, log and record a decision, once the caller has its answer: each takes as long as the choice."""
        decision, rounds, seen = outcome

        def note() -> None:
            self._metrics.decided(decision, seconds, rounds=rounds)
            event, word = ("decided", "what") if decision.failed_at is None else ("no valid host", "why")
            with best_effort("log"), bound(request_id=context.request_id):
                LOG.info(event, **{word: decision.summary}, **identity, **decision_facts(decision))
            if self._recorder is not None:
                self._recorder.record(seen, decision, uuids or (), context.request_id, rounds)

        context.when_answered(note)

    def parse_request(
        self,
        request_spec: Any = None,
        filter_properties: Any = None,
        spec_obj: Any = None,
        instance_uuids: Any = None,
    ) -> ParsedRequest:
        """Parse a request, in whichever form it came."""
        if spec_obj is not None:
            spec = request_from_object(spec_obj)
        elif request_spec is not None:
            spec = request_from_dicts(request_spec, filter_properties or {})
        else:
            raise FieldError("spec_obj", "is missing", "send spec_obj, or request_spec and filter_properties")
        uuids = uuids_of(spec, request_spec, instance_uuids)
        check_names(spec)
        if (len(uuids) if uuids is not None else spec.num_instances) > MOST_INSTANCES:
            raise FieldError("num_instances", f"more than {MOST_INSTANCES} at once", "ask in several requests")
        if self._json_options is not None:
            spec = spec.changed(config_options=self._json_options.values())
        return ParsedRequest(spec, uuids)

    # --- what agents and the API tell --------------------------------------------------------------------

    def update_aggregates(self, context: RequestContext, aggregates: Any) -> None:
        """Take over one aggregate, or several, as they are now."""
        self.replica.update_aggregates(aggregates_from_object(aggregates))

    def delete_aggregate(self, context: RequestContext, aggregate: Any) -> None:
        """Remove an aggregate."""
        for each in aggregates_from_object(aggregate):
            self.replica.delete_aggregate(each)

    def update_instance_info(self, context: RequestContext, host_name: Any, instance_info: Any) -> None:
        """Note instances that are on a host, besides others."""
        self.replica.update_instance_info(checked_host(host_name), instances_from_object(instance_info))

    def delete_instance_info(self, context: RequestContext, host_name: Any, instance_uuid: Any) -> None:
        """An instance has left a host: release what it holds there, for nova's agents know of no ledger.

        The server of an instance that came with a fleet file is on no host then, so that replicas drop it.
        The message may be late, or doubled: what was claimed since it was made stays, as does the target of a move.
        """
        host, uuid = checked_host(host_name), checked_uuid(instance_uuid)
        self.replica.delete_instance_info(host, uuid)
        table = self.replica.table
        nodes = [table.uuids[row] for row in table.rows_of_host(host) if row in table.uuids]
        if nodes and self._granter.release_on([uuid, move_of(uuid)], nodes, context.timestamp, host):
            LOG.info("instance left", instance=uuid, host=host)

    def sync_instance_info(self, context: RequestContext, host_name: Any, instance_uuids: Any) -> None:
        """Compare the instances on a host with those that its agent lists."""
        uuids = distinct_uuids(instance_uuids, "instance_uuids")
        self.replica.sync_instance_info(checked_host(host_name), uuids)

    def measured(self, name: str, method: Method) -> Method:
        """A method that counts calls, failures and time of this one."""
        return measured(name, method, self._clock, self._metrics, is_answer)


def _identity(spec: RequestSpec, uuids: Sequence[str] | None) -> dict[str, Any]:
    """What identifies a request in the log."""
    first = uuids[0] if uuids else spec.instance_uuid
    return {"project_id": spec.project_id, "instance": first, "flavor": spec.flavor.name}


_SINCE_KILO = ("select_destinations", "update_aggregates", "delete_aggregate")
_OF_INSTANCES = ("update_instance_info", "delete_instance_info", "sync_instance_info")
_JUNO = ("select_destinations", "run_instance", "prep_resize")
_ICEHOUSE = ("select_hosts", "live_migration", "show_host_resources", "get_backdoor_port", "create_volume")

_OWN = ("plan_destinations",)
"""Roost's own; nova's schedulers do not have it."""

NEWEST = "4.5"
VERSIONS: dict[str, tuple[str, ...]] = {
    NEWEST: _SINCE_KILO + _OF_INSTANCES + _OWN,
    "3.0": _JUNO,
    "2.9": _JUNO + _ICEHOUSE,
}
"""Newest version of each major -> its methods, the latest first."""
METHODS = frozenset(name for names in VERSIONS.values() for name in names)


@dataclass(frozen=True)
class SchedulerEndpoint:
    """The methods of one major version."""

    version: str
    methods: Mapping[str, Method]


def make_endpoints(manager: SchedulerManager, older: object | None) -> list[SchedulerEndpoint]:
    """One for each major version. `older`: has the methods of versions before 4; None: these are not served."""
    return [
        SchedulerEndpoint(version, {name: manager.measured(name, _find(name, manager, older)) for name in names})
        for version, names in VERSIONS.items()
        if older is not None or version == NEWEST
    ]


def _find(name: str, *owners: object) -> Method:
    owner = next(owner for owner in owners if hasattr(owner, name))
    method: Method = getattr(owner, name)
    return method


_NAME = Matching(r"(?s:.+)", "is no name")
_STORABLE = "[^\0\ud800-\udfff]"
"""A character that every database can hold."""
_STORED_NAME = Matching(_STORABLE + "{1,255}", "is no name", "at most 255 characters, as Unicode has them")
"""A name that is written with a claim, or looked up."""
_STORED_UUID = Matching(
    f"{_STORABLE}{{1,{LONGEST_UUID}}}", "does not fit where uuids are kept", f"at most {LONGEST_UUID} characters"
)
"""A uuid, or another text in its place, that is written with a claim, or looked up."""
_NAMES = ListOf(_NAME, make=list, types=(Sequence,))
_UUIDS = ListOf(UUID)


def uuids_of(spec: RequestSpec, request_spec: Any, instance_uuids: Any) -> list[str] | None:
    """Uuids of the instances: of the message, of the dict of older releases, or of a request for one; else None."""
    given = instance_uuids
    if given is None and isinstance(request_spec, Mapping):
        given = request_spec.get("instance_uuids")
    if given is not None:
        # Claims of several requests share a transaction: what the database would refuse must not get that far.
        return list(_UUIDS.strict(distinct_uuids(given, "instance_uuids"), "instance_uuids"))
    if spec.instance_uuid and spec.num_instances == 1:
        return [UUID.strict(spec.instance_uuid, "instance_uuid")]
    return None


def distinct_uuids(value: Any, field: str) -> list[str]:
    """Uuids in their one spelling, and other texts; no two are the same."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise FieldError(field, "is no list of uuids")
    found = [canonical_uuid(each) for each in _NAMES.strict(value, field)]
    if len(set(found)) < len(found):
        raise FieldError(field, "names an instance twice")
    return found


def checked_host(value: Any) -> str:
    """The name of a host in a message; FieldError for anything else."""
    return _NAME.strict(value, "host_name")


def checked_uuid(value: Any) -> str:
    """The uuid of an instance in its one spelling; FieldError for what a database cannot hold."""
    return _STORED_UUID.strict(canonical_uuid(value) if isinstance(value, str) else value, "instance_uuid")


def check_names(spec: RequestSpec) -> None:
    """FieldError for the first name that a database cannot hold."""
    names = {"project_id": spec.project_id, "user_id": spec.user_id}
    if group := spec.instance_group:
        names["instance_group.name"] = group.name
        if group.uuid:
            _STORED_UUID.strict(group.uuid, "instance_group.uuid")
    if spec.requested_destination:
        names["requested_destination.cell"] = spec.requested_destination.cell
    for field, value in names.items():
        if value:
            _STORED_NAME.strict(value, field)


JSON_LOG = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 300.0
MOST_BYTES = 1 << 20
MOST_LEVELS = 64
NOTHING: Mapping[str, Any] = MappingProxyType({})


class JsonOptionsFile:
    """The contents of the file, at most five minutes old. An empty path means no file."""

    def __init__(self, path: str | Path, clock: Clock) -> None:
        self._path = Path(path) if str(path) else None
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at: float | None = None
        self._modified_ns = -1
        self._values = NOTHING

    def values(self) -> Mapping[str, Any]:
        """The options; empty where there is no file, or none that can be read."""
        if self._path is None:
            return NOTHING
        with self._lock:
            now = self._clock.monotonic()
            if self._looked_at is None or now - self._looked_at >= SECONDS_BETWEEN_LOOKS:
                self._looked_at = now
                self._look(self._path)
            return self._values

    def _look(self, path: Path) -> None:
        """Read the file if it is newer than the values; a missing file leaves them as they are."""
        try:
            state = path.stat()
            if state.st_mtime_ns <= self._modified_ns:
                return
            if not stat.S_ISREG(state.st_mode):
                raise ValueError("it is no file")
            self._values = MappingProxyType(_read(path))
        except OSError as error:
            JSON_LOG.error("%s: cannot be read: %s; its options stay as they were", path, error.strerror or error)
            return
        except (ValueError, RecursionError) as error:
            JSON_LOG.error("%s: %s; it counts as empty until it is written anew", path, _reason(error))
            self._values = NOTHING
        self._modified_ns = state.st_mtime_ns


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MiB")
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError(f"it holds a {type(values).__name__}, not an object")
    if _levels(values) > MOST_LEVELS:
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
    return values


def _levels(values: dict[str, Any]) -> int:
    """The nesting depth, counted level by level without recursion."""
    level: list[Any] = [values]
    depth = 0
    while level:
        depth += 1
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [one for some in inner for one in some if isinstance(one, (dict, list))]
    return depth


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {MOST_LEVELS} levels"
    return f"it is no JSON: {error}" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else str(error)
