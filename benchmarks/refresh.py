# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.refresh`: the cost of an incremental refresh of the replica, relative to a full load.

Starts a private PostgreSQL, imports a fleet, and measures in one run full loads and refreshes of 20 hosts.
Prints one JSON object; the exit status is 1 where a refresh takes more than a fiftieth of a full load.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from benchmarks.claims_bench import gather_statistics
from sqlalchemy import Engine, insert, update
from tests.store.servers import PostgreSQL

from roost.records.fleet_import import import_fleet
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.scheduler.replica import HostManager
from roost.sources.fleet_file import Fleet
from roost.store.change_log import NODES, USAGE, Change, record_changes, usage_key
from roost.store.engine import BEGINS_WRITING, open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import allocations, compute_nodes, consumers, inventories
from roost.store.schema_upgrade import upgrade

BOUND = 1 / 50
CHANGED = 20
ZONES = 4


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.refresh", description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--instances", type=int, default=5, help="on each host")
    parser.add_argument("--repeats", type=int, default=30, help="refreshes of each kind")
    chosen = parser.parse_args(arguments)
    server = PostgreSQL()
    try:
        engine = open_engine(DatabaseOptions(connection=server.address("postgres")))
        upgrade(engine)
        import_fleet(engine, make_fleet(chosen.hosts, chosen.instances), datetime.now(UTC))
        gather_statistics(engine)
        found = measure(engine, chosen.repeats)
        engine.dispose()
    finally:
        server.stop()
    figures = {"name": "refresh", "hosts": chosen.hosts, "instances_per_host": chosen.instances, **found}
    print(json.dumps(figures))
    return 0 if found["is_met"] else 1


def make_fleet(hosts: int, instances: int) -> Fleet:
    """A fleet of equal hosts in ZONES zones, each with `instances` instances."""
    entries = [make_host(number, instances) for number in range(hosts)]
    aggregates = [
        {
            "name": f"az{zone}",
            "metadata": {"availability_zone": f"az{zone}"},
            "hosts": [each["host"] for each in entries[zone::ZONES]],
        }
        for zone in range(ZONES)
    ]
    return Fleet.load({"hosts": entries, "aggregates": aggregates}, keeps_records=True)


def make_host(number: int, instances: int) -> dict[str, object]:
    resources = {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}
    return {
        "host": f"node-{number:06}",
        "vcpus_total": 64,
        "total_usable_ram_mb": 262_144,
        "total_usable_disk_gb": 4000,
        "traits": ["HW_CPU_X86_AVX2", "COMPUTE_NODE", "CUSTOM_RACK"],
        "stats": {"io_workload": "0"},
        "instances": [
            {"uuid": f"00000000-0000-4000-8000-{number:06}{at:06}", "project_id": "p", "resources": resources}
            for at in range(instances)
        ],
    }


def measure(engine: Engine, repeats: int) -> dict[str, object]:
    manager = make_host_manager(engine, SchedulerOptions(), lambda: datetime.now(UTC), time.monotonic)
    full = statistics.median(timed(manager.load)[0] for _ in range(3))
    ids = [manager.node_id(row) for row in range(len(manager.table))]
    claimed = median_refresh(manager, repeats, lambda at: claim(engine, chosen_ids(ids, at), at))
    reported = median_refresh(manager, repeats, lambda at: report(engine, chosen_ids(ids, at), at))
    idle = statistics.median(timed(manager.refresh)[0] for _ in range(repeats))
    ratio = max(claimed, reported) / full
    return {
        "full_ms": round(1000 * full, 2),
        "refresh_after_20_claims_ms": round(1000 * claimed, 3),
        "refresh_after_20_reports_ms": round(1000 * reported, 3),
        "refresh_of_nothing_ms": round(1000 * idle, 3),
        "ratio": round(ratio, 5),
        "bound": BOUND,
        "is_met": ratio <= BOUND,
    }


def timed(work: Callable[[], object]) -> tuple[float, object]:
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def median_refresh(manager: HostManager, repeats: int, change: Callable[[int], None]) -> float:
    seconds = []
    for at in range(repeats):
        change(at)
        taken, refreshed = timed(manager.refresh)
        assert refreshed.changed == CHANGED, refreshed
        seconds.append(taken)
    return statistics.median(seconds)


def chosen_ids(ids: list[int], at: int) -> list[int]:
    return [ids[(37 * at + 101 * number) % len(ids)] for number in range(CHANGED)]


def claim(engine: Engine, ids: list[int], at: int) -> None:
    """Write one more instance on each of these nodes, as the ledger does."""
    uuids = [f"11111111-0000-4000-8000-{at:06}{number:06}" for number in range(len(ids))]
    with engine.connect().execution_options(**BEGINS_WRITING) as connection, connection.begin():
        connection.execute(insert(consumers), [{"uuid": uuid, "project_id": "p", "details": {}} for uuid in uuids])
        pairs = list(zip(ids, uuids, strict=True))
        rows = [{"consumer_uuid": uuid, "node_id": each, "resource_class": "VCPU", "used": 1} for each, uuid in pairs]
        connection.execute(insert(allocations), rows)
        used = update(inventories).where(inventories.c.node_id.in_(ids), inventories.c.resource_class == "VCPU")
        connection.execute(used.values(used=inventories.c.used + 1))
        nodes = update(compute_nodes).where(compute_nodes.c.id.in_(ids))
        connection.execute(nodes.values(vcpus_used=compute_nodes.c.vcpus_used + 1))
        record_changes(connection, [Change(USAGE, usage_key(*pair)) for pair in pairs])


def report(engine: Engine, ids: list[int], at: int) -> None:
    """Write changed stats for each of these nodes, as a report of an agent does."""
    with engine.connect().execution_options(**BEGINS_WRITING) as connection, connection.begin():
        nodes = update(compute_nodes).where(compute_nodes.c.id.in_(ids))
        connection.execute(nodes.values(stats={"io_workload": "0", "number": at}, current_workload=at + 1))
        record_changes(connection, [Change(NODES, str(each)) for each in ids])


if __name__ == "__main__":
    sys.exit(main())
