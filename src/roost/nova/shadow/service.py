# SPDX-License-Identifier: Apache-2.0
"""The scheduler process in shadow mode: it hears the live scheduler's notifications, and serves a topic of its own.

Requests are answered as ever: hosts are chosen, given back at once, and what was chosen is noted. It never listens on
the live scheduler's topic, where it would take requests away. So what computes and API tell schedulers there does not
reach it; the databases say the same a moment later.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from roost.clock import Clock
from roost.errors import BadInput, NoValidHost
from roost.hosts import HostTable
from roost.messages.context import RequestContext
from roost.messages.interface import Notification, RpcServer
from roost.messages.objects.notifications import request_from_payload
from roost.messages.objects.request import request_from_object
from roost.messages.options import RpcOptions
from roost.model import Decision, RequestSpec
from roost.nova.shadow.comparison import Journal, record_of_topic
from roost.nova.shadow.live_requests import EVENT_TYPES, LiveRequests
from roost.nova.shadow.trial import DryGranter, RecordingChooser, TrialDecision
from roost.options.settings import Settings
from roost.scheduler.claiming import Placement
from roost.scheduler.cloud import BackgroundTask, Cloud, RequestNotifications
from roost.scheduler.drivers import Driver
from roost.scheduler.manager import NEWEST, SchedulerEndpoint, SchedulerManager
from roost.scheduler.options import ShadowOptions
from roost.scheduler.process import SchedulerService
from roost.services.metrics import Metrics

MOST_TRIES = 3
"""How often a request is decided where the chosen nodes turn out to have changed."""


class _Tried(NamedTuple):
    """A decision, as the record of shadow mode and as the answer to a caller."""

    trial: TrialDecision
    answer: Placement | NoValidHost


class ShadowManager(SchedulerManager):
    """A manager that makes dry runs only, over a granter that writes nothing."""

    def __init__(
        self,
        driver: Driver,
        cloud: Cloud,
        journal: Journal,
        metrics: Metrics,
        clock: Clock,
        randomness: random.Random,
    ) -> None:
        """`journal`: notes requests that come on the shadow topic."""
        granter, silent = DryGranter(cloud.granter), RequestNotifications()
        super().__init__(driver, cloud.replica, granter, silent, metrics, clock, randomness)
        self._cloud, self._journal = cloud, journal
        self._record_choices()

    def reload(self, settings: Settings) -> None:
        """Go by these options from now on; RoostError, and no change, where they are wrong."""
        super().reload(settings)
        self._record_choices()

    def _record_choices(self) -> None:
        self.claims.chooser = self._chooser = RecordingChooser(self.claims.chooser)

    def place(
        self,
        context: RequestContext,
        spec: RequestSpec,
        uuids: list[str] | None,
        alternates: int = 0,
        is_announced: bool = True,
    ) -> Placement:
        """Choose hosts for a request on the shadow topic; nothing is claimed, and nothing announced."""
        trial, answer = self._try_out(context, spec, uuids, alternates)
        context.when_answered(lambda: self._journal.note(record_of_topic(trial)))
        if isinstance(answer, NoValidHost):
            raise answer
        return answer

    def decide_notified(
        self, notification: Notification, payload: Mapping[str, Any], is_complete: bool
    ) -> TrialDecision:
        """Decide the request of a versioned payload; RoostError where it does not say enough, or cannot be decided.

        `is_complete`: whether the payload has hints, group and destination; otherwise the stored request is decided.
        Only the first of several instances is known by its uuid.
        """
        spec = request_from_payload(payload)
        uuid = spec.instance_uuid
        stored = self._cloud.read_request_spec(uuid) if uuid else None
        if stored is not None:
            spec = request_from_payload(payload, stored) if is_complete else request_from_object(stored)
        others = [f"{uuid}+{number}" for number in range(1, spec.num_instances)]
        return self._try_out(notification.context, spec, [uuid, *others] if uuid else None, is_live=True).trial

    def find_hosts(self, instances: Sequence[str]) -> dict[str, str]:
        """Instance -> host, for those of these instances that are on a host now."""
        with self.replica.lock:
            self.replica.refresh()
            found = {uuid: self.replica.table.hosts_of([uuid]) for uuid in instances}
        return {uuid: hosts[0] for uuid, hosts in found.items() if hosts}

    def _try_out(
        self,
        context: RequestContext,
        spec: RequestSpec,
        uuids: list[str] | None,
        alternates: int = 0,
        is_live: bool = False,
    ) -> _Tried:
        """Decide from a replica that was refreshed just now, and review all hosts in the same state.

        `is_live`: the live scheduler decides this request, too; BadInput where its claim may have been counted.
        """
        live_uuid = uuids[0] if is_live and uuids else None
        spec = spec.changed(caller=context.caller())
        with self.replica.lock:
            began = time.perf_counter_ns()
            self.claims.refresh()
            for _ in range(MOST_TRIES):
                started = time.perf_counter_ns()
                self._chooser.forget()
                answer = self._select(spec, uuids, alternates)
                ended = time.perf_counter_ns()
                if live_uuid:
                    self._refuse_late(live_uuid, answer)
                review = self._chooser.review(self.replica.table)
                if not self._has_changed(answer.decision) or (live_uuid and self._granter.has_allocations(live_uuid)):
                    break  # with allocations of its own, the change is the live scheduler's claim for this request
        decision = answer.decision
        self._metrics.decided(decision, (ended - started) / 1e9, rounds=answer.rounds)
        trial = TrialDecision(
            request_id=context.request_id,
            instance=spec.instance_uuid,
            instances=len(uuids) if uuids is not None else spec.num_instances,
            decided_at=self._clock.now(),
            host=_first_host(decision),
            summary=decision.summary,
            review=review,
            roost_us=(ended - started) / 1000,
            refresh_us=(started - began) / 1000,
        )
        return _Tried(trial, answer)

    def _select(self, spec: RequestSpec, uuids: list[str] | None, alternates: int) -> Placement | NoValidHost:
        try:
            return self.claims.select(spec, uuids, alternates, is_dry_run=True)
        except NoValidHost as error:
            return error

    def _refuse_late(self, uuid: str, answer: Placement | NoValidHost) -> None:
        """BadInput where the answer may count what the live scheduler claimed for this very instance."""
        hosts = self.replica.table.hosts_of([uuid])
        if hosts:
            raise BadInput(f"too late: the instance is on {hosts[0]} already")
        if isinstance(answer, NoValidHost) and self._granter.has_allocations(uuid):
            raise BadInput("too late: the live scheduler has claimed for the instance already")

    def _has_changed(self, decision: Decision) -> bool:
        """Reread the chosen nodes, as a refused claim would: whether what is allocated there is not what was seen."""
        table = self.replica.table
        before = _allocated(table, decision)
        self._granter.reread([table.uuids[each.row] for each in decision.selections if each.row in table.uuids])
        self.replica.refresh(also={(each.host, each.node) for each in decision.selections})
        return before != _allocated(self.replica.table, decision)


def _allocated(table: HostTable, decision: Decision) -> list[float]:
    """Amounts of all resource classes that are allocated on the chosen nodes."""
    columns = [column for name, column in table.numbers.items() if name.startswith("allocated:")]
    rows = [table.find_row((each.host, each.node)) for each in decision.selections]
    return [column[row] for row in rows if row is not None for column in columns]


def _first_host(decision: Decision) -> str | None:
    return decision.selections[0].host if decision.selections else None


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
