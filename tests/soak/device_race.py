# SPDX-License-Identifier: Apache-2.0
"""Schedulers race for PCI devices, dedicated CPUs and huge pages: exactly as many are given out as there are.

What is booked is read by SQL and JSON of its own, again and again while they race.
"""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection
from tests.soak.clients import Client, Clients, Figures, Progress, demand, no_progress
from tests.soak.device_worker import KINDS
from tests.soak.looking import Watch, open_own, rows_of

from roost import Fleet
from roost.ledger.audit import audit
from roost.records.fleet_import import import_fleet
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

GPUS, CPUS_PER_CELL, CELLS = 4, 4, 2
PINNED = CELLS * CPUS_PER_CELL // 2
"""Guests of two dedicated CPUs that fit on a host."""
PROCESSES = 4


def host_entry(number: int) -> dict[str, Any]:
    cells = [
        {
            "id": at,
            "cpuset": [],
            "pcpuset": [*range(at * CPUS_PER_CELL, (at + 1) * CPUS_PER_CELL)],
            "memory": 8192,
            "mempages": [{"size_kb": 4, "total": 1048576}, {"size_kb": 2048, "total": 512 * CPUS_PER_CELL // 2}],
        }
        for at in range(CELLS)
    ]
    pool = {"vendor_id": "10de", "product_id": "1eb8", "dev_type": "type-PCI"}
    return {
        "host": f"host-{number:02d}",
        "vcpus_total": 64,
        "total_usable_ram_mb": 65536,
        "total_usable_disk_gb": 1000,
        "numa": {"cells": cells},
        "pci_pools": [pool | {"numa_node": at, "count": GPUS // 2} for at in range(2)],
    }


def race_for_devices(
    address: str, hosts: int, rounds: int, seed: int, processes: int = PROCESSES, progress: Progress = no_progress
) -> Figures:
    """Fill the fleet, release half and fill it again, so many rounds; BrokenPromise unless it is full each time."""
    engine = open_engine(DatabaseOptions(connection=address), may_create=True)
    upgrade(engine)
    document = {"hosts": [host_entry(number) for number in range(hosts)]}
    import_fleet(engine, Fleet.load(document, keeps_records=True), datetime.now(UTC))
    own, there = open_own(address), {"gpu": hosts * GPUS, "pinned": hosts * PINNED}
    orders = [{"address": address, "name": f"{seed}.{at}"} for at in range(processes)]
    with Clients() as clients, Watch(own, booked_twice) as watch:
        racing = clients.start("tests.soak.device_worker", orders)
        for number in range(rounds):
            if number:
                send(racing, "release")
            send(racing, f"place {max(there.values()) // processes + 3}")
            demand(not watch.wrong, watch.wrong)
            demand(held(racing) == there, f"round {number}: {held(racing)} are placed, {there} can be")
            progress(number + 1)
        for client in racing:
            client.finish()
    with own.connect() as connection:
        demand(not booked_twice(connection), booked_twice(connection))
    wrong = [each for each in audit(engine, datetime.now(UTC), 3600) if each.kind not in ("leak",)]
    demand(not wrong, f"the audit found {wrong[:3]}")
    refusals = sum(client.said("done")[-1]["refusals"] for client in racing)
    engine.dispose()
    return {"processes": processes, "rounds": rounds, **there, "refusals": refusals, "looks": watch.looks}


def send(racing: list[Client], line: str) -> None:
    done = len(racing[0].said("done"))
    for client in racing:
        client.tell(line)
    for client in racing:
        client.wait_for(lambda each: len(each.said("done")) > done, "done")


def held(racing: list[Client]) -> dict[str, int]:
    """Kind -> how many the workers were given, less those they released."""
    words = Counter((word["word"], word["kind"]) for client in racing for word in client.words if "kind" in word)
    return {kind: words["placed", kind] - words["released", kind] for kind in KINDS}


def booked_twice(connection: Connection) -> str:
    """What is booked more often than it is there; an empty text if nothing is."""
    statement = "SELECT n.host, g.guest FROM guest_allocations g JOIN compute_nodes n ON n.id = g.node_id"
    booked: Counter[tuple[Any, ...]] = Counter()
    for host, guest in rows_of(connection, statement):
        record = json.loads(guest)
        for pool in record["devices"]:
            booked[host, "gpu", pool["numa_node"]] += pool["count"]
        for cell in record["cells"]:
            booked[host, "page", cell["id"]] += cell["memory"]
            for _, cpu in cell["cpu_pinning"]:
                booked[host, "cpu", cpu] += 1
    most = {"gpu": GPUS // 2, "cpu": 1, "page": 1024 * CPUS_PER_CELL // 2}
    wrong = [f"{key}: {count}" for key, count in booked.items() if count > most[key[1]]]
    return f"booked more often than there are: {wrong[:3]}" if wrong else ""
