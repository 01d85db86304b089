# SPDX-License-Identifier: Apache-2.0
"""Every metric that Roost exposes: name, meaning, labels, and how the gauges of several workers are aggregated.

Names are roost_<what>_<unit>[_total] in base units. A label has few values, and none of them names a host, a server
or a project: Prometheus stores a series for each value. `render_metrics` is what /metrics answers: Prometheus's text
format, in the order of the definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from roost.best_effort import WATCHERS

SCHEDULER, CONDUCTOR, COMPUTE, API = SERVICES = ("scheduler", "conductor", "compute", "api")
API_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "other")
API_RESULTS = ("2xx", "3xx", "4xx", "5xx", "none")
STAGES = ("prefilter", "capacity", "filter", "weigh", "choose", "claim")
DECISION_RESULTS = ("placed", "no_valid_host", "error")
REFRESH_RESULTS = ("changes", "full", "failed")
RPC_RESULTS = ("ok", "expected_error", "error")
SHADOW_VERDICTS = (
    *("same", "equal_weight", "other", "nova_failed", "roost_no_host", "both_no_host"),
    *("move", "unknown", "decided"),
)
SHADOW_SCHEDULERS = ("roost", "nova")
STALLED_TASK_OUTCOMES = ("sent_again", "reschedule", "undo", "fail", "finish")
PLACEMENT_METHODS = ("GET", "PUT", "POST", "DELETE")
PLACEMENT_PATHS = (
    "/allocation_candidates",
    "/allocations",
    "/allocations/{uuid}",
    "/resource_providers",
    "/resource_providers/{uuid}/aggregates",
    "/resource_providers/{uuid}/allocations",
    "/resource_providers/{uuid}/inventories",
    "/resource_providers/{uuid}/traits",
    "/resource_providers/{uuid}/usages",
    "other",
)
PLACEMENT_RESULTS = ("2xx", "3xx", "4xx", "5xx", "none")
UNKNOWN_METHOD = "unknown"
"""Label value for the method of a message that names no served method."""

_SHORT = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025)
_LONG = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_ROUNDS = (1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)


class Label(NamedTuple):
    """A label of a metric and its possible values."""

    name: str
    values: tuple[str, ...] = ()
    """All values; empty where the configuration decides: enabled plugins, served methods."""


class MetricDefinition(NamedTuple):
    """Name, type, help text, labels and aggregation of one metric."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    meaning: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets."""
    multiprocess_mode: Literal["livesum", "livemax", "livemin"] = "livesum"
    """How prometheus_client aggregates a gauge over the running workers; counters and histograms are summed."""
    is_age: bool = False
    """The gauge holds a moment in monotonic seconds, a clock that all processes share; exposed are seconds since."""


DECISIONS = MetricDefinition(
    "roost_decisions_total",
    "counter",
    "requests that were decided: placed (all instances have a host), no_valid_host, error (anything else)",
    (Label("result", DECISION_RESULTS),),
)
DECISION_DURATION = MetricDefinition(
    "roost_decision_duration_seconds",
    "histogram",
    "time from the request to its answer, claim and further rounds included, whatever the answer was",
    buckets=(*_SHORT, *_LONG),
)
STAGE_DURATION = MetricDefinition(
    "roost_stage_duration_seconds",
    "histogram",
    "time spent in a stage, in the last round of a request; a stage that had nothing to do is not counted",
    (Label("stage", STAGES),),
    buckets=(*_SHORT, *_LONG),
)
REJECTED_HOSTS = MetricDefinition(
    "roost_rejected_hosts_total",
    "counter",
    "hosts that a filter, or a step before the filters, took out of the running",
    (Label("plugin"),),
)
INSTANCES_PLACED = MetricDefinition("roost_instances_placed_total", "counter", "instances that got a host")
CLAIM_CONFLICTS = MetricDefinition(
    "roost_claim_conflicts_total", "counter", "claims that were refused because another scheduler was faster"
)
CLAIM_ROUNDS = MetricDefinition(
    "roost_claim_rounds", "histogram", "rounds of choosing and claiming that a request took", buckets=_ROUNDS
)
TABLE_AGE = MetricDefinition(
    "roost_table_age_seconds",
    "gauge",
    "age of the state that decisions are made from: time since the last refresh of the table of hosts, or since the "
    "start if there was none; in a nova cloud since the last read of all of placement's providers, if that is longer "
    "ago; of several workers, the oldest",
    multiprocess_mode="livemin",  # the earliest moment is the oldest table
    is_age=True,
)
TABLE_HOSTS = MetricDefinition(
    "roost_table_hosts",
    "gauge",
    "hosts in the table; of several workers, the most",
    multiprocess_mode="livemax",
)
REFRESH_DURATION = MetricDefinition(
    "roost_table_refresh_duration_seconds",
    "histogram",
    "time that one refresh of the table took, failed ones included",
    buckets=(*_LONG, 30.0, 60.0),
)
REFRESHES = MetricDefinition(
    "roost_table_refreshes_total",
    "counter",
    "refreshes of the table: changes (only what is new was read), full (all of it), failed",
    (Label("result", REFRESH_RESULTS),),
)
UNREADABLE_CELLS = MetricDefinition(
    "roost_unreadable_cells",
    "gauge",
    "cells of a nova cloud that are left out because their databases cannot be read; of several workers, the most",
    multiprocess_mode="livemax",
)
PLACEMENT_REQUESTS = MetricDefinition(
    "roost_placement_requests_total",
    "counter",
    "calls of placement by method, path (uuids as {uuid}) and class of the answer's status; none: no answer",
    (Label("method", PLACEMENT_METHODS), Label("path", PLACEMENT_PATHS), Label("result", PLACEMENT_RESULTS)),
)
PLACEMENT_DURATION = MetricDefinition(
    "roost_placement_request_duration_seconds",
    "histogram",
    "time that a call of placement took, whatever the answer was",
    (Label("method", PLACEMENT_METHODS), Label("path", PLACEMENT_PATHS)),
    buckets=(*_LONG, 30.0, 60.0),
)
RPC_REQUESTS = MetricDefinition(
    "roost_rpc_requests_total",
    "counter",
    "messages that were handled: ok, expected_error (an answer such as NoValidHost), error; unknown: no method was "
    "run, for there is none of that name or version, or not with these arguments",
    (Label("method"), Label("result", RPC_RESULTS)),
)
RPC_DURATION = MetricDefinition(
    "roost_rpc_request_duration_seconds",
    "histogram",
    "time from taking a message to the end of its handling",
    (Label("method"),),
    buckets=(*_LONG, 30.0, 60.0),
)
RPC_CONNECTED = MetricDefinition(
    "roost_rpc_connected",
    "gauge",
    "1 while the service takes messages from the broker, else 0; of several workers, the least",
    multiprocess_mode="livemin",
)
DECISIONS_UNRECORDED = MetricDefinition(
    "roost_decisions_unrecorded_total",
    "counter",
    "decisions that could not be recorded in the database and were given up; the answers to callers are not affected",
)
NOTIFICATIONS_DROPPED = MetricDefinition(
    "roost_notifications_dropped_total", "counter", "notifications that could not be sent and were given up"
)
SERVICE_READY = MetricDefinition(
    "roost_service_ready",
    "gauge",
    "1 while the service takes requests, else 0: as /readyz says",
    multiprocess_mode="livemin",
)
WATCHER_ERRORS = MetricDefinition(
    "roost_watcher_errors_total",
    "counter",
    "errors of what only watches, by watcher: logged, the first of its kind with its traceback, and ignored, so that "
    "no request was affected; for log, lines that are lost",
    (Label("watcher", WATCHERS),),
)
STALLED_TASKS = MetricDefinition(
    "roost_stalled_tasks_total",
    "counter",
    "tasks of servers that made no progress and that a conductor went on with: by sending the message again, or, as "
    "the host is down, on another host (reschedule), as before (undo), as an error (fail), without it (finish)",
    (Label("result", STALLED_TASK_OUTCOMES),),
)
LEAKED_CLAIMS = MetricDefinition(
    "roost_leaked_claims_released_total",
    "counter",
    "claims of servers and migrations that are gone, which a conductor released",
)
SHADOW_REQUESTS = MetricDefinition(
    "roost_shadow_requests_total",
    "counter",
    "requests in shadow mode: same host as the live scheduler's, equal_weight, other; nova_failed (only the live "
    "scheduler found none), roost_no_host, both_no_host; move (counted, not compared), unknown (not comparable), "
    "decided (on the shadow topic)",
    (Label("verdict", SHADOW_VERDICTS),),
)
SHADOW_DURATION = MetricDefinition(
    "roost_shadow_duration_seconds",
    "histogram",
    "time for a choice in shadow mode: roost (without the refresh before it), nova (between its notifications of "
    "start and end)",
    (Label("scheduler", SHADOW_SCHEDULERS),),
    buckets=(*_SHORT, *_LONG),
)
UNKNOWN_GUESTS = MetricDefinition(
    "roost_unknown_guests",
    "gauge",
    "guests on the hypervisors of agents that Roost does not know and leaves alone, by the last comparison",
)
API_REQUESTS = MetricDefinition(
    "roost_api_requests_total",
    "counter",
    "requests that the API answered, by the status of the answer; none: the client had gone",
    (Label("method", API_METHODS), Label("result", API_RESULTS)),
)
API_DURATION = MetricDefinition(
    "roost_api_request_duration_seconds",
    "histogram",
    "time from the head of a request to the end of its answer",
    (Label("method", API_METHODS),),
    buckets=_LONG,
)
WORKERS = MetricDefinition("roost_workers", "gauge", "processes that decide requests")
BUILD_INFO = MetricDefinition(
    "roost_build_info",
    "gauge",
    "always 1; the labels say which version of which service runs",
    (Label("version"), Label("service", SERVICES)),
    multiprocess_mode="livemax",
)

METRIC_DEFINITIONS = (
    DECISIONS,
    DECISION_DURATION,
    STAGE_DURATION,
    REJECTED_HOSTS,
    INSTANCES_PLACED,
    CLAIM_CONFLICTS,
    CLAIM_ROUNDS,
    TABLE_AGE,
    TABLE_HOSTS,
    REFRESH_DURATION,
    REFRESHES,
    UNREADABLE_CELLS,
    PLACEMENT_REQUESTS,
    PLACEMENT_DURATION,
    RPC_REQUESTS,
    RPC_DURATION,
    RPC_CONNECTED,
    DECISIONS_UNRECORDED,
    NOTIFICATIONS_DROPPED,
    SERVICE_READY,
    WATCHER_ERRORS,
    STALLED_TASKS,
    LEAKED_CLAIMS,
    SHADOW_REQUESTS,
    SHADOW_DURATION,
    UNKNOWN_GUESTS,
    API_REQUESTS,
    API_DURATION,
    WORKERS,
    BUILD_INFO,
)


CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4


def render_metrics(families: Iterable[Metric], now: float) -> bytes:
    """Text format of those families that Roost defines; all others are left out.

    `now`: monotonic seconds, for gauges that are exposed as an age.
    """
    return generate_latest(_DefinedFamilies(families, now))


class _DefinedFamilies(Collector):
    """Families in the order of METRIC_DEFINITIONS, with the same order of samples for one process and for several."""

    def __init__(self, families: Iterable[Metric], now: float) -> None:
        self._families, self._now = {family.name: family for family in families}, now

    def collect(self) -> Iterator[Metric]:
        """Called by `generate_latest`."""
        for definition in METRIC_DEFINITIONS:
            name = definition.name.removesuffix("_total")
            found = self._families.get(name)
            if found is not None and found.samples:
                family = Metric(name, definition.meaning, definition.kind)
                family.samples = self._exposed(definition, found.samples)
                yield family

    def _exposed(self, definition: MetricDefinition, samples: list[Sample]) -> list[Sample]:
        # The creation times that prometheus_client adds would double the number of series.
        kept = sorted((each for each in samples if not each.name.endswith("_created")), key=_series)
        if not definition.is_age:
            return kept
        # 0 is what prometheus_client writes before the first `set`, a moment after a worker has started.
        return [each._replace(value=self._now - each.value) for each in kept if each.value]


def _series(sample: Sample) -> tuple[list[tuple[str, str]], str]:
    """Sort key that keeps the series of a histogram together: buckets in their order, then _count and _sum."""
    return sorted(pair for pair in sample.labels.items() if pair[0] != "le"), sample.name
