# SPDX-License-Identifier: Apache-2.0
"""What the record of decisions costs: the rate of a durable scheduler that keeps it, and of one that does not.

Both schedulers serve one broker and one database. They are measured in turn, so that load on the machine, and the
fleet that fills up, affect both.
"""

from __future__ import annotations

import statistics
from typing import Any

from benchmarks.claims_bench import all_cores
from benchmarks.messages_bench import Bench, stack_of
from benchmarks.workload import Workload
from sqlalchemy import func, select

from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.history import decisions

RECORDED, UNRECORDED = "scheduler_recorded", "scheduler_unrecorded"
WARM_UP_REQUESTS = 100


def measure_recording(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind recording; name of each figure -> its value."""
    assert workload.requests is not None
    assert workload.messages is not None
    callers, asked = workload.messages.callers, workload.requests
    with all_cores(), stack_of(workload) as stack:
        for topic, records in ((RECORDED, True), (UNRECORDED, False)):
            topics = f"[DEFAULT]\nscheduler_topic = {topic}"
            stack.add_schedulers(workload.messages.schedulers, f"record_decisions = {records}\n{topics}")
        bench = Bench(stack, workload)
        for topic in (RECORDED, UNRECORDED):
            bench.measure_rate(callers, WARM_UP_REQUESTS, topic)
        runs = [
            [bench.measure_rate(callers, asked.count, topic) for topic in (RECORDED, UNRECORDED)]
            for _ in range(asked.repeats)
        ]
        assert _count_recorded(stack.database) >= asked.count * (asked.repeats - 1)
    ratios = sorted(recorded / unrecorded for recorded, unrecorded in runs)
    return {
        "requests": asked.count,
        "rate_ratio": round(statistics.median(ratios), 3),
        "rate_ratio_of_runs": [round(each, 2) for each in ratios],
        "per_second": round(statistics.median(each for each, _ in runs), 1),
        "per_second_unrecorded": round(statistics.median(each for _, each in runs), 1),
    }


def _count_recorded(address: str) -> int:
    engine = open_engine(DatabaseOptions(connection=address))
    try:
        with engine.connect() as connection:
            return int(connection.scalar(select(func.count()).select_from(decisions)) or 0)
    finally:
        engine.dispose()
