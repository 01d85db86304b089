# SPDX-License-Identifier: Apache-2.0
"""Requests over RabbitMQ: real schedulers, a ledger whose commits wait for the disk, and beside them two floors.

One is an echo (`echo_server.py`): the same messages through the same broker and libraries to a process that has
nothing to do. The other is an echo that commits one row first, as whoever remembers its answers has to. One caller
asks all three in turn, so that whatever else the machine does hits all of them; what Roost adds is the difference of
the medians. How many requests a second there are is asked by several callers at a time.
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
from roost.rpc import RequestContext
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.wire import request_to_object

ROOT = Path(__file__).resolve().parents[1]
SCHEDULER = "scheduler"
WARM_UP = 50
PATIENCE_SECONDS = 60

Run = dict[str, list[float]]
"""Topic -> milliseconds of each request."""


def measure_messages(workload: Workload) -> dict[str, Any]:
    """The figures, with as many schedulers as the workload says."""
    assert workload.requests is not None
    assert workload.messages is not None
    asked = workload.messages
    with all_cores(), stack_of(workload) as stack:
        stack.add_schedulers(asked.schedulers)
        bench = _Bench(stack, workload)
        with bench.floors():
            bench.in_turn(WARM_UP)
            runs = [bench.in_turn(workload.requests.count) for _ in range(workload.requests.repeats)]
            rates = [bench.at_once(asked.callers, workload.requests.count) for _ in range(workload.requests.repeats)]
        assert stack.audit()["findings"] == []
    return figures(workload, runs, rates)


def figures(workload: Workload, runs: list[Run], rates: list[float]) -> dict[str, Any]:
    """What is printed; times in milliseconds."""
    assert workload.messages is not None
    added = [_between(each[ECHO], each[SCHEDULER]) for each in runs]
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
        "commit_added_median_ms": _median(_between(each[ECHO], each[COMMIT]) for each in runs),
        "added_to_commit_median_ms": _median(_between(each[COMMIT], each[SCHEDULER]) for each in runs),
        "per_second": round(statistics.median(rates), 1),
        "per_second_of_runs": [round(each) for each in rates],
    }


def _between(floor: list[float], own: list[float]) -> float:
    return statistics.median(own) - statistics.median(floor)


def _median(of: Any) -> float:
    return round(statistics.median(of), 3)


@contextmanager
def stack_of(workload: Workload) -> Iterator[Stack]:
    """A broker, a durable PostgreSQL with the hosts of the workload, and no scheduler yet."""
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


class _Bench:
    """Callers of one stack."""

    def __init__(self, stack: Stack, workload: Workload) -> None:
        assert workload.requests is not None
        self.stack = stack
        specs = make_requests(workload.requests, workload.seed)
        self.requests = [request_to_object(spec) for spec in specs]
        self.nowhere = 0

    @contextmanager
    def floors(self) -> Iterator[None]:
        """A process of their own; their answer is one that a scheduler gave."""
        answer = self.stack.folder / "answer.json"
        answer.write_text(json.dumps(self.ask(SCHEDULER, self.requests[0])))
        places = (self.stack.broker_address, self.stack.exchange, self.stack.database, str(answer))
        words = [sys.executable, "-m", "benchmarks.echo_server", *places]
        server = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield
        finally:
            server.terminate()
            server.wait()

    def ask(self, topic: str, request: dict[str, Any]) -> Any:
        """One request for one instance, with objects and alternates, as nova's conductor asks."""
        args = {
            "spec_obj": request,
            "instance_uuids": [str(uuid.uuid4())],
            "return_objects": True,
            "return_alternates": True,
        }
        context = RequestContext.new(f"req-{args['instance_uuids'][0]}")
        try:
            return self.stack.transport.call(topic, "select_destinations", "4.5", args, context, PATIENCE_SECONDS)
        except RemoteNoValidHost:
            self.nowhere += 1
            return None

    def in_turn(self, count: int) -> Run:
        """Milliseconds of so many requests to each."""
        run: Run = {SCHEDULER: [], ECHO: [], COMMIT: []}
        for number in range(count):
            request = self.requests[number % len(self.requests)]
            for topic, times in run.items():
                started = time.perf_counter()
                self.ask(topic, request)
                times.append((time.perf_counter() - started) * 1000)
        return run

    def at_once(self, callers: int, count: int) -> float:
        """Requests a second, from so many callers."""
        numbers = iter(range(count))
        lock = threading.Lock()

        def work() -> None:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                self.ask(SCHEDULER, self.requests[number % len(self.requests)])

        threads = [threading.Thread(target=work) for _ in range(callers)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return count / (time.perf_counter() - started)
