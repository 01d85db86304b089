# SPDX-License-Identifier: Apache-2.0
"""Rate of claims in the ledger alone, hosts chosen beforehand: plain ones, and ones with PCI devices and pinned CPUs.

Both kinds are claimed in turn, block by block, by one client with durable commits, so that their ratio does not
depend on how fast the machine is at the moment.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from benchmarks.claims_bench import all_cores, database, fill
from benchmarks.workload import Workload

from roost import Flavor, RequestSpec
from roost.hosts.guests import digest_of_asked
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.scheduler.all_options import read_options
from roost.scheduler.build import Preparation, build_pipeline
from roost.scheduler.claiming import claim_of
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

BLOCK = 20
PLAIN = Flavor(2, 2048, root_gb=20)


def measure_ledger(workload: Workload) -> dict[str, Any]:
    """Run a workload of kind ledger; name of each figure -> its median over the runs."""
    assert workload.requests is not None
    assert workload.claims is not None
    count, repeats = workload.requests.count, workload.requests.repeats
    with all_cores(), database(workload.claims.database) as (address, _):
        fill(address, workload)
        plain, pinned = choose(address, workload, count * (repeats + 1))
        engine = open_engine(DatabaseOptions(connection=address))
        ledger = Ledger(engine)
        runs = [
            run(ledger, plain[at : at + count], pinned[at : at + count])
            for at in range(0, count * (repeats + 1), count)
        ][1:]  # the first one is a warm-up
        engine.dispose()
    return {
        "database": workload.claims.database,
        "claims": count,
        "plain_per_second": round(statistics.median(each[0] for each in runs)),
        "guest_per_second": round(statistics.median(each[1] for each in runs)),
        "guest_to_plain": round(statistics.median(each[1] / each[0] for each in runs), 3),
        "guest_to_plain_of_runs": [round(each[1] / each[0], 3) for each in runs],
    }


def run(ledger: Ledger, plain: Sequence[Claim], pinned: Sequence[Claim]) -> tuple[float, float]:
    """Claims per second, of plain ones and of ones with devices and pinned CPUs."""
    seconds = [0.0, 0.0]
    for at in range(0, len(plain), BLOCK):
        for kind, claims in enumerate((plain, pinned)):
            block, started = claims[at : at + BLOCK], time.perf_counter()
            for claim in block:
                ledger.claim([claim])
            seconds[kind] += time.perf_counter() - started
    return len(plain) / seconds[0], len(pinned) / seconds[1]


def choose(address: str, workload: Workload, count: int) -> tuple[list[Claim], list[Claim]]:
    """So many claims of each kind, as a scheduler would make them; all of them fit."""
    engine, settings = open_engine(DatabaseOptions(connection=address)), read_options(explicit=workload.options)
    replica = make_host_manager(engine, settings.fill(SchedulerOptions), lambda: datetime.now(UTC), time.monotonic)
    replica.load()
    pipeline, chance = build_pipeline(settings), random.Random(workload.seed)
    extra_specs = {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"}
    with_guest = dataclasses.replace(PLAIN, extra_specs=extra_specs)
    preparation = Preparation(settings, pipeline.plugin_names)

    def claims(flavor: Flavor) -> Iterator[Claim]:
        spec = preparation.complete(RequestSpec(flavor=flavor))
        for _ in range(count):
            uuids = [str(uuid.UUID(int=chance.getrandbits(128)))]
            decision = pipeline.place(replica.table, spec, uuids, randomness=chance, clock=time.perf_counter_ns)
            yield claim_of(decision.selections[0], replica.table, digest_of_asked(spec))

    found = list(claims(PLAIN)), list(claims(with_guest))
    engine.dispose()
    return found
