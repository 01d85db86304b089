# SPDX-License-Identifier: Apache-2.0
"""The requests of the live scheduler, heard of by its notifications, until it is known where they went.

| notification | from | what it tells |
| --- | --- | --- |
| scheduler.select_destinations.start | the live scheduler | the request: Roost decides now |
| scheduler.select_destinations.end | the live scheduler | that it chose, and when |
| instance.create.start | nova-compute | the host that was chosen, where computes send notifications |
| compute_task.build_instances.error | nova-conductor | no host; without a start if placement has none |

Otherwise the host is read from the instance. Moves are counted, not compared.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import BadInput, RoostError
from roost.messages.interface import Notification
from roost.messages.objects.notifications import open_payload
from roost.nova.shadow.comparison import (
    NOTIFICATION,
    ShadowRecord,
    Verdict,
    as_text,
    compare_choices,
    compare_failure,
    record_of,
)
from roost.nova.shadow.trial import TrialDecision

LOG = structlog.get_logger(__name__)

START, END = "scheduler.select_destinations.start", "scheduler.select_destinations.end"
CREATED, FAILED = "instance.create.start", "compute_task.build_instances.error"
EVENT_TYPES = (START, END, CREATED, FAILED)
REQUEST = "RequestSpecPayload"
LONGEST_AGE_SECONDS = 1.0
"""A notification that is older, or as far ahead, is not decided. Whether a younger one is too late, `decide` says."""
MOST_PENDING = 1000
MOST_REMEMBERED = 10_000
"""Instances whose request has been seen: another request for one of them is a move."""
CHECK_TYPE = "_nova_check_type"
"""Hint of a request that only checks whether an instance may stay where it is."""

Decide = Callable[[Notification, Mapping[str, Any], bool], TrialDecision]
"""Decides the request of a payload, which may lack hints, group and destination (False); RoostError if it cannot."""


@dataclass
class _Pending:
    """A request that Roost decided, and for which the live scheduler's host is not known yet."""

    trial: TrialDecision
    started: datetime | None
    expires: float
    nova_us: float | None = None
    nova_host: str | None = None


class LiveRequests:
    """Takes notifications in one thread; `settle` is called in another, now and then."""

    def __init__(
        self,
        decide: Decide,
        find_hosts: Callable[[Sequence[str]], Mapping[str, str]],
        note: Callable[[ShadowRecord], None],
        clock: Clock,
        timeout_seconds: float,
    ) -> None:
        """`find_hosts`: instance -> host, for those of these instances that are on a host by now."""
        self._decide, self._find_hosts, self._note = decide, find_hosts, note
        self._clock, self._timeout = clock, timeout_seconds
        self._lock = threading.Lock()
        self._pending: OrderedDict[str, _Pending] = OrderedDict()
        self._seen: OrderedDict[str, str] = OrderedDict()
        """Instance -> id of its request if the failure of that came first, else empty."""

    @best_effort("shadow")
    def take(self, notification: Notification) -> None:
        """Handle a notification; what is not understood is logged and dropped."""
        handlers = {
            START: self._take_start,
            END: self._take_end,
            CREATED: self._take_host,
            FAILED: self._take_failure,
        }
        try:
            handlers[notification.event_type](notification)
        except BadInput as error:
            LOG.warning("a notification was dropped", event_type=notification.event_type, why=str(error))

    # --- notifications ---

    def _take_start(self, notification: Notification) -> None:
        data = open_payload(notification.payload, REQUEST, "payload")
        uuid = str(data.get("instance_uuid") or "")
        if self._seen.get(uuid) == notification.context.request_id:
            return  # its failure came first, from another queue, and has been noted
        if is_move(data) or not self._is_new(uuid):
            self._note(self._bare_record(notification, data, Verdict.MOVE))
            return
        trial = self._try(notification, notification.payload, data)
        if trial is not None:
            expires = self._clock.monotonic() + self._timeout
            with self._lock:
                self._pending[uuid] = _Pending(trial, _time_of(notification), expires)
                surplus = len(self._pending) > MOST_PENDING and self._pending.popitem(last=False)[1]
            if surplus:
                self._note(record_of(surplus.trial, Verdict.UNKNOWN, "too many requests are waiting for their host"))

    def _take_end(self, notification: Notification) -> None:
        """The live scheduler chose: of several instances, nova names the last here, and the first at the start."""
        ended = _time_of(notification)
        with self._lock:
            uuid, pending = self._find_request(notification.context.request_id)
            if pending is None or pending.nova_us is not None:
                return
            if pending.started and ended:
                pending.nova_us = (ended - pending.started).total_seconds() * 1e6
        if pending.nova_host is not None:
            self._finish(uuid, pending.nova_host)

    def _find_request(self, request_id: str) -> tuple[str, _Pending | None]:
        found = (item for item in self._pending.items() if item[1].trial.request_id == request_id)
        return next(found, ("", None))

    def _take_host(self, notification: Notification) -> None:
        """A compute builds an instance: the first that does so is the one that was chosen."""
        uuid = str(open_payload(notification.payload, "InstanceCreatePayload", "payload").get("uuid") or "")
        host = notification.publisher_id.partition(":")[2]
        with self._lock:
            pending = self._pending.get(uuid)
            if pending is None or not host:
                return
            pending.nova_host = pending.nova_host or host
            is_complete = pending.nova_us is not None
        if is_complete:  # otherwise its end is under way, unless it was lost: then `settle` finishes it
            self._finish(uuid, host)

    def _take_failure(self, notification: Notification) -> None:
        """A build failed; of several instances in a request each fails, with the same request."""
        data = open_payload(notification.payload, "ComputeTaskPayload", "payload")
        payload, why = data.get("request_spec"), _failure_of(data)
        request = open_payload(payload, REQUEST, "payload.request_spec")
        uuid = str(request.get("instance_uuid") or "")
        with self._lock:
            pending = self._pending.pop(uuid, None)
        if pending is not None and pending.nova_host is not None:
            self._note(compare_choices(pending.trial, pending.nova_host, pending.nova_us))
        elif pending is not None and pending.nova_us is not None:
            chosen = f"nova chose a host, and the build failed before it was known which: {why}"
            self._note(record_of(pending.trial, Verdict.UNKNOWN, chosen, nova_us=pending.nova_us))
        elif pending is not None:
            self._note(compare_failure(pending.trial, why))
        elif self._is_new(uuid, failed_request=notification.context.request_id):
            self._take_failure_without_start(notification, payload, request, why)

    def _take_failure_without_start(
        self, notification: Notification, payload: Any, request: Mapping[str, Any], why: str
    ) -> None:
        """Placement had no candidates. The payload says less than that of a start: not whether a host was named."""
        trial = self._try(notification, payload, request, is_complete=False)
        if trial is not None and trial.host is None:
            self._note(compare_failure(trial, why))  # with more conditions there is no host either
        elif trial is not None:
            unsaid = (
                f"not comparable: placement had no candidate, and nova does not tell whether a host was named; {why}"
            )
            self._note(record_of(trial, Verdict.UNKNOWN, unsaid))

    def _try(
        self, notification: Notification, payload: Any, data: Mapping[str, Any], is_complete: bool = True
    ) -> TrialDecision | None:
        """Roost's decision; None, and a record that says why, where there can be none."""
        made_at = _time_of(notification)
        age = (self._clock.now() - made_at).total_seconds() if made_at else 0.0
        try:
            if age < -LONGEST_AGE_SECONDS:
                raise BadInput(f"the notification is from {-age:.1f} s ahead: the clocks differ")
            if age > LONGEST_AGE_SECONDS:
                raise BadInput(f"the notification is {age:.1f} s old: shadow mode is behind, or the clocks differ")
            return self._decide(notification, payload, is_complete)
        except RoostError as error:
            self._note(self._bare_record(notification, data, Verdict.UNKNOWN, f"not comparable: {error}"))
            return None

    # --- outcomes ---

    def settle(self) -> None:
        """Find the hosts of requests that wait for them, and give up those that waited too long."""
        with self._lock:
            waiting = list(self._pending.items())
        missing = [uuid for uuid, each in waiting if each.nova_host is None]
        found = self._find_hosts(missing) if missing else {}
        now = self._clock.monotonic()
        for uuid, pending in waiting:
            host = pending.nova_host or found.get(uuid)
            if host is not None:
                self._finish(uuid, host)
            elif pending.expires <= now:
                self._give_up(uuid, f"nova's host did not become known within {self._timeout:g} s")

    def close(self) -> None:
        """Note what is still waiting as unknown."""
        with self._lock:
            waiting = tuple(self._pending)
        for uuid in waiting:
            self._give_up(uuid, "shadow mode ended before nova's host became known")

    def _finish(self, uuid: str, host: str) -> None:
        with self._lock:
            pending = self._pending.pop(uuid, None)
        if pending is not None:
            self._note(compare_choices(pending.trial, host, pending.nova_us))

    def _give_up(self, uuid: str, why: str) -> None:
        with self._lock:
            pending = self._pending.pop(uuid, None)
        if pending is not None:
            self._note(record_of(pending.trial, Verdict.UNKNOWN, why, nova_us=pending.nova_us))

    def _is_new(self, uuid: str, failed_request: str = "") -> bool:
        """Whether no request for this instance was seen before; it counts as seen from now on."""
        if uuid in self._seen:
            return False
        self._seen[uuid] = failed_request
        if len(self._seen) > MOST_REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def _bare_record(
        self, notification: Notification, data: Mapping[str, Any], verdict: Verdict, why: str = ""
    ) -> ShadowRecord:
        """The record of a request that was not decided."""
        count = data.get("num_instances")
        return ShadowRecord(
            time=as_text(self._clock.now()),
            request_id=notification.context.request_id,
            instance=str(data["instance_uuid"]) if data.get("instance_uuid") else None,
            instances=count if isinstance(count, int) else 1,
            source=NOTIFICATION,
            verdict=verdict,
            why=why,
        )


def is_move(data: Mapping[str, Any]) -> bool:
    """Whether a RequestSpecPayload with these fields is about an instance that exists already.

    nova's conductor binds such a request to the instance's cell, and a boot never to one.
    """
    destination, hints = data.get("requested_destination"), data.get("scheduler_hints")
    is_check = isinstance(hints, Mapping) and CHECK_TYPE in hints
    return is_check or (
        destination is not None and bool(open_payload(destination, "DestinationPayload", "payload").get("cell"))
    )


def _failure_of(data: Mapping[str, Any]) -> str:
    """What failed, without the traceback that nova sends along."""
    reason = open_payload(data.get("reason"), "ExceptionPayload", "payload.reason")
    name = str(reason.get("exception") or "unknown").removesuffix("_Remote")
    message = str(reason.get("exception_message") or "").strip().partition("\n")[0].strip()
    return f"{name}: {message}" if message else name


def _time_of(notification: Notification) -> datetime | None:
    try:
        made_at = datetime.fromisoformat(notification.timestamp)
    except ValueError:
        return None
    return made_at if made_at.tzinfo else made_at.replace(tzinfo=UTC)
