# SPDX-License-Identifier: Apache-2.0
"""Counts what a service does, for Prometheus. Methods are named for what happened, and never raise.

A registry of its own, no global one. Where a service has several worker processes, each counts for itself
(`Metrics.for_worker`) and their parent exposes the sums (`WorkerMetrics` in `workers.py`).
"""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from roost.best_effort import SWALLOWED, WATCHERS, best_effort
from roost.clock import Clock, SystemClock
from roost.services import metric_definitions as definitions
from roost.services.metric_definitions import MetricDefinition, render_metrics
from roost.services.workers import count_in_files

if TYPE_CHECKING:
    from roost.model.decision import Decision

MAX_PLUGINS = 200
"""Different values of the label `plugin`; further ones are counted as `other`."""
OTHER = "other"
CUSTOM = "custom_resources"
"""Label of all capacity steps for custom resource classes (CUSTOM_...): requests may name any number of them."""


class Metrics:
    """All metrics of one process. May be shared by threads."""

    def __init__(
        self,
        rpc_methods: Collection[str] = (),
        clock: Clock | None = None,
        services: Collection[str] = definitions.SERVICES,
    ) -> None:
        """`rpc_methods`: names of the served methods; any other name is counted as `unknown`.

        `services`: those that the process runs, of SERVICES in metric_definitions.py.
        """
        self._clock = clock or SystemClock()
        self._registry = CollectorRegistry()
        if definitions.SCHEDULER in services:
            self._set_up_decisions()
            self._set_up_table()
            self._set_up_shadow()
        self._set_up_rpc(rpc_methods)
        if definitions.CONDUCTOR in services:
            self._set_up_conductor()
        if definitions.COMPUTE in services:
            self._unknown_guests = self._gauge(definitions.UNKNOWN_GUESTS)
        if definitions.API in services:
            self._set_up_api()
        self._set_up_service(services)

    @classmethod
    def for_worker(
        cls,
        folder: Path,
        worker: int,
        rpc_methods: Collection[str] = (),
        clock: Clock | None = None,
        services: Collection[str] = definitions.SERVICES,
    ) -> Metrics:
        """Metrics of the worker of this number, counted in files that `WorkerMetrics` of that folder reads.

        To be created in the worker's own process, once.
        """
        count_in_files(folder, worker)
        return cls(rpc_methods, clock, services)

    # --- what happened ----------------------------------------------------------------------------

    @best_effort("metrics")
    def decided(self, decision: Decision, seconds: float, *, claim_seconds: float = 0.0, rounds: int = 1) -> None:
        """A request was answered, with hosts or with NoValidHost.

        `seconds`: the whole request. `claim_seconds`: its last claim. `rounds`: how often it chose and claimed.
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

    @best_effort("metrics")
    def failed(self, seconds: float) -> None:
        """A request ended with an error other than NoValidHost."""
        self._decisions["error"].inc()
        self._decision_duration.observe(seconds)

    @best_effort("metrics")
    def claim_refused(self) -> None:
        """The claim was refused because another scheduler was faster; the request is retried."""
        self._claim_conflicts.inc()

    @best_effort("metrics")
    def table_refreshed(
        self, hosts: int, seconds: float, *, is_full: bool = False, read_at: float | None = None
    ) -> None:
        """The table was refreshed and has this many hosts. `is_full`: all rows were read, not only changes.

        `read_at`: when its oldest part was read, by the monotonic clock; None: now.
        """
        self._refreshes["full" if is_full else "changes"].inc()
        self._refresh_duration.observe(seconds)
        self._table_hosts.set(hosts)
        self._table_age.set(self._clock.monotonic() if read_at is None else read_at)

    @best_effort("metrics")
    def table_refresh_failed(self, seconds: float) -> None:
        """A refresh of the table failed after that many seconds; its age goes on growing."""
        self._refreshes["failed"].inc()
        self._refresh_duration.observe(seconds)

    @best_effort("metrics")
    def cells_unreadable(self, count: int) -> None:
        """That many cells are left out, because their databases cannot be read."""
        self._unreadable_cells.set(count)

    @best_effort("metrics")
    def placement_called(self, method: str, path: str, status: int, seconds: float) -> None:
        """Placement was called. `path`: with {uuid} in place of uuids. `status`: of the answer; 0: there was none."""
        labels = method, path if path in definitions.PLACEMENT_PATHS else OTHER
        self._placement_requests.labels(*labels, f"{status // 100}xx" if status else "none").inc()
        self._placement_duration.labels(*labels).observe(seconds)

    @best_effort("metrics")
    def rpc_handled(self, method: str, result: str, seconds: float) -> None:
        """A message was handled. `result`: ok, expected_error (such as NoValidHost) or error."""
        known = method if method in self._rpc_methods else definitions.UNKNOWN_METHOD
        self._rpc_requests[known, result if result in definitions.RPC_RESULTS else "error"].inc()
        self._rpc_duration[known].observe(seconds)

    @best_effort("metrics")
    def rpc_refused(self) -> None:
        """A message was refused: no such method or version, or wrong arguments."""
        self.rpc_handled(definitions.UNKNOWN_METHOD, "error", 0.0)

    @best_effort("metrics")
    def rpc_connection(self, is_connected: bool) -> None:
        """Whether the service takes messages from the broker."""
        self._rpc_connected.set(is_connected)

    @best_effort("metrics")
    def decisions_unrecorded(self, count: int) -> None:
        """So many decisions could not be recorded."""
        self._decisions_unrecorded.inc(count)

    @best_effort("metrics")
    def notifications_dropped(self, count: int) -> None:
        """Notifications were dropped: `count` more than before."""
        self._notifications_dropped.inc(count)

    @best_effort("metrics")
    def service_is(self, ready: bool) -> None:
        """Whether the service takes requests."""
        self._service_ready.set(ready)

    @best_effort("metrics")
    def api_request(self, method: str, status: int, seconds: float) -> None:
        """The API answered a request. `status`: of the answer; 0: there was none."""
        known = method if method in definitions.API_METHODS else OTHER
        result = f"{status // 100}xx" if 200 <= status < 600 else "none"
        self._api_requests[known, result].inc()
        self._api_durations[known].observe(seconds)

    @best_effort("metrics")
    def stalled_task(self, outcome: str) -> None:
        """A conductor went on with the task of a server that made no progress; outcome: see metric_definitions."""
        self._stalled_tasks[outcome].inc()

    @best_effort("metrics")
    def leak_released(self) -> None:
        """A conductor released what was held for no server."""
        self._leaked_claims.inc()

    @best_effort("metrics")
    def unknown_guests(self, count: int) -> None:
        """The hypervisors of this process have that many guests that Roost does not know."""
        self._unknown_guests.set(count)

    @best_effort("metrics")
    def shadow_compared(self, verdict: str, roost_us: float | None, nova_us: float | None) -> None:
        """A request in shadow mode has its verdict; microseconds that each scheduler took, where they are known."""
        self._shadow_requests[verdict].inc()
        for scheduler, microseconds in zip(definitions.SHADOW_SCHEDULERS, (roost_us, nova_us), strict=True):
            if microseconds is not None:
                self._shadow_durations[scheduler].observe(microseconds / 1_000_000)

    @best_effort("metrics")
    def watchers_checked(self) -> None:
        """Count the errors of watchers that were swallowed in this process since the last call."""
        with self._lock:
            for watcher, count in SWALLOWED.counts().items():
                more = count - self._watcher_errors_counted.get(watcher, 0)
                self._watcher_errors[watcher].inc(more)
                self._watcher_errors_counted[watcher] = count

    # --- what Prometheus reads --------------------------------------------------------------------

    def render(self) -> bytes:
        """All metrics of this process, in Prometheus's text format."""
        return render_metrics(self._registry.collect(), self._clock.monotonic())

    # --- setting up -------------------------------------------------------------------------------

    def _set_up_decisions(self) -> None:
        decisions, stages = self._counter(definitions.DECISIONS), self._histogram(definitions.STAGE_DURATION)
        self._decisions = {each: decisions.labels(each) for each in definitions.DECISION_RESULTS}
        self._stages = {each: stages.labels(each) for each in definitions.STAGES}
        self._decision_duration = self._histogram(definitions.DECISION_DURATION)
        self._rejected_hosts = self._counter(definitions.REJECTED_HOSTS)
        self._plugins: dict[str, Counter] = {}
        self._instances_placed = self._counter(definitions.INSTANCES_PLACED)
        self._claim_conflicts = self._counter(definitions.CLAIM_CONFLICTS)
        self._rounds = self._histogram(definitions.CLAIM_ROUNDS)

    def _set_up_table(self) -> None:
        self._table_age = self._gauge(definitions.TABLE_AGE)
        self._table_age.set(self._clock.monotonic())
        self._table_hosts = self._gauge(definitions.TABLE_HOSTS)
        refreshes = self._counter(definitions.REFRESHES)
        self._refreshes = {each: refreshes.labels(each) for each in definitions.REFRESH_RESULTS}
        self._refresh_duration = self._histogram(definitions.REFRESH_DURATION)
        self._unreadable_cells = self._gauge(definitions.UNREADABLE_CELLS)
        self._placement_requests = self._counter(definitions.PLACEMENT_REQUESTS)
        self._placement_duration = self._histogram(definitions.PLACEMENT_DURATION)

    def _set_up_rpc(self, methods: Collection[str]) -> None:
        self._rpc_methods = frozenset(methods)
        names = sorted({*methods, definitions.UNKNOWN_METHOD})
        requests, durations = self._counter(definitions.RPC_REQUESTS), self._histogram(definitions.RPC_DURATION)
        self._rpc_requests = {
            (name, result): requests.labels(name, result) for name in names for result in definitions.RPC_RESULTS
        }
        self._rpc_duration = {name: durations.labels(name) for name in names}
        self._rpc_connected = self._gauge(definitions.RPC_CONNECTED)
        self._decisions_unrecorded = self._counter(definitions.DECISIONS_UNRECORDED)
        self._notifications_dropped = self._counter(definitions.NOTIFICATIONS_DROPPED)

    def _set_up_shadow(self) -> None:
        requests, durations = self._counter(definitions.SHADOW_REQUESTS), self._histogram(definitions.SHADOW_DURATION)
        self._shadow_requests = {each: requests.labels(each) for each in definitions.SHADOW_VERDICTS}
        self._shadow_durations = {each: durations.labels(each) for each in definitions.SHADOW_SCHEDULERS}

    def _set_up_conductor(self) -> None:
        stalled = self._counter(definitions.STALLED_TASKS)
        self._stalled_tasks = {each: stalled.labels(each) for each in definitions.STALLED_TASK_OUTCOMES}
        self._leaked_claims = self._counter(definitions.LEAKED_CLAIMS)

    def _set_up_api(self) -> None:
        requests, durations = self._counter(definitions.API_REQUESTS), self._histogram(definitions.API_DURATION)
        self._api_requests = {
            (method, result): requests.labels(method, result)
            for method in definitions.API_METHODS
            for result in definitions.API_RESULTS
        }
        self._api_durations = {method: durations.labels(method) for method in definitions.API_METHODS}

    def _set_up_service(self, services: Collection[str]) -> None:
        self._service_ready = self._gauge(definitions.SERVICE_READY)
        watcher_errors = self._counter(definitions.WATCHER_ERRORS)
        self._watcher_errors = {each: watcher_errors.labels(each) for each in WATCHERS}
        self._watcher_errors_counted: dict[str, int] = {}
        """How many of `SWALLOWED` are counted."""
        self._lock = threading.Lock()
        self._gauge(definitions.WORKERS).set(1)
        versions, version = self._gauge(definitions.BUILD_INFO), importlib.metadata.version("roost")
        for service in services:
            versions.labels(version, service).set(1)

    def _counter(self, definition: MetricDefinition) -> Counter:
        return Counter(definition.name, definition.meaning, _label_names(definition), registry=self._registry)

    def _gauge(self, definition: MetricDefinition) -> Gauge:
        labels, mode = _label_names(definition), definition.multiprocess_mode
        return Gauge(definition.name, definition.meaning, labels, registry=self._registry, multiprocess_mode=mode)

    def _histogram(self, definition: MetricDefinition) -> Histogram:
        labels, buckets = _label_names(definition), definition.buckets
        return Histogram(definition.name, definition.meaning, labels, registry=self._registry, buckets=buckets)

    def _plugin(self, name: str) -> Counter:
        """Counter of one filter or capacity step. Their number is bounded: requests may name any resource class."""
        found = self._plugins.get(name)
        if found is None:
            label = CUSTOM if name.startswith("CUSTOM_") else name
            if len(self._plugins) >= MAX_PLUGINS:
                return self._rejected_hosts.labels(label if label == CUSTOM else OTHER)
            found = self._plugins[name] = self._rejected_hosts.labels(label)
        return found


def _label_names(definition: MetricDefinition) -> list[str]:
    return [label.name for label in definition.labels]
