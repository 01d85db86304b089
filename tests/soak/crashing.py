# SPDX-License-Identifier: Apache-2.0
"""Clients and servers are killed in the middle of their work: what was claimed is there, whole; all else is not.

A client says what it is about to claim, and after the ledger has answered that it is claimed (`crash_worker.py`).
What the database may hold follows from the last words on each request.
"""

import datetime
import random
import time
import uuid
from collections.abc import Sequence

from sqlalchemy import Engine, insert
from tests.soak.clients import Client, Clients, Figures, Progress, Word, demand, named, no_progress
from tests.soak.looking import Holding, check_counts, holdings, open_own, wait_until_alone
from tests.store.servers import Server

from roost.ledger.audit import audit
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions
from roost.store.schema.fleet import compute_nodes, inventories
from roost.store.schema_upgrade import upgrade

LARGE_NODES, SMALL_NODES = 19, 1
GROUPS = 30
CLIENTS = 3
LONGEST_LIFE_SECONDS = 0.3
"""A client is killed at a random moment within so long after it was ready."""
LONGEST_OUTAGE_SECONDS = 0.5
KILLS_BETWEEN_AUDITS = 10


def prepare(address: str) -> list[str]:
    """Tables and nodes: the uuids of the nodes. Some are so small that claims are refused."""
    engine = open_engine(DatabaseOptions(connection=address), may_create=True)
    upgrade(engine)
    sizes = [100_000] * LARGE_NODES + [64] * SMALL_NODES
    nodes = [str(uuid.UUID(int=number)) for number in range(1, len(sizes) + 1)]
    with engine.begin() as connection:
        for number, (node, vcpus) in enumerate(zip(nodes, sizes, strict=True), start=1):
            size = {"vcpus": vcpus, "memory_mb": 512 * vcpus, "free_ram_mb": 512 * vcpus}
            names = {"id": number, "uuid": node, "host": f"host{number}", "hypervisor_hostname": f"node{number}"}
            connection.execute(insert(compute_nodes), {**names, **size, "free_disk_gb": 100, "running_vms": 0})
            totals = {"VCPU": vcpus, "MEMORY_MB": 512 * vcpus}
            rows = [{"node_id": number, "resource_class": name, "total": total} for name, total in totals.items()]
            connection.execute(insert(inventories), rows)
    engine.dispose()
    return nodes


class _Orders:
    """What clients are told; each has a name of its own."""

    def __init__(self, address: str, seed: int) -> None:
        nodes, chance = prepare(address), random.Random(seed)
        groups = [str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(GROUPS)]
        self._order = {"address": address, "nodes": nodes, "groups": groups}
        self._seed, self._count = seed, 0

    def take(self, count: int) -> list[Word]:
        """For so many more clients."""
        self._count += count
        return [self._order | {"name": f"{self._seed}.{self._count - at}"} for at in range(count)]


def kill_clients(address: str, kills: int, seed: int, progress: Progress = no_progress) -> Figures:
    """Kill claiming processes at random moments, others start in their place; figures, or BrokenPromise."""
    orders, chance = _Orders(address, seed), random.Random(seed)
    own = open_own(address)
    with Clients() as clients:
        alive = clients.start("tests.soak.crash_worker", orders.take(CLIENTS))
        for kill in range(1, kills + 1):
            time.sleep(chance.uniform(0, LONGEST_LIFE_SECONDS))
            alive.pop(chance.randrange(len(alive))).kill()
            alive += clients.start("tests.soak.crash_worker", orders.take(1))
            if kill % KILLS_BETWEEN_AUDITS == 0:
                check_audit(address)
            progress(kill)
        return {"kills": kills} | finish(own, address, alive, clients.all)


def kill_servers(server: Server, address: str, kills: int, seed: int, progress: Progress = no_progress) -> Figures:
    """Kill the whole server at random moments and start it again: the same clients go on by themselves."""
    orders, chance = _Orders(address, seed), random.Random(seed)
    own = open_own(address)
    with Clients() as clients:
        alive = clients.start("tests.soak.crash_worker", orders.take(CLIENTS))
        for kill in range(1, kills + 1):
            time.sleep(chance.uniform(0.1, 0.1 + LONGEST_LIFE_SECONDS))
            server.kill()
            time.sleep(chance.uniform(0, LONGEST_OUTAGE_SECONDS))
            server.start_again()
            wait_for_progress(alive)
            check_audit(address)
            progress(kill)
        return {"kills": kills} | finish(own, address, alive, clients.all)


def wait_for_progress(clients: Sequence[Client]) -> None:
    """Until each has done two things more for each of its threads."""
    before = {id(client): _done(client) for client in clients}
    for client in clients:
        client.wait_for(lambda each: _done(each) >= before[id(each)] + 4, "at work again after the server was back")


def _done(client: Client) -> int:
    return len(client.said("claimed")) + len(client.said("released"))


def finish(own: Engine, address: str, alive: Sequence[Client], everybody: Sequence[Client]) -> Figures:
    """Stop those who live, and judge what all of them left behind."""
    wait_for_progress(alive)
    for client in alive:
        client.finish()
    wait_until_alone(own)
    leaks = check_audit(address)
    with own.connect() as connection:
        held = holdings(connection)
        check_counts(connection)
    demand(leaks == len(held), f"the audit finds {leaks} leaks, and {len(held)} consumers hold something")
    return judge([client.words for client in everybody], held)


def check_audit(address: str) -> int:
    """Every claim is whole or absent, whoever claims meanwhile: how many have no server, as none here has."""
    engine = open_engine(DatabaseOptions(connection=address))
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    found = audit(engine, later, grace_seconds=0)
    engine.dispose()
    wrong = [finding for finding in found if finding.kind != "leak"]
    demand(not wrong, f"the audit finds {named(wrong)}")
    return len(found)


def judge(told: Sequence[Sequence[Word]], held: Holding) -> Figures:
    """Compare what clients said with what is there."""
    wanted: dict[str, Holding] = {}
    last: dict[str, str] = {}
    gave_up = 0
    for words in told:
        for word in words:
            if word["word"] == "claiming":
                wanted[word["request"]] = {who: (node, amounts) for who, (node, amounts) in word["wanted"].items()}
            if "request" in word:
                last[word["request"]] = word["word"]
            gave_up += word["word"] == "unreachable"
    unknown = held.keys() - {who for each in wanted.values() for who in each}
    demand(not unknown, f"consumers whom nobody claimed for hold something: {named(unknown)}")
    for request, word in last.items():
        judge_request(request, word, wanted[request], held)
    in_doubt = [request for request, word in last.items() if word in ("claiming", "releasing")]
    return {
        "requests": len(last),
        "held": sum(word == "claimed" for word in last.values()),
        "refused": sum(word == "refused" for word in last.values()),
        "in_doubt": len(in_doubt),
        "in_doubt_and_there": sum(any(who in held for who in wanted[request]) for request in in_doubt),
        "gave_up": gave_up,
    }


def judge_request(request: str, word: str, wanted: Holding, held: Holding) -> None:
    """One request by the last word on it."""
    there = [who for who in wanted if who in held]
    if word == "claimed":
        missing = wanted.keys() - held.keys()
        demand(not missing, f"request {request} was told that it is claimed; not there are {named(missing)}")
    elif word in ("refused", "released"):
        demand(not there, f"request {request} was {word}, and holds something all the same: {named(there)}")
    else:
        whole = len(there) in (0, len(wanted))
        demand(whole, f"{word} request {request} was interrupted: {len(there)} of {len(wanted)} are there")
    for who in there:
        demand(held[who] == wanted[who], f"{who} of request {request} holds {held[who]}, not {wanted[who]}")
