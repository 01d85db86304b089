# SPDX-License-Identifier: Apache-2.0
"""What happened is counted, under few labels and at little cost."""

import re
import timeit

import pytest
from tests.unit.services.counted import METHODS, decision, samples, value

import roost
from roost.model.decision import Step
from roost.services.metric_definitions import METRIC_DEFINITIONS, STAGES
from roost.services.metrics import MAX_PLUGINS, Metrics


@pytest.fixture
def metrics(clock):
    return Metrics(METHODS, clock)


def test_a_placed_request_counts_with_its_instances_and_its_time(metrics):
    metrics.decided(decision(placed=3), 0.004, claim_seconds=0.003, rounds=2)
    assert value(metrics, "roost_decisions_total", result="placed") == 1
    assert value(metrics, "roost_instances_placed_total") == 3
    assert value(metrics, "roost_decision_duration_seconds_sum") == pytest.approx(0.004)
    assert value(metrics, "roost_decision_duration_seconds_bucket", le="0.0025") == 0
    assert value(metrics, "roost_decision_duration_seconds_bucket", le="0.005") == 1
    assert value(metrics, "roost_stage_duration_seconds_sum", stage="claim") == pytest.approx(0.003)
    assert value(metrics, "roost_claim_rounds_sum") == 2


def test_microseconds_of_a_decision_become_seconds_and_idle_stages_do_not_count(metrics):
    metrics.decided(decision(), 0.0001)
    assert value(metrics, "roost_stage_duration_seconds_sum", stage="weigh") == pytest.approx(0.00004)
    assert value(metrics, "roost_stage_duration_seconds_count", stage="prefilter") == 0
    assert value(metrics, "roost_stage_duration_seconds_count", stage="claim") == 0
    assert ("roost_stage_duration_seconds_count", ("stage", "total")) not in samples(metrics)


def test_a_request_without_a_host_counts_and_places_nothing(metrics):
    metrics.decided(decision(placed=1, failed_at=1), 0.001)
    assert value(metrics, "roost_decisions_total", result="no_valid_host") == 1
    assert value(metrics, "roost_decisions_total", result="placed") == 0
    assert value(metrics, "roost_instances_placed_total") == 0


def test_an_error_counts_with_its_time(metrics):
    metrics.failed(0.5)
    assert value(metrics, "roost_decisions_total", result="error") == 1
    assert value(metrics, "roost_decision_duration_seconds_count") == 1


def test_rejected_hosts_are_counted_for_the_step_that_rejected_them(metrics):
    steps = [Step("capacity", "ram", 100, 60), Step("filter", "ComputeFilter", 60, 60), Step("filter", "A", 60, 1)]
    metrics.decided(decision(*steps), 0.001)
    metrics.decided(decision(*steps), 0.001)
    assert value(metrics, "roost_rejected_hosts_total", plugin="ram") == 80
    assert value(metrics, "roost_rejected_hosts_total", plugin="A") == 118
    assert ("roost_rejected_hosts_total", ("plugin", "ComputeFilter")) not in samples(metrics)


def test_resource_classes_that_requests_name_make_no_series_of_their_own(metrics):
    for at in range(3 * MAX_PLUGINS):
        metrics.decided(decision(Step("capacity", f"CUSTOM_{at}", 2, 1)), 0.001)
    assert value(metrics, "roost_rejected_hosts_total", plugin="custom_resources") == 3 * MAX_PLUGINS


def test_the_number_of_plugins_is_bounded_whatever_their_names(metrics):
    for at in range(3 * MAX_PLUGINS):
        metrics.decided(decision(Step("filter", f"Filter{at}", 2, 1)), 0.001)
    found = [key for key in samples(metrics) if key[0] == "roost_rejected_hosts_total"]
    assert len(found) <= MAX_PLUGINS + 1
    assert value(metrics, "roost_rejected_hosts_total", plugin="other") == 2 * MAX_PLUGINS


def test_a_method_that_is_not_served_is_unknown(metrics):
    metrics.rpc_handled("select_destinations", "ok", 0.002)
    for name in ("drop_tables", 'x"} 1\nevil 1', "unknown"):
        metrics.rpc_handled(name, "error", 0.002)
    assert value(metrics, "roost_rpc_requests_total", method="select_destinations", result="ok") == 1
    assert value(metrics, "roost_rpc_requests_total", method="unknown", result="error") == 3
    assert value(metrics, "roost_rpc_request_duration_seconds_count", method="unknown") == 3


def test_a_result_that_is_none_counts_as_an_error(metrics):
    metrics.rpc_handled("update_aggregates", "perhaps", 0.002)
    assert value(metrics, "roost_rpc_requests_total", method="update_aggregates", result="error") == 1


def test_the_table_grows_older_until_it_is_refreshed(metrics, clock):
    clock.seconds += 7
    assert value(metrics, "roost_table_age_seconds") == 7
    metrics.table_refresh_failed(1.0)
    assert value(metrics, "roost_table_age_seconds") == 7
    metrics.table_refreshed(200, 0.02)
    assert value(metrics, "roost_table_age_seconds") == 0
    metrics.table_refreshed(201, 0.5, is_full=True)
    clock.seconds += 2
    assert value(metrics, "roost_table_age_seconds") == 2
    assert value(metrics, "roost_table_hosts") == 201
    results = [value(metrics, "roost_table_refreshes_total", result=each) for each in ("changes", "full", "failed")]
    assert results == [1, 1, 1]


def test_a_table_is_as_old_as_its_oldest_part(metrics, clock):
    clock.seconds += 30
    metrics.table_refreshed(200, 0.02, read_at=clock.seconds - 12)
    assert value(metrics, "roost_table_age_seconds") == 12


def test_cells_that_cannot_be_read_are_counted(metrics):
    assert value(metrics, "roost_unreadable_cells") == 0
    metrics.cells_unreadable(2)
    assert value(metrics, "roost_unreadable_cells") == 2


def test_calls_of_placement_are_counted_by_kind_and_status(metrics):
    metrics.placement_called("GET", "/allocation_candidates", 200, 0.25)
    metrics.placement_called("GET", "/allocation_candidates", 503, 0.5)
    metrics.placement_called("POST", "/allocations", 409, 0.02)
    metrics.placement_called("GET", "/somewhere/else", 0, 1.0)
    name, seconds = "roost_placement_requests_total", "roost_placement_request_duration_seconds_sum"
    candidates = {"method": "GET", "path": "/allocation_candidates"}
    assert value(metrics, name, **candidates, result="2xx") == 1
    assert value(metrics, name, **candidates, result="5xx") == 1
    assert value(metrics, seconds, **candidates) == 0.75
    assert value(metrics, name, method="POST", path="/allocations", result="4xx") == 1
    assert value(metrics, name, method="GET", path="other", result="none") == 1


def test_states_are_one_or_zero(metrics):
    assert value(metrics, "roost_service_ready") == value(metrics, "roost_rpc_connected") == 0
    metrics.service_is(ready=True)
    metrics.rpc_connection(is_connected=True)
    assert value(metrics, "roost_service_ready") == value(metrics, "roost_rpc_connected") == 1


def test_conflicts_and_lost_notifications_count(metrics):
    metrics.claim_refused()
    metrics.notifications_dropped(1)
    assert value(metrics, "roost_claim_conflicts_total") == value(metrics, "roost_notifications_dropped_total") == 1


def test_the_version_is_a_label(metrics):
    assert value(metrics, "roost_build_info", version=roost.__version__, service="scheduler") == 1


def test_two_services_in_one_process_count_for_themselves(metrics, clock):
    other = Metrics(METHODS, clock)
    metrics.claim_refused()
    assert value(other, "roost_claim_conflicts_total") == 0


def test_everything_that_is_declared_is_exposed_and_nothing_else(metrics):
    metrics.decided(decision(Step("filter", "A", 2, 1)), 0.001)
    metrics.placement_called("GET", "/resource_providers", 200, 0.01)
    exposed = set(re.findall(r"^# TYPE (\w+)", metrics.render().decode(), re.MULTILINE))
    assert exposed == {metric.name for metric in METRIC_DEFINITIONS}


@pytest.mark.parametrize("metric", METRIC_DEFINITIONS, ids=lambda metric: metric.name)
def test_names_and_labels_are_those_of_the_style(metric):
    assert re.fullmatch(r"roost(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert bool(metric.buckets) == (metric.kind == "histogram")
    known = {"stage", "plugin", "result", "method", "path", "version", "verdict", "scheduler", "service", "watcher"}
    assert {label.name for label in metric.labels} <= known
    assert "duration" not in metric.name or metric.name.endswith("_seconds")


def test_stages_have_the_six_words():
    assert STAGES == ("prefilter", "capacity", "filter", "weigh", "choose", "claim")


def test_counting_a_decision_costs_little(metrics):
    steps = [Step("filter", f"F{at}", 100 - at, 100 - at - (at < 3)) for at in range(11)]
    made = decision(*steps)
    seconds = (
        min(timeit.repeat(lambda: metrics.decided(made, 0.001, claim_seconds=0.001), number=500, repeat=10)) / 500
    )
    assert seconds < 100e-6  # about 15 us on an idle machine


def test_a_service_of_another_kind_shows_nothing_of_schedulers():
    shown = Metrics(["build_instances"], services=["conductor"]).render().decode()
    assert 'service="conductor"' in shown
    assert 'roost_rpc_requests_total{method="build_instances",result="ok"} 0.0' in shown
    assert "roost_decisions_total" not in shown
    assert "roost_table_age_seconds" not in shown
