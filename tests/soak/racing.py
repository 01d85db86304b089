# SPDX-License-Identifier: Apache-2.0
"""Many schedulers place at once on a fleet that is too small for all: nobody gets what another one has.

While they race, somebody who knows nothing of Roost looks at the database again and again.
"""

import random
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection
from tests.soak.clients import (
    PATIENCE_SECONDS,
    Clients,
    Figures,
    Progress,
    Word,
    demand,
    named,
    no_progress,
)
from tests.soak.looking import OVER_LIMIT, SHARED_HOSTS, Watch, check_counts, holdings, open_own, rows_of
from tests.soak.race_worker import ASKED

from roost import Fleet
from roost.records.fleet_import import import_fleet
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema_upgrade import upgrade

HOSTS = 50
PROCESSES = 8
FEWEST_LOOKS = 3


def prepare(address: str, per_host: int) -> None:
    """Hosts with room for so many each: of CPUs, of memory or of disk there is just enough, of the others more."""
    engine = open_engine(DatabaseOptions(connection=address), may_create=True)
    upgrade(engine)
    fleet = Fleet.load({"hosts": [host_entry(number, per_host) for number in range(HOSTS)]}, keeps_records=True)
    import_fleet(engine, fleet, datetime.now(UTC))
    engine.dispose()


def host_entry(number: int, per_host: int) -> Word:
    """Four overcommitted CPUs are one real one, and some memory belongs to the host itself."""
    plenty = per_host * (2 + number % 5)
    cpus, memory, disk = [per_host if number % 3 == scarce else plenty for scarce in range(3)]
    return {
        "host": f"host-{number:02d}",
        "vcpus_total": cpus / 4 if cpus % 4 == 0 else cpus,
        "cpu_allocation_ratio": 4.0 if cpus % 4 == 0 else 1.0,
        "total_usable_ram_mb": memory * ASKED["MEMORY_MB"] + 512,
        "reserved_ram_mb": 512,
        "ram_allocation_ratio": 1.0,
        "total_usable_disk_gb": disk * ASKED["DISK_GB"],
        "disk_allocation_ratio": 1.0,
    }


def race(
    address: str,
    requests: int,
    per_host: int,
    seed: int,
    processes: int = PROCESSES,
    progress: Progress = no_progress,
) -> Figures:
    """Place so many requests of one instance each; as many as there is room for are placed, or BrokenPromise."""
    prepare(address, per_host)
    told, figures = run(address, requests, processes, seed, None, over_limit, progress)
    room = HOSTS * per_host
    judge_count(told, min(room, requests), max(0, requests - room))
    return figures


def race_apart(
    address: str, members: int, seed: int, processes: int = PROCESSES, progress: Progress = no_progress
) -> Figures:
    """The members of one anti-affinity group, from all sides at once: all are placed, never two on a host."""
    prepare(address, per_host=60)
    group = str(uuid.UUID(int=random.Random(seed).getrandbits(128)))
    told, figures = run(address, members, processes, seed, group, shared_hosts, progress)
    judge_count(told, members, 0)
    return figures


def over_limit(connection: Connection) -> str:
    found = rows_of(connection, OVER_LIMIT)
    return f"over the limit (host, class, held, said, limit): {found[:3]}" if found else ""


def shared_hosts(connection: Connection) -> str:
    found = rows_of(connection, SHARED_HOSTS)
    return f"members of the group share hosts (host, members): {found[:3]}" if found else over_limit(connection)


def run(
    address: str,
    requests: int,
    processes: int,
    seed: int,
    group: str | None,
    look: Callable[[Connection], str],
    progress: Progress,
) -> tuple[list[Word], Figures]:
    """All processes at once, under watch: what they said, and the figures."""
    own = open_own(address)
    parts = [requests // processes + (at < requests % processes) for at in range(processes)]
    orders = [
        {"address": address, "name": f"{seed}.{at}", "requests": part, "group": group}
        for at, part in enumerate(parts)
    ]
    with Clients() as clients, Watch(own, look) as watch:
        racing = clients.start("tests.soak.race_worker", orders)
        looks, started = watch.looks, time.perf_counter()
        for client in racing:
            client.tell("go")
        wait_for_all(clients, requests, watch, progress)
        seconds = time.perf_counter() - started
        looks = watch.looks - looks
        for client in racing:
            client.finish()
    demand(not watch.wrong, watch.wrong)
    demand(looks >= FEWEST_LOOKS, f"only {looks} looks at the database in {seconds:.1f} s")
    told = [word for client in racing for word in client.words]
    with own.connect() as connection:
        judge(told, connection)
    refusals = sum(word["refusals"] for word in told if word["word"] == "done")
    placed = sum(word["word"] == "placed" for word in told)
    return told, {
        "processes": processes,
        "placed": placed,
        "nowhere": requests - placed,
        "seconds": round(seconds, 1),
        "refusals": refusals,
        "looks": looks,
    }


def wait_for_all(clients: Clients, requests: int, watch: Watch, progress: Progress) -> None:
    """Until all are done; whoever watches the database may end it sooner."""
    last, give_up = -1, time.monotonic() + PATIENCE_SECONDS
    while not all(client.said("done") for client in clients.all):
        demand(not watch.wrong, watch.wrong)
        answered = sum(len(client.words) - 1 for client in clients.all)
        if answered != last:
            last, give_up = answered, time.monotonic() + PATIENCE_SECONDS
            progress(min(answered, requests))
        demand(time.monotonic() < give_up, f"{last} of {requests} requests were answered, then nothing happened")
        for client in clients.all:
            client.check_runs()
        time.sleep(0.05)


def judge_count(told: list[Word], placed: int, nowhere: int) -> None:
    found = Counter(word["word"] for word in told)
    demand(
        (found["placed"], found["nowhere"]) == (placed, nowhere),
        f"{found['placed']} placed and {found['nowhere']} not; it must be {placed} and {nowhere}",
    )


def judge(told: list[Word], connection: Connection) -> None:
    """Whoever was told that it is placed has just what it asked for, there; nobody else has anything."""
    hosts = {str(node): host for node, host in rows_of(connection, "SELECT uuid, host FROM compute_nodes")}
    wanted = {word["instance"]: (word["host"], ASKED) for word in told if word["word"] == "placed"}
    held = {who: (hosts[node], amounts) for who, (node, amounts) in holdings(connection).items()}
    lost, unknown = wanted.keys() - held.keys(), held.keys() - wanted.keys()
    demand(not lost, f"these were told that they are placed, and hold nothing: {named(lost)}")
    demand(not unknown, f"these hold something, and nobody was told so: {named(unknown)}")
    other = [f"{who} holds {held[who]}, not {wanted[who]}" for who in wanted if held[who] != wanted[who]]
    demand(not other, named(other))
    check_counts(connection)
