# SPDX-License-Identifier: Apache-2.0
"""One scheduler of `claims_bench.py`: it is told a number, places so many requests, and says how that went."""

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
    """A scheduler and the requests that come to it, one after the other, or to several threads at a time."""

    def __init__(self, scheduler: ClaimLoop, workload: Workload, number: int) -> None:
        assert workload.requests is not None
        assert workload.claims is not None
        self.scheduler, self.asked, self.threads = scheduler, workload.requests, workload.claims.threads
        self.chance = random.Random(f"{workload.seed}.{number}")
        self.placed = self.nowhere = 0
        self.request_ms: list[float] = []
        self.failed: list[BaseException] = []

    def make_jobs(self, count: int) -> list[tuple[RequestSpec, list[str]]]:
        """Requests with the uuids of their instances: both come from outside, and are not timed."""
        specs = make_requests(self.asked, self.chance.getrandbits(32))
        uuids = [
            [str(uuid.UUID(int=self.chance.getrandbits(128))) for _ in range(self.asked.instances)] for _ in specs
        ]
        return list(zip(specs, uuids, strict=True))[:count]

    def run(self, count: int) -> None:
        """Make requests, wait for a line, place them all, and say what it took."""
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
        taking = threading.Lock()
        threads = [threading.Thread(target=self.work, args=(jobs, taking)) for _ in range(self.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise self.failed[0]

    def work(self, jobs: Iterator[tuple[RequestSpec, list[str]]], taking: threading.Lock) -> None:
        """Take one job after the other until there is none."""
        while True:
            with taking:
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
