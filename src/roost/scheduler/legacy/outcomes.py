# SPDX-License-Identifier: Apache-2.0
"""What becomes of an instance, and who is told: its record, a notification, the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog
from sqlalchemy import Engine

from roost.clock import Clock
from roost.errors import ClaimRejected, DatabaseError, NoValidHost
from roost.inventory import save_server_state
from roost.rpc import Notifier, RequestContext
from roost.scheduler.drivers import Driver
from roost.scheduler.legacy.instance_records import without_secrets
from roost.scheduler.legacy.retry_data import MaxRetriesExceeded
from roost.scheduler.replies import NO_VALID_HOST, no_host_reason

LOG = structlog.get_logger(__name__)

ACTIVE, ERROR = "active", "error"
"""States of instances."""
NO_HOST = (NoValidHost, MaxRetriesExceeded, ClaimRejected)
"""Errors that say no more than that there is no host: an answer, and nobody's fault."""


class Outcomes:
    """Tells what became of instances. May be shared by threads."""

    def __init__(self, engine: Engine, notifier: Notifier | None, clock: Clock) -> None:
        self._engine, self._clock = engine, clock
        self._notifier = notifier if notifier and notifier.is_enabled else None

    def tell(self, context: RequestContext, event: str, request_spec: Any, **more: Any) -> None:
        """Something happened to a request."""
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
        """An instance does not get what was asked for it; from now on nobody is at work on it."""
        LOG.warning("instance failed", method=method, instance=uuid, vm_state=vm_state, reason=reason)
        try:
            save_server_state(self._engine, uuid, vm_state, None, self._clock.now(), only_from_task=only_from_task)
        except DatabaseError as error:  # the trouble it is in may be just that; others shall hear of it all the same
            LOG.error("state not saved", instance=uuid, error=str(error))
        if self._notifier:
            payload = {
                "request_spec": request_spec,
                "instance_properties": request_spec.get("instance_properties") or {},
                "instance_id": uuid,
                "state": vm_state,
                "method": method,
                "reason": reason,
            }
            self._notifier.error(context, f"scheduler.{method}", without_secrets(payload))


def reason_of(error: Exception, driver: Driver) -> str:
    """What went wrong, in the words that nova's callers know where there is no host."""
    if isinstance(error, (NoValidHost, ClaimRejected)):
        return f"{NO_VALID_HOST} {no_host_reason(error, driver.why_nowhere)}"
    if isinstance(error, MaxRetriesExceeded):
        return f"{NO_VALID_HOST} {error.message}"
    return str(error)
