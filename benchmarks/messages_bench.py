# SPDX-License-Identifier: Apache-2.0
"""Round trips over RabbitMQ to schedulers with a durable ledger, compared with two baselines of the same run.

The baselines (`echo_server.py`) get equal messages through the same broker and libraries: `echo` replies immediately,
`commit` first commits one row, as any server with durable decisions must. One caller alternates between the three, so
that load on the machine affects all of them. What Roost adds is the difference between the medians of scheduler and
echo; `added_ratio` is that difference divided by the median of the echo. Throughput is measured with several
concurrent callers.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.claims_bench import all_cores, database, gather_statistics, used_document
from benchmarks.echo_server import COMMIT, ECHO
from benchmarks.inputs import make_requests
from benchmarks.stopwatch import percentile
from benchmarks.workload import Workload
from tests.rpc.broker import RabbitMQ
from tests.services.stack import Stack

from roost.errors import RemoteNoValidHost
from roost.messages.context import RequestContext
from roost.messages.objects.request import request_to_object
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

ROOT = Path(__file__).resolve().parents[1]
SCHEDULER = "scheduler"
WARM_UP_REQUESTS = 50
TIMEOUT_SECONDS = 60

Run = dict[str, list[float]]
"""Topic -> round trip of each request, in milliseconds."""


def measure_messages(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind messages; name of each figure -> its value."""
    assert workload.requests is not None
    assert workload.messages is not None
    asked = workload.messages
    with all_cores(), stack_of(workload) as stack:
        stack.add_schedulers(asked.schedulers)
        bench = Bench(stack, workload)
        with bench.baselines():
            bench.time_alternately(WARM_UP_REQUESTS)
            runs = [bench.time_alternately(workload.requests.count) for _ in range(workload.requests.repeats)]
            rates = [
                bench.measure_rate(asked.callers, workload.requests.count) for _ in range(workload.requests.repeats)
            ]
        assert stack.audit()["findings"] == []
    return figures(workload, runs, rates)


def figures(workload: Workload, runs: list[Run], rates: list[float]) -> dict[str, Any]:
    """The figures of the result, each the median of the runs; times in milliseconds, rates in requests per second."""
    assert workload.messages is not None
    added = [_median_difference(each[ECHO], each[SCHEDULER]) for each in runs]
    added_median_ms = _median(added)
    echo_median_ms = _median(statistics.median(each[ECHO]) for each in runs)
    return {
        "schedulers": workload.messages.schedulers,
        "callers": workload.messages.callers,
        "requests": len(runs[0][ECHO]),
        "median_ms": _median(statistics.median(each[SCHEDULER]) for each in runs),
        "p99_ms": _median(percentile(each[SCHEDULER], 99) for each in runs),
        "echo_median_ms": echo_median_ms,
        "echo_p99_ms": _median(percentile(each[ECHO], 99) for each in runs),
        "added_median_ms": added_median_ms,
        "added_ratio": round(added_median_ms / echo_median_ms, 3),
        "added_of_runs": [round(each, 2) for each in added],
        "commit_added_median_ms": _median(_median_difference(each[ECHO], each[COMMIT]) for each in runs),
        "added_to_commit_median_ms": _median(_median_difference(each[COMMIT], each[SCHEDULER]) for each in runs),
        "per_second": round(statistics.median(rates), 1),
        "per_second_of_runs": [round(each) for each in rates],
    }


def _median_difference(baseline_ms: list[float], times_ms: list[float]) -> float:
    return statistics.median(times_ms) - statistics.median(baseline_ms)


def _median(of: Any) -> float:
    return round(statistics.median(of), 3)


@contextmanager
def stack_of(workload: Workload) -> Iterator[Stack]:
    """A broker and a durable PostgreSQL with the hosts of the workload; schedulers are added later."""
    broker = RabbitMQ()
    try:
        with database("postgresql") as (address, _), tempfile.TemporaryDirectory() as folder:
            stack = Stack(Path(folder), broker.address(), address, used_document(workload))
            engine = open_engine(DatabaseOptions(connection=address))
            gather_statistics(engine)
            engine.dispose()
            try:
                yield stack
            finally:
                stack.close()
    finally:
        broker.stop()


class Bench:
    """Measures the round trips and the throughput of one stack."""

    def __init__(self, stack: Stack, workload: Workload) -> None:
        assert workload.requests is not None
        self.stack = stack
        specs = make_requests(workload.requests, workload.seed)
        self.requests = [request_to_object(spec) for spec in specs]
        self.nowhere = 0

    @contextmanager
    def baselines(self) -> Iterator[None]:
        """Run echo_server in a process of its own, with a recorded reply of a scheduler."""
        answer = self.stack.folder / "answer.json"
        answer.write_text(json.dumps(self.call(SCHEDULER, self.requests[0])))
        arguments = (self.stack.broker_address, self.stack.exchange, self.stack.database, str(answer))
        command = [sys.executable, "-m", "benchmarks.echo_server", *arguments]
        server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.terminate()
            server.wait()

    def call(self, topic: str, request: dict[str, Any]) -> Any:
        """Send one request for one instance, as nova's conductor does; returns the reply, None if no host fits."""
        args = {
            "spec_obj": request,
            "instance_uuids": [str(uuid.uuid4())],
            "return_objects": True,
            "return_alternates": True,
        }
        context = RequestContext.new(f"req-{args['instance_uuids'][0]}")
        try:
            return self.stack.transport.call(topic, "select_destinations", "4.5", args, context, TIMEOUT_SECONDS)
        except RemoteNoValidHost:
            self.nowhere += 1
            return None

    def time_alternately(self, count: int) -> Run:
        """Send `count` requests to each of scheduler and baselines, alternating; round trips in milliseconds."""
        run: Run = {SCHEDULER: [], ECHO: [], COMMIT: []}
        for number in range(count):
            request = self.requests[number % len(self.requests)]
            for topic, times in run.items():
                started = time.perf_counter()
                self.call(topic, request)
                times.append((time.perf_counter() - started) * 1000)
        return run

    def measure_rate(self, callers: int, count: int, topic: str = SCHEDULER) -> float:
        """Requests per second of `count` requests sent by concurrent callers."""
        numbers = iter(range(count))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                self.call(topic, self.requests[number % len(self.requests)])

        threads = [threading.Thread(target=work) for _ in range(callers)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return count / (time.perf_counter() - started)
