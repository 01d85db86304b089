# SPDX-License-Identifier: Apache-2.0
"""nova's notifications that a request came in and that it was answered, unversioned and versioned."""

from __future__ import annotations

from roost.best_effort import best_effort
from roost.messages.context import RequestContext
from roost.messages.interface import Notifier, Transport
from roost.messages.objects.notifications import legacy_payload, versioned_payload
from roost.model import RequestSpec
from roost.scheduler.options import ServiceOptions

STARTED = "scheduler.select_destinations.start"
ENDED = "scheduler.select_destinations.end"
UNVERSIONED_TOPIC = "notifications"


class RequestNotifications:
    """Sends the enabled notifications, and never raises; payloads are built only for these."""

    def __init__(self, unversioned: Notifier | None = None, versioned: Notifier | None = None) -> None:
        self.unversioned = unversioned if unversioned and unversioned.is_enabled else None
        self._versioned = versioned if versioned and versioned.is_enabled else None

    @classmethod
    def over(cls, transport: Transport, options: ServiceOptions) -> RequestNotifications:
        """Notifications over a transport, as `[notifications] notification_format` says."""
        host, form = options.service_host, options.notification_format
        wants_old, wants_new = form in ("unversioned", "both"), form in ("versioned", "both")
        return cls(
            transport.notifier(f"scheduler.{host}", [UNVERSIONED_TOPIC]) if wants_old else None,
            transport.notifier(f"nova-scheduler:{host}", options.versioned_notifications_topics)
            if wants_new
            else None,
        )

    @property
    def dropped(self) -> int:
        """How many notifications were dropped because the queue was full; both formats share one count."""
        return max((each.dropped for each in (self.unversioned, self._versioned) if each), default=0)

    @best_effort("notifications")
    def started(self, context: RequestContext, spec: RequestSpec) -> None:
        """Notify that hosts are about to be chosen."""
        self._send(context, STARTED, spec)

    @best_effort("notifications")
    def ended(self, context: RequestContext, spec: RequestSpec) -> None:
        """Notify that hosts were chosen; not sent where there was none."""
        self._send(context, ENDED, spec)

    def _send(self, context: RequestContext, event: str, spec: RequestSpec) -> None:
        if self.unversioned:
            self.unversioned.info(context, event, legacy_payload(spec))
        if self._versioned:
            self._versioned.info(context, event, versioned_payload(spec))
