# SPDX-License-Identifier: Apache-2.0
"""Counts what a scheduler does, for Prometheus. Methods are named for what happened.

A registry of its own, no global one. Where a service has several worker processes, each counts for itself and writes
its numbers into a folder now and then (`Metrics.for_worker`, `publish`); their parent adds them up (`WorkerMetrics`
in observe/worker_metrics.py). Both can `render()` what Prometheus reads.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from roost.clock import Clock, SystemClock
from roost.observe import metric_definitions as measures
from roost.observe.metric_definitions import MetricDefinition
from roost.observe.metric_samples import Numbers, numbers_of, rendered
from roost.observe.worker_metrics import write_numbers

if TYPE_CHECKING:
    from roost.model.decision import Decision

MOST_PLUGINS = 200
"""Different values that the label `plugin` may take; what comes later counts as `other`."""
OTHER = "other"
CUSTOM = "custom_resources"
"""The step that asks for room in any resource class of somebody's own (CUSTOM_...): requests name them."""


class Metrics:
    """All metrics of one process. May be shared by threads."""

    def __init__(
        self, rpc_methods: Collection[str] = (), clock: Clock | None = None, folder: Path | None = None
    ) -> None:
        """`rpc_methods`: those that are served; any other name counts as `unknown`. `folder`: see `for_worker`."""
        self._clock = clock or SystemClock()
        self._folder = folder
        self._table_is_from = self._clock.monotonic()
        """When the table was last brought up to date."""
        self._registry = CollectorRegistry()
        self._set_up_decisions()
        self._set_up_table()
        self._set_up_rpc(rpc_methods)
        self._set_up_service()

    @classmethod
    def for_worker(cls, folder: Path, rpc_methods: Collection[str] = (), clock: Clock | None = None) -> Metrics:
        """For one of several processes, made in that process: `publish` writes what it counted into this folder."""
        return cls(rpc_methods, clock, folder)

    # --- what happened ----------------------------------------------------------------------------

    def decided(self, decision: Decision, seconds: float, *, claim_seconds: float = 0.0, rounds: int = 1) -> None:
        """A request was answered, with hosts or with NoValidHost.

        `seconds`: all of it. `claim_seconds`: of the last claim. `rounds`: how often it chose.
        """
        is_placed = decision.failed_at is None
        self._decisions["placed" if is_placed else "no_valid_host"].inc()
        self._decision_duration.observe(seconds)
        self._rounds.observe(rounds)
        if is_placed:
            self._instances_placed.inc(len(decision.selections))
        for stage, microseconds in decision.time_us.items():
            if microseconds and stage in self._stages:
                self._stages[stage].observe(microseconds / 1_000_000)
        if claim_seconds:
            self._stages["claim"].observe(claim_seconds)
        for step in decision.steps:
            if step.before > step.after:
                self._plugin(step.name).inc(step.before - step.after)

    def failed(self, seconds: float) -> None:
        """A request ended with an error other than NoValidHost."""
        self._decisions["error"].inc()
        self._decision_duration.observe(seconds)

    def claim_refused(self) -> None:
        """Somebody else was faster; the request goes another round."""
        self._claim_conflicts.inc()

    def table_refreshed(self, hosts: int, seconds: float, *, is_full: bool = False) -> None:
        """The table is up to date again, and has so many hosts. `is_full`: all of it was read anew."""
        self._refreshes["full" if is_full else "changes"].inc()
        self._refresh_duration.observe(seconds)
        self._table_hosts.set(hosts)
        self._table_is_from = self._clock.monotonic()

    def table_refresh_failed(self, seconds: float) -> None:
        """The table is as old as it was."""
        self._refreshes["failed"].inc()
        self._refresh_duration.observe(seconds)

    def rpc_handled(self, method: str, result: str, seconds: float) -> None:
        """A message was handled. `result`: ok, expected_error (NoValidHost and its like) or error."""
        known = method if method in self._rpc_methods else measures.UNKNOWN
        self._rpc_requests[known, result if result in measures.RPC_RESULTS else "error"].inc()
        self._rpc_duration[known].observe(seconds)

    def rpc_refused(self) -> None:
        """A message came that asks for nothing there is, or not as it has to be asked for."""
        self.rpc_handled(measures.UNKNOWN, "error", 0.0)

    def rpc_connection(self, is_connected: bool) -> None:
        """The service takes messages from the broker now, or cannot."""
        self._rpc_connected.set(is_connected)

    def notifications_dropped(self, count: int) -> None:
        """So many notifications were given up."""
        self._notifications_dropped.inc(count)

    def service_is(self, ready: bool) -> None:
        """The service takes requests now, or does not."""
        self._service_ready.set(ready)

    # --- what Prometheus reads --------------------------------------------------------------------

    def numbers(self) -> Numbers:
        """Every number, as it is now."""
        return numbers_of(self._registry)

    def render(self) -> bytes:
        """What Prometheus reads, in its text format."""
        return rendered(self.numbers())

    def publish(self) -> bool:
        """Write this worker's numbers where its parent finds them; whether that went well.

        To be called every second or so, and at the end.
        """
        return self._folder is not None and write_numbers(self._folder, self.numbers(), self._clock.monotonic())

    # --- setting up -------------------------------------------------------------------------------

    def _set_up_decisions(self) -> None:
        decisions, stages = self._counter(measures.DECISIONS), self._histogram(measures.STAGE_DURATION)
        self._decisions = {each: decisions.labels(each) for each in measures.DECISION_RESULTS}
        self._stages = {each: stages.labels(each) for each in measures.STAGES}
        self._decision_duration = self._histogram(measures.DECISION_DURATION)
        self._rejected_hosts = self._counter(measures.REJECTED_HOSTS)
        self._plugins: dict[str, Counter] = {}
        self._instances_placed = self._counter(measures.INSTANCES_PLACED)
        self._claim_conflicts = self._counter(measures.CLAIM_CONFLICTS)
        self._rounds = self._histogram(measures.CLAIM_ROUNDS)

    def _set_up_table(self) -> None:
        self._gauge(measures.TABLE_AGE).set_function(self._table_age)
        self._table_hosts = self._gauge(measures.TABLE_HOSTS)
        refreshes = self._counter(measures.REFRESHES)
        self._refreshes = {each: refreshes.labels(each) for each in measures.REFRESH_RESULTS}
        self._refresh_duration = self._histogram(measures.REFRESH_DURATION)

    def _table_age(self) -> float:
        return self._clock.monotonic() - self._table_is_from

    def _set_up_rpc(self, methods: Collection[str]) -> None:
        self._rpc_methods = frozenset(methods)
        names = sorted({*methods, measures.UNKNOWN})
        requests, durations = self._counter(measures.RPC_REQUESTS), self._histogram(measures.RPC_DURATION)
        self._rpc_requests = {
            (name, result): requests.labels(name, result) for name in names for result in measures.RPC_RESULTS
        }
        self._rpc_duration = {name: durations.labels(name) for name in names}
        self._rpc_connected = self._gauge(measures.RPC_CONNECTED)
        self._notifications_dropped = self._counter(measures.NOTIFICATIONS_DROPPED)

    def _set_up_service(self) -> None:
        self._service_ready = self._gauge(measures.SERVICE_READY)
        self._gauge(measures.WORKERS).set(1)
        self._gauge(measures.BUILD_INFO).labels(importlib.metadata.version("roost")).set(1)

    def _counter(self, measure: MetricDefinition) -> Counter:
        return Counter(measure.name, measure.meaning, _label_names(measure), registry=self._registry)

    def _gauge(self, measure: MetricDefinition) -> Gauge:
        return Gauge(measure.name, measure.meaning, _label_names(measure), registry=self._registry)

    def _histogram(self, measure: MetricDefinition) -> Histogram:
        labels, buckets = _label_names(measure), measure.buckets
        return Histogram(measure.name, measure.meaning, labels, registry=self._registry, buckets=buckets)

    def _plugin(self, name: str) -> Counter:
        """The counter of one step; bounded, since requests may name resource classes of their own."""
        found = self._plugins.get(name)
        if found is None:
            label = CUSTOM if name.startswith("CUSTOM_") else name
            if len(self._plugins) >= MOST_PLUGINS:
                return self._rejected_hosts.labels(label if label == CUSTOM else OTHER)
            found = self._plugins[name] = self._rejected_hosts.labels(label)
        return found


def _label_names(measure: MetricDefinition) -> list[str]:
    return [label.name for label in measure.labels]
