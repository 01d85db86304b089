# SPDX-License-Identifier: Apache-2.0
"""Records what became of an instance: in its database record, a notification and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy import Engine

from roost.best_effort import best_effort
from roost.clock import Clock
from roost.errors import ClaimRejected, DatabaseError, NoValidHost
from roost.messages.context import RequestContext
from roost.messages.interface import Notifier
from roost.model.uuids import canonical_uuid
from roost.records.servers import save_server_state
from roost.scheduler.drivers import Driver
from roost.scheduler.legacy.instance_records import without_secrets
from roost.scheduler.legacy.retry_data import MaxRetriesExceeded
from roost.scheduler.replies import NO_VALID_HOST, no_host_reason

LOG = structlog.get_logger(__name__)

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
