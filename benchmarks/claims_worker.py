# SPDX-License-Identifier: Apache-2.0
"""A scheduler process of `claims_bench.py`: reads a number from stdin, places as many requests, reports totals."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.inputs import make_requests, scheduler_options
from benchmarks.stopwatch import settled_memory
from benchmarks.workload import Workload, read_workload
from tests.soak.clients import say
from tests.soak.race_worker import open_scheduler

from roost import NoValidHost, RequestSpec
from roost.scheduler.claiming import ClaimLoop


class Worker:
    """A scheduler and its requests, which one thread or several process."""

    def __init__(self, scheduler: ClaimLoop, workload: Workload, number: int) -> None:
        assert workload.requests is not None
        assert workload.claims is not None
        self.scheduler, self.asked, self.threads = scheduler, workload.requests, workload.claims.threads
        self.randomness = random.Random(f"{workload.seed}.{number}")
        self.placed = self.nowhere = 0
        self.request_ms: list[float] = []
        self.failed: list[BaseException] = []

    def make_jobs(self, count: int) -> list[tuple[RequestSpec, list[str]]]:
        """Requests with the uuids of their instances; built before the time is taken, as clients send them."""
        specs = make_requests(self.asked, self.randomness.getrandbits(32))
        uuids = [
            [str(uuid.UUID(int=self.randomness.getrandbits(128))) for _ in range(self.asked.instances)] for _ in specs
        ]
        return list(zip(specs, uuids, strict=True))[:count]

    def run(self, count: int) -> None:
        """Build requests, report `prepared`, wait for a line on stdin, place them, and report the totals."""
        jobs = self.make_jobs(count)
        self.placed, self.nowhere, self.request_ms = 0, 0, []
        with settled_memory():
            say("prepared")
            sys.stdin.readline()
            refusals, cpu = self.scheduler.refusals, time.process_time()
            self.work_all(iter(jobs))
        say(
            "done",
            ended=time.perf_counter(),
            placed=self.placed,
            nowhere=self.nowhere,
            refusals=self.scheduler.refusals - refusals,
            cpu_seconds=time.process_time() - cpu,
            request_ms=[round(each, 3) for each in self.request_ms],
        )

    def work_all(self, jobs: Iterator[tuple[RequestSpec, list[str]]]) -> None:
        if self.threads == 1:
            self.work(jobs, threading.Lock())
            return
        lock = threading.Lock()
        threads = [threading.Thread(target=self.work, args=(jobs, lock)) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def work(self, jobs: Iterator[tuple[RequestSpec, list[str]]], lock: threading.Lock) -> None:
        """Place jobs from the shared iterator until it is exhausted."""
        while True:
            with lock:
                job = next(jobs, None)
            if job is None:
                return
            try:
                self.place(*job)
            except BaseException as error:
                self.failed.append(error)
                raise

    def place(self, spec: RequestSpec, uuids: list[str]) -> None:
        started = time.perf_counter_ns()
        try:
            self.scheduler.select(spec, uuids)
            self.placed += len(uuids)
        except NoValidHost:
            self.nowhere += 1
        self.request_ms.append((time.perf_counter_ns() - started) / 1e6)


def main(orders: dict[str, Any]) -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    workload = read_workload(Path(orders["workload"]))
    scheduler = open_scheduler(
        orders["address"], random.Random(orders["number"]), explicit=scheduler_options(workload)
    )
    worker = Worker(scheduler, workload, orders["number"])
    say("ready")
    while (line := sys.stdin.readline().strip()).isdecimal():
        worker.run(int(line))
