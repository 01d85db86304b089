# SPDX-License-Identifier: Apache-2.0
"""Metrics of several processes, real ones, exposed as those of one service."""

import multiprocessing
import os
import signal

import pytest
from prometheus_client import CollectorRegistry, Counter, values
from prometheus_client.metrics_core import GaugeMetricFamily
from tests.unit.services.counted import METHODS, decision, value

from roost.services import workers as worker_metrics
from roost.services.metric_definitions import TABLE_AGE, render_metrics
from roost.services.metrics import Metrics
from roost.services.workers import WorkerMetrics

spawn = multiprocessing.get_context("spawn")


def work(folder, number, count, connection):
    """A worker: counts, and waits until it is told to end."""
    metrics = Metrics.for_worker(folder, number, METHODS)
    for _ in range(count):
        metrics.claim_refused()
    metrics.table_refreshed(count, 0.1)
    metrics.service_is(ready=count > 1)
    connection.send("counted")
    connection.recv()


class Workers:
    """Processes that count, by worker number."""

    def __init__(self, folder):
        self._folder, self._running = folder, {}

    def start(self, number, count):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=work, args=(self._folder, number, count, theirs))
        process.start()
        self._running[number] = process, ours
        assert ours.recv() == "counted"

    def kill(self, number):
        process, pipe = self._running.pop(number)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        pipe.close()

    def kill_all(self):
        for number in list(self._running):
            self.kill(number)


@pytest.fixture
def workers(tmp_path):
    running = Workers(tmp_path)
    yield running
    running.kill_all()


@pytest.fixture
def counts_in_files(monkeypatch):
    """Lets `Metrics.for_worker` be used in the process of the tests, which goes on counting in memory afterwards."""
    monkeypatch.setattr(values, "ValueClass", values.ValueClass)
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")


@pytest.fixture
def service(tmp_path, clock, counts_in_files):
    return WorkerMetrics(tmp_path / "workers", clock)


def count(service, worker, **changes):
    """What a worker of that number would have counted."""
    metrics = Metrics.for_worker(service._folder, worker, METHODS, service._clock)
    metrics.table_refreshed(changes.get("hosts", 10), 0.1)
    metrics.service_is(changes.get("ready", True))
    for _ in range(changes.get("conflicts", 0)):
        metrics.claim_refused()
    metrics.decided(decision(), 0.001)
    return metrics


def test_real_processes_are_added_up_and_what_they_counted_outlives_them(tmp_path, workers):
    service = WorkerMetrics(tmp_path)
    workers.start(1, count=1)
    workers.start(2, count=5)
    assert value(service, "roost_claim_conflicts_total") == 6
    assert value(service, "roost_workers") == 2
    assert value(service, "roost_service_ready") == 0
    workers.kill(1)
    service.worker_ended(1)
    assert value(service, "roost_claim_conflicts_total") == 6
    assert value(service, "roost_workers") == 1
    assert value(service, "roost_service_ready") == 1


def test_a_process_that_takes_the_place_of_another_counts_on_in_the_same_files(tmp_path, workers):
    service = WorkerMetrics(tmp_path)
    workers.start(1, count=2)
    files = {path.name for path in tmp_path.iterdir()}
    for _ in range(2):
        workers.kill(1)
        service.worker_ended(1)
        workers.start(1, count=3)
    assert value(service, "roost_claim_conflicts_total") == 2 + 3 + 3
    assert value(service, "roost_table_hosts") == 3
    assert value(service, "roost_workers") == 1
    assert {path.name for path in tmp_path.iterdir()} == files


def test_gauges_show_the_worst_where_they_cannot_be_added_up(service, clock):
    count(service, 1, hosts=10)
    clock.seconds += 5
    count(service, 2, hosts=12, ready=False)
    assert value(service, "roost_table_hosts") == 12
    assert value(service, "roost_service_ready") == 0
    assert value(service, "roost_table_age_seconds") == 5


def test_the_parent_knows_better_whether_the_service_is_ready(service):
    count(service, 1, ready=True)
    service.service_is(ready=False)
    assert value(service, "roost_service_ready") == 0
    service.service_is(ready=True)
    assert value(service, "roost_service_ready") == 1


def test_a_table_grows_older_while_its_worker_says_nothing(service, clock):
    count(service, 1)
    clock.seconds += 60
    assert value(service, "roost_table_age_seconds") == 60


def test_histograms_are_added_up_bucket_by_bucket(service):
    count(service, 1)
    count(service, 2)
    assert value(service, "roost_decision_duration_seconds_count") == 2
    assert value(service, "roost_decision_duration_seconds_bucket", le="0.0005") == 0
    assert value(service, "roost_decision_duration_seconds_bucket", le="0.001") == 2
    assert value(service, "roost_decision_duration_seconds_bucket", le="+Inf") == 2


def test_one_worker_reads_like_a_process_of_its_own(service):
    metrics = count(service, 1, conflicts=3)
    assert service.render() == metrics.render()


def test_totals_never_fall_when_a_worker_ends(service):
    count(service, 1, conflicts=4)
    service.worker_ended(1)
    service.worker_ended(1)
    count(service, 1, conflicts=1)
    assert value(service, "roost_claim_conflicts_total") == 5
    assert value(service, "roost_decisions_total", result="placed") == 2


def test_what_workers_of_an_earlier_start_left_is_forgotten(service, clock):
    count(service, 1, conflicts=4)
    assert WorkerMetrics(service._folder, clock).render() == b""


def test_a_file_that_a_worker_has_just_created_is_passed_over(service):
    count(service, 1, conflicts=2)
    (service._folder / "counter_2.db").touch()
    assert value(service, "roost_claim_conflicts_total") == 2


def test_a_metric_that_a_plugin_of_a_worker_counts_is_left_out(service):
    count(service, 1)
    Counter("plugin_calls", "of a plugin", registry=CollectorRegistry()).inc()
    assert b"plugin_calls" not in service.render()


def test_a_folder_that_is_gone_is_no_error(service):
    service._folder.rmdir()
    assert service.render() == b""
    service.worker_ended(5)


@pytest.mark.parametrize("usable", [True, False])
def test_files_are_kept_in_memory_where_systemd_gives_a_folder_for_that(usable, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path if usable else tmp_path / "nowhere"))
    assert (worker_metrics.find_memory_folder() == str(tmp_path)) == usable


def test_an_age_of_which_a_worker_has_said_nothing_yet_is_left_out():
    unset = GaugeMetricFamily(TABLE_AGE.name, TABLE_AGE.meaning, 0.0)
    assert b"\nroost_table_age_seconds" not in render_metrics([unset], now=1000.0)
    at_900 = GaugeMetricFamily(TABLE_AGE.name, TABLE_AGE.meaning, 900.0)
    assert b"\nroost_table_age_seconds 100.0" in render_metrics([at_900], now=1000.0)
