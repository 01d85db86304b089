# SPDX-License-Identifier: Apache-2.0
"""The numbers of several processes, real ones, as those of one service."""

import json
import multiprocessing
import os
import signal

import pytest
from tests.unit.observe.counted import METHODS, decision, value

from roost.observe.metrics import Metrics
from roost.observe.worker_metrics import WorkerMetrics

spawn = multiprocessing.get_context("spawn")


def work(folder, count, connection):
    """A worker: counts, publishes, and waits until it is told to end."""
    metrics = Metrics.for_worker(folder, METHODS)
    for _ in range(count):
        metrics.claim_refused()
    metrics.table_refreshed(count, 0.1)
    metrics.service_is(ready=count > 1)
    connection.send(metrics.publish())
    connection.recv()


@pytest.fixture
def service(tmp_path, clock):
    return WorkerMetrics(tmp_path / "workers", clock)


def publish(service, process, **changes):
    """What a worker of that process id would have written."""
    metrics = Metrics.for_worker(service._folder, METHODS, service._clock)
    metrics.table_refreshed(changes.get("hosts", 10), 0.1)
    metrics.service_is(changes.get("ready", True))
    for _ in range(changes.get("conflicts", 0)):
        metrics.claim_refused()
    metrics.decided(decision(), 0.001)
    assert metrics.publish()
    (service._folder / f"{os.getpid()}.json").rename(service._folder / f"{process}.json")
    return metrics


def test_real_processes_are_added_up_and_what_they_counted_outlives_them(tmp_path):
    service, pipes, workers = WorkerMetrics(tmp_path), [], []
    for count in (1, 5):
        ours, theirs = spawn.Pipe()
        worker = spawn.Process(target=work, args=(tmp_path, count, theirs))
        worker.start()
        pipes.append(ours)
        workers.append(worker)
    assert [pipe.recv() for pipe in pipes] == [True, True]
    assert value(service, "roost_claim_conflicts_total") == 6
    assert value(service, "roost_workers") == 2
    assert value(service, "roost_service_ready") == 0
    os.kill(workers[0].pid, signal.SIGKILL)
    workers[0].join()
    service.worker_ended(workers[0].pid)
    assert value(service, "roost_claim_conflicts_total") == 6
    assert value(service, "roost_workers") == 1
    assert value(service, "roost_service_ready") == 1
    pipes[1].send("end")
    workers[1].join()
    for pipe in pipes:
        pipe.close()


def test_gauges_show_the_worst_where_they_cannot_be_added_up(service, clock):
    publish(service, 1, hosts=10)
    clock.seconds += 5
    publish(service, 2, hosts=12, ready=False)
    assert value(service, "roost_table_hosts") == 12
    assert value(service, "roost_service_ready") == 0
    assert value(service, "roost_table_age_seconds") == 5


def test_the_parent_knows_better_whether_the_service_is_ready(service):
    publish(service, 1, ready=True)
    service.service_is(ready=False)
    assert value(service, "roost_service_ready") == 0
    service.service_is(ready=True)
    assert value(service, "roost_service_ready") == 1


def test_a_table_grows_older_while_its_worker_says_nothing(service, clock):
    publish(service, 1)
    clock.seconds += 60
    assert value(service, "roost_table_age_seconds") == 60


def test_histograms_are_added_up_bucket_by_bucket(service):
    publish(service, 1)
    publish(service, 2)
    assert value(service, "roost_decision_duration_seconds_count") == 2
    assert value(service, "roost_decision_duration_seconds_bucket", le="0.0005") == 0
    assert value(service, "roost_decision_duration_seconds_bucket", le="0.001") == 2
    assert value(service, "roost_decision_duration_seconds_bucket", le="+Inf") == 2


def test_one_worker_reads_like_a_process_of_its_own(service):
    metrics = publish(service, 1, conflicts=3)
    assert service.render() == metrics.render()


def test_totals_never_fall_whoever_ends(service):
    publish(service, 1, conflicts=4)
    service.worker_ended(1)
    service.worker_ended(1)
    publish(service, 1, conflicts=1)  # a process id may come again
    assert value(service, "roost_claim_conflicts_total") == 5
    assert value(service, "roost_decisions_total", result="placed") == 2


def test_what_workers_of_an_earlier_start_left_is_forgotten(service, clock):
    publish(service, 1, conflicts=4)
    assert WorkerMetrics(service._folder, clock).render() == b""


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"at": 1, "numbers": 3}', '{"at": "x", "numbers": {}}', "\0"])
def test_a_file_that_is_none_of_ours_is_passed_over(service, text):
    publish(service, 1, conflicts=2)
    (service._folder / "2.json").write_text(text)
    assert value(service, "roost_claim_conflicts_total") == 2


def test_a_metric_of_another_version_is_passed_over(service, clock):
    written = {"at": 1.0, "numbers": {"roost_future_total": [["roost_future_total", [], 1.0]]}}
    (service._folder / "2.json").write_text(json.dumps(written))
    assert service.render() == b""


def test_a_folder_that_is_gone_is_no_error(service, tmp_path):
    assert not Metrics.for_worker(tmp_path / "nowhere").publish()
    service._folder.rmdir()
    assert service.render() == b""
    service.worker_ended(5)


def test_a_process_of_its_own_publishes_nothing():
    assert not Metrics().publish()
