# SPDX-License-Identifier: Apache-2.0
"""Several schedulers get the same requests to move an instance at the same moment: all give the same answer.

Each round is nova's live migration of one instance whose first target will not do. The source stays held throughout.
"""

import json
import random
import uuid

from sqlalchemy import Connection, Engine
from tests.soak.clients import Client, Clients, Figures, Progress, demand, no_progress
from tests.soak.looking import HELD, OVER_LIMIT, open_own, rows_of
from tests.soak.race_worker import ASKED
from tests.soak.racing import prepare

from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import Use, move_of
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

SCHEDULERS = 4


def move_together(
    address: str, rounds: int, seed: int, schedulers: int = SCHEDULERS, progress: Progress = no_progress
) -> Figures:
    """Move so many instances, each from all schedulers at once: figures, or BrokenPromise."""
    prepare(address, per_host=60)
    chance, own = random.Random(seed), open_own(address)
    engine = open_engine(DatabaseOptions(connection=address))
    ledger = Ledger(engine)
    with own.connect() as connection:
        nodes = dict(rows_of(connection, "SELECT host, uuid FROM compute_nodes"))
    with Clients() as clients:
        orders = [{"address": address, "name": f"{seed}.{at}"} for at in range(schedulers)]
        started = clients.start("tests.soak.move_worker", orders)
        for at in range(1, rounds + 1):
            instance, source = str(uuid.UUID(int=chance.getrandbits(128))), chance.choice(sorted(nodes))
            move_one(own, ledger, started, instance, source, str(nodes[source]))
            progress(at)
        for client in started:
            client.finish()
    with own.connect() as connection:
        left = rows_of(connection, HELD)
    demand(not left, f"held at the end, although everything was released: {left[:3]}")
    engine.dispose()
    return {"schedulers": schedulers, "moves": rounds, "answers": 2 * rounds * schedulers}


def move_one(own: Engine, ledger: Ledger, schedulers: list[Client], instance: str, source: str, node: str) -> None:
    """One instance: placed, moved, moved elsewhere, confirmed, deleted."""
    use = Use(ASKED["MEMORY_MB"], ASKED["DISK_GB"], ASKED["VCPU"])
    ledger.claim([Claim(instance, node, ASKED, use)])
    first = ask_all(schedulers, instance, [source])
    check(own, instance, source, first)
    second = ask_all(schedulers, instance, [source, first])
    check(own, instance, source, second)
    demand(ledger.finish_move(move_of(instance)), "no move was under way")
    demand(ledger.release([instance]) == 1, "it held nothing in the end")


def ask_all(schedulers: list[Client], instance: str, ignore: list[str]) -> str:
    """The host that all of them answer with."""
    for client in schedulers:
        client.tell(json.dumps({"instance": instance, "ignore": ignore}))
    for client in schedulers:
        client.wait_for(lambda each: bool(_answers(each, instance, ignore)), "asked for an answer")
    hosts = {_answers(client, instance, ignore)[0] for client in schedulers}
    demand(len(hosts) == 1, f"{instance} from {ignore}: the answers are {sorted(hosts)}")
    (host,) = hosts
    demand(not host.startswith("no host") and host not in ignore, f"{instance} from {ignore}: {host}")
    return host


def _answers(client: Client, instance: str, ignore: list[str]) -> list[str]:
    return [
        word["host"]
        for word in reversed(client.said("answer"))
        if word["instance"] == instance and word["ignore"] == ignore
    ]


def check(own: Engine, instance: str, source: str, target: str) -> None:
    """The source is the migration's, the target the instance's, and nothing else is held."""
    with own.connect() as connection:
        held = hosts_held(connection)
        over = rows_of(connection, OVER_LIMIT)
    wanted = {instance: {target}, move_of(instance): {source}}
    demand(held == wanted, f"{instance} moves from {source} to {target}; held is {held}")
    demand(not over, f"over the limit: {over[:3]}")


def hosts_held(connection: Connection) -> dict[str, set[str]]:
    """Consumer -> hosts that it holds something of."""
    hosts = {str(node): str(host) for host, node in rows_of(connection, "SELECT host, uuid FROM compute_nodes")}
    found: dict[str, set[str]] = {}
    for consumer, node, _, _ in rows_of(connection, HELD):
        found.setdefault(str(consumer), set()).add(hosts[str(node)])
    return found
