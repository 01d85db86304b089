# SPDX-License-Identifier: Apache-2.0
"""Answers requests in shadow mode: hosts are chosen as ever, given back at once, and what was chosen is noted."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from roost.clock import Clock
from roost.errors import BadInput, NoValidHost
from roost.hosts import HostTable
from roost.messages.context import RequestContext
from roost.messages.interface import Notification
from roost.messages.objects.notifications import request_from_payload
from roost.messages.objects.request import request_from_object
from roost.model import Decision, RequestSpec
from roost.options.settings import Settings
from roost.scheduler.claiming import Placement
from roost.scheduler.cloud import Cloud
from roost.scheduler.drivers import Driver
from roost.scheduler.manager import SchedulerManager
from roost.scheduler.replies import RequestNotifications
from roost.scheduler.shadow.comparison import record_of_topic
from roost.scheduler.shadow.dry_granter import DryGranter
from roost.scheduler.shadow.journal import Journal
from roost.scheduler.shadow.trial import RecordingChooser, Trial
from roost.services.metrics import Metrics

MOST_TRIES = 3
"""How often a request is decided where the chosen nodes turn out to have changed."""


class _Tried(NamedTuple):
    """A decision, as the record of shadow mode and as the answer to a caller."""

    trial: Trial
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

    def decide_notified(self, notification: Notification, payload: Mapping[str, Any], is_complete: bool) -> Trial:
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
        trial = Trial(
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
