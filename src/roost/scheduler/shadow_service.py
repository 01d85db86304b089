# SPDX-License-Identifier: Apache-2.0
"""The scheduler process in shadow mode: it hears the live scheduler's notifications, and serves a topic of its own.

It never listens on the live scheduler's topic, where it would take requests away. So what computes and API tell
schedulers there does not reach it; the databases say the same a moment later.
"""

from __future__ import annotations

import random
from typing import Any

import structlog

from roost.messages.interface import RpcServer
from roost.messages.oslo import RpcOptions
from roost.scheduler.cloud import BackgroundTask
from roost.scheduler.cloud_options import ShadowOptions
from roost.scheduler.manager import NEWEST, SchedulerEndpoint
from roost.scheduler.process import SchedulerService
from roost.scheduler.replies import RequestNotifications
from roost.scheduler.shadow.journal import Journal
from roost.scheduler.shadow.live_requests import EVENT_TYPES, LiveRequests
from roost.scheduler.shadow_manager import ShadowManager

LOG = structlog.get_logger(__name__)
SETTLE_SECONDS = 1.0
"""How often it is looked where instances went."""


class ShadowService(SchedulerService):
    """A scheduler that decides beside the live one, and claims nothing."""

    manager: ShadowManager

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Arguments as of `SchedulerService`."""
        super().__init__(*args, **kwargs)
        options = self._options
        self._live = LiveRequests(
            self.manager.decide_notified,
            self.manager.find_hosts,
            self._journal.note,
            self._clock,
            options.shadow_outcome_timeout,
        )
        self._listener: RpcServer | None = None

    def make_notifications(self) -> RequestNotifications:
        """None: its own would be taken for those of the live scheduler."""
        return RequestNotifications()

    def make_manager(self, randomness: random.Random) -> ShadowManager:
        """One that claims nothing."""
        self._options = options = self.settings.fill(ShadowOptions)
        options.check_topic(self.settings.fill(RpcOptions).scheduler_topic)
        self._journal = Journal(options.shadow_report, self._metrics)
        return ShadowManager(self.driver, self._cloud, self._journal, self._metrics, self._clock, randomness)

    def make_server(self) -> RpcServer:
        """A server on the shadow topic, for requests only."""
        methods = {
            "select_destinations": self.manager.measured("select_destinations", self.manager.select_destinations)
        }
        endpoints = [SchedulerEndpoint(NEWEST, methods)]
        topic, host = self._options.shadow_topic, self._service.service_host
        return self._transport.serve(topic, host, endpoints, self._metrics.rpc_refused)

    def background_tasks(self) -> list[BackgroundTask]:
        """Those that write nothing, and the search for the hosts that the live scheduler chose."""
        tasks = [each for each in super().background_tasks() if not each.is_writing]
        return [*tasks, BackgroundTask("look where instances went", self._live.settle, lambda: SETTLE_SECONDS)]

    def start(self) -> None:
        """Load the replica, serve the shadow topic, then listen for notifications."""
        super().start()
        topic, pool = self._options.shadow_notifications_topic, self._options.shadow_notifications_pool
        LOG.info("shadow mode: nothing is claimed", topic=self._options.shadow_topic, notifications=topic)
        self._listener = self._transport.listen(topic, EVENT_TYPES, self._live.take, pool)
        self._listener.start()

    def unready(self) -> list[str]:
        """Reasons why it hears or decides nothing now; empty when ready."""
        reasons = super().unready()
        if not reasons and (self._listener is None or not self._listener.is_connected):
            reasons.append("notifications do not reach it: the broker is away")
        return reasons

    def stop(self, is_hurried: bool) -> None:
        """Take no new messages, end what was taken, note requests whose outcome is not known."""
        if self._listener is not None and not is_hurried:
            self._listener.stop()
            self._listener.wait()
        super().stop(is_hurried)
        self._live.close()
        self._journal.close()
