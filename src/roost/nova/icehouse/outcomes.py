# SPDX-License-Identifier: Apache-2.0
"""What becomes of an instance of an Icehouse or Juno request, and how often it was tried.

Outcomes are recorded in the instance's database record, a notification and the log. Instances in messages are dicts
of their fields, or objects that contain such a dict. Retry data in filter_properties are the attempts so far, the
hosts tried and the last failure, counted by the rules of Icehouse and Juno; without them a failed build is not
retried on another host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Engine

from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import ClaimRejected, DatabaseError, FieldError, NoValidHost, RoostError
from roost.messages.context import RequestContext
from roost.messages.interface import Notifier
from roost.model.fields import ListOf
from roost.model.kinds import OfType
from roost.model.uuids import UUID, canonical_uuid
from roost.options.settings import Settings
from roost.records.servers import save_server_state
from roost.scheduler.cloud import NO_VALID_HOST, no_host_reason
from roost.scheduler.drivers import Driver
from roost.scheduler.options import SchedulerOptions

DATA = "nova_object.data"
_UUIDS = ListOf(UUID)
SECRETS = frozenset({"admin_password", "admin_pass", "adminPass", "injected_files"})
"""Arguments that only the chosen host receives; see `without_secrets`."""
_FLAVOR, _IMAGE = "instance_type_", "image_"
_SIZES = ("memory_mb", "vcpus", "root_gb", "ephemeral_gb")
_OF_IMAGES = ("min_ram", "min_disk", "disk_format", "container_format")
"""Fields of an image besides its properties."""


def fields_of(record: Any, where: str) -> Mapping[str, Any]:
    """The fields of a record that is a dict or a serialised object; `where` is its path in the message."""
    data = record.get(DATA, record) if isinstance(record, Mapping) else record
    if not isinstance(data, Mapping):
        raise FieldError(where, f"{type(data).__name__} is no record", "send a mapping of its fields")
    return data


def with_fields(record: Mapping[str, Any], **values: Any) -> dict[str, Any]:
    """A copy of the record with these values, in the format that it has."""
    return {**record, DATA: {**record[DATA], **values}} if DATA in record else {**record, **values}


def uuid_of(record: Any, where: str) -> str:
    """The uuid of an instance, in its one spelling."""
    return UUID.strict(sent_uuid_of(record, where), f"{where}.uuid")


def sent_uuid_of(record: Any, where: str) -> Any:
    """The uuid of an instance as the message spells it: agents and listeners are sent that."""
    return fields_of(record, where).get("uuid")


def uuids_in(request_spec: Any, most: int) -> dict[str, str]:
    """Uuid -> its spelling in the request, of the instances that it lists, or the one of its instance_properties.

    FieldError where there are more than `most`.
    """
    listed = fields_of(request_spec, "request_spec").get("instance_uuids")
    if listed is None:
        where = "request_spec.instance_properties"
        instance = request_spec.get("instance_properties")
        return {uuid_of(instance, where): sent_uuid_of(instance, where)}
    if not isinstance(listed, list | tuple):
        raise FieldError("request_spec.instance_uuids", "is no list of uuids")
    if len(listed) > most:
        raise FieldError("request_spec.instance_uuids", f"more than {most} at once", "ask in several requests")
    return dict(zip(_UUIDS.strict(listed, "request_spec.instance_uuids"), listed, strict=True))


def without_secrets(value: Any) -> Any:
    """A copy without passwords and injected files at any depth, for notifications."""
    if isinstance(value, Mapping):
        return {name: without_secrets(each) for name, each in value.items() if name not in SECRETS}
    return [without_secrets(each) for each in value] if isinstance(value, list | tuple) else value


def request_for(instance: Any) -> dict[str, Any]:
    """A request_spec that would place a running instance, built from the fields of the instance."""
    fields = fields_of(instance, "instance")
    noted = _system_metadata(fields)
    flavor = {name: fields[name] for name in _SIZES if fields.get(name) is not None}
    flavor |= {name: _number(value) for name, value in _under(noted, _FLAVOR).items() if value is not None}
    return {
        "image": _image(fields, noted),
        "instance_properties": dict(fields),
        "instance_type": flavor,
        "instance_uuids": [sent_uuid_of(instance, "instance")],
        "num_instances": 1,
    }


def _image(fields: Mapping[str, Any], noted: Mapping[str, Any]) -> dict[str, Any]:
    """The image recorded in system metadata; empty for an instance that boots from a volume."""
    if not fields.get("image_ref"):
        return {}
    known = _under(noted, _IMAGE)
    own = {name: _number(known.pop(name)) for name in _OF_IMAGES if known.get(name) is not None}
    known.pop("base_image_ref", None)
    return {"id": fields["image_ref"], **own, "properties": known}


def _system_metadata(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name -> value, from the list or the dict that releases send."""
    found = fields.get("system_metadata") or {}
    if isinstance(found, list):
        return {row["key"]: row.get("value") for row in found if isinstance(row, Mapping) and "key" in row}
    return found if isinstance(found, Mapping) else {}


def _under(noted: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in noted.items() if name.startswith(prefix)}


def _number(value: Any) -> Any:
    """The number that a decimal text stands for: system metadata is text."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value


_MAPPING = OfType((Mapping,), "is no mapping")
_WHOLE_NUMBER = OfType((int,), "is no whole number")

Properties = Mapping[str, Any]


class MaxRetriesExceeded(RoostError):
    """An instance was tried on max_attempts hosts."""

    code = "roost.max_retries_exceeded"


class Failure(NamedTuple):
    """The failure on the host that was tried last."""

    host: str
    node: str
    reason: str


def populate_retry(
    properties: Properties, max_attempts: int, instance_uuid: str, *, stays_with_any_force: bool = False
) -> dict[str, Any]:
    """The properties with the attempt counter incremented; MaxRetriesExceeded beyond max_attempts.

    With max_attempts = 1, or a forced host, there is no retry, and the properties are returned unchanged.
    `stays_with_any_force`: several forced hosts count as forced, too, as before Liberty.
    """
    if max_attempts == 1 or _is_forced(properties, stays_with_any_force):
        return dict(properties)
    retry = _retry_of(properties)
    attempts = _attempts_of(retry) + 1
    if attempts > max_attempts:
        reason = retry.get("exc_reason")
        raise MaxRetriesExceeded(
            f"Exceeded max scheduling attempts {max_attempts} for instance {instance_uuid}. Last exception: {reason}"
        )
    # The failure has been logged (`last_failure`); the next host does not need it.
    kept = {name: value for name, value in retry.items() if name not in ("exc", "exc_reason")}
    return {**properties, "retry": {**kept, "num_attempts": attempts, "hosts": list(retry.get("hosts") or ())}}


def populate_filter_properties(
    properties: Properties,
    host: str,
    node: str | None,
    limits: Mapping[str, Any] | None,
    *,
    stays_with_any_force: bool = False,
) -> dict[str, Any]:
    """The properties that are sent to the chosen host: with it in the list of tried hosts, and its limits."""
    changed = dict(properties)
    retry = properties.get("retry")
    if retry and not (stays_with_any_force and _is_forced(properties, by_any=True)):
        changed["retry"] = {**retry, "hosts": [*(retry.get("hosts") or ()), [host, node]]}
    if not properties.get("force_hosts"):
        changed["limits"] = dict(limits or {})
    return changed


def with_no_host_tried(properties: Properties) -> dict[str, Any]:
    """The properties for another instance of the request, with an empty list of tried hosts."""
    retry = properties.get("retry")
    return {**properties, "retry": {**retry, "hosts": []}} if retry else dict(properties)


def tried_hosts(properties: Properties) -> list[tuple[str, str]]:
    """(host, node) pairs that were tried; an empty node where the message names none."""
    pairs = _retry_of(properties).get("hosts") or ()
    return [(str(pair[0]), str(pair[1] or "")) for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]


def last_failure(properties: Properties) -> Failure | None:
    """The last failure; None where the properties have none."""
    reason, hosts = _retry_of(properties).get("exc_reason"), tried_hosts(properties)
    if not (_retry_of(properties).get("exc") or reason):
        return None
    return Failure(*(hosts[-1] if hosts else ("", "")), str(reason or ""))


def _retry_of(properties: Properties) -> Mapping[str, Any]:
    retry: Mapping[str, Any] = _MAPPING.strict(properties.get("retry") or {}, "filter_properties.retry")
    return retry


def _attempts_of(retry: Mapping[str, Any]) -> int:
    return int(_WHOLE_NUMBER.strict(retry.get("num_attempts", 0), "filter_properties.retry.num_attempts"))


def _is_forced(properties: Properties, by_any: bool) -> bool:
    forced = (properties.get("force_hosts") or (), properties.get("force_nodes") or ())
    return any(each if by_any else len(each) == 1 for each in forced)


LOG = structlog.get_logger(__name__)


def count_attempt(properties: Mapping[str, Any], settings: Settings, uuid: str) -> dict[str, Any]:
    """The filter_properties with the attempt counter incremented; MaxRetriesExceeded beyond max_attempts."""
    if failure := last_failure(properties):
        LOG.warning("tried before", instance=uuid, host=failure.host, node=failure.node, reason=failure.reason)
    most = settings.fill(SchedulerOptions).max_attempts
    return populate_retry(properties, most, uuid, stays_with_any_force=True)


def properties_for(properties: Mapping[str, Any], chosen: Mapping[str, Any], index: int = 0) -> dict[str, Any]:
    """The filter_properties for the chosen host of the instance with this number (from 0).

    Hosts that were tried before concern the first instance only: a retry is for one instance.
    """
    own = with_no_host_tried(properties) if index else properties
    host, node, limits = chosen["host"], chosen["nodename"], chosen["limits"]
    return populate_filter_properties(own, host, node, limits, stays_with_any_force=True)


ACTIVE, ERROR = "active", "error"
"""vm_state of instances."""
NO_HOST = (NoValidHost, MaxRetriesExceeded, ClaimRejected)
"""Errors that mean "no host": expected, and no failure of the scheduler."""


class Outcomes:
    """Records outcomes. May be shared by threads."""

    def __init__(self, engine: Engine, notifier: Notifier | None, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._notifier = notifier if notifier and notifier.is_enabled else None

    @best_effort("notifications")
    def notify(self, context: RequestContext, event: str, request_spec: Any, **more: Any) -> None:
        """Send a notification about a request."""
        if self._notifier:
            payload = without_secrets({"request_spec": request_spec, **more})
            self._notifier.info(context, f"scheduler.{event}", payload)

    def failed(
        self,
        context: RequestContext,
        method: str,
        uuid: str,
        reason: str,
        request_spec: Mapping[str, Any],
        *,
        vm_state: str = ERROR,
        only_from_task: str | None = None,
    ) -> None:
        """Record a failure: set vm_state, clear task_state, send an error notification with the uuid as given."""
        LOG.warning("instance failed", method=method, instance=uuid, vm_state=vm_state, reason=reason)
        try:
            save_server_state(
                self._engine, canonical_uuid(uuid), vm_state, None, self._clock.now(), only_from_task=only_from_task
            )
        except DatabaseError as error:  # it may be the cause of the failure; the notification is sent anyway
            LOG.error("state not saved", instance=uuid, error=str(error))
        self._notify_failure(
            context, method, {"instance_id": uuid, "state": vm_state, "reason": reason}, request_spec
        )

    @best_effort("notifications")
    def _notify_failure(
        self, context: RequestContext, method: str, outcome: Mapping[str, str], request_spec: Mapping[str, Any]
    ) -> None:
        if self._notifier:
            payload = {
                "request_spec": request_spec,
                "instance_properties": request_spec.get("instance_properties") or {},
                **outcome,
                "method": method,
            }
            self._notifier.error(context, f"scheduler.{method}", without_secrets(payload))


def reason_of(error: Exception, driver: Driver) -> str:
    """The reason of a failure; where there is no host, in nova's words."""
    if isinstance(error, (NoValidHost, ClaimRejected)):
        return f"{NO_VALID_HOST} {no_host_reason(error, driver.why_nowhere)}"
    if isinstance(error, MaxRetriesExceeded):
        return f"{NO_VALID_HOST} {error.message}"
    return str(error)
