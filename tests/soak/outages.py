# SPDX-License-Identifier: Apache-2.0
"""Acknowledgements are lost and a server is restarted under load: every answer is right, and no request fails."""

import time
from collections.abc import Callable, Sequence

from tests.soak.clients import PATIENCE_SECONDS, Client, Clients, Figures, Progress, demand, named, no_progress
from tests.soak.crashing import check_audit
from tests.soak.crashing import prepare as prepare_nodes
from tests.soak.looking import check_counts, holdings, open_own, wait_until_alone
from tests.soak.racing import HOSTS, judge, judge_count
from tests.soak.racing import prepare as prepare_fleet
from tests.store.ack_proxy import AckProxy
from tests.store.servers import Server

CLIENTS = 4
LOST_PART = 0.1
"""Part of the commits whose acknowledgement is lost."""


def lose_acknowledgements(
    server: Server, address: str, steps: int, seed: int, progress: Progress = no_progress
) -> Figures:
    """Clients do so many steps each; nothing is lost, done twice or reported wrongly, or BrokenPromise."""
    nodes, own = prepare_nodes(address), open_own(address)
    with AckProxy(server.port) as proxy, Clients() as clients:
        order = {"address": address.replace(f":{server.port}/", f":{proxy.port}/"), "nodes": nodes, "steps": steps}
        working = clients.start(
            "tests.soak.losing_worker", [order | {"name": f"{seed}.{number}"} for number in range(CLIENTS)]
        )
        proxy.lose_some(LOST_PART, seed)
        for client in working:
            client.tell("go")
        wait_until_done(working, lambda: sum(len(client.said("step")) for client in working), progress)
        lost = proxy.lost
        for client in working:
            client.finish()
    wait_until_alone(own)
    wanted = {who: tuple(held) for client in working for who, held in client.said("done")[0]["held"].items()}
    with own.connect() as connection:
        held = holdings(connection)
        check_counts(connection)
    check_audit(address)
    demand(held.keys() == wanted.keys(), f"held and not known, or known and not held: {named(held ^ wanted.keys())}")
    other = [f"{who} holds {held[who]}, not {wanted[who]}" for who in wanted if held[who] != wanted[who]]
    demand(not other, named(other))
    demand(lost > 0, "no acknowledgement was lost")
    return {"clients": CLIENTS, "steps": CLIENTS * steps, "lost": lost, "held": len(held)}


def restart_under_load(
    server: Server, address: str, requests: int, restarts: int, seed: int, progress: Progress = no_progress
) -> Figures:
    """Place requests, for all of which there is room, while the server restarts: every one is placed."""
    per_host = 2 * requests // HOSTS + 1
    prepare_fleet(address, per_host)
    orders = [
        {"address": address, "name": f"{seed}.{number}", "requests": requests // CLIENTS, "group": None}
        for number in range(CLIENTS)
    ]
    with Clients() as clients:
        placing = clients.start("tests.soak.race_worker", orders)
        for client in placing:
            client.tell("go")

        def answered() -> int:
            return sum(len(client.words) - 1 for client in placing)

        for restart in range(1, restarts + 1):
            wait_until(placing, lambda part=restart: answered() >= part * requests // (restarts + 1), "answered")
            server.restart()
            progress(restart)
        wait_until_done(placing, answered, no_progress)
        for client in placing:
            client.finish()
    told = [word for client in placing for word in client.words]
    judge_count(told, CLIENTS * (requests // CLIENTS), 0)
    with open_own(address).connect() as connection:
        judge(told, connection)
    refusals = sum(word["refusals"] for word in told if word["word"] == "done")
    return {"restarts": restarts, "placed": CLIENTS * (requests // CLIENTS), "refusals": refusals}


def wait_until(clients: Sequence[Client], is_so: Callable[[], bool], what: str) -> None:
    """Until it is so; BrokenPromise where a client ends before, or it takes too long."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        for client in clients:
            client.check_runs()
        demand(time.monotonic() < give_up, f"not {what} after {PATIENCE_SECONDS} s")
        time.sleep(0.02)


def wait_until_done(clients: Sequence[Client], count: Callable[[], int], progress: Progress) -> None:
    """Until all clients have said that they are done; a pause of PATIENCE_SECONDS is too long."""
    last = -1
    while not all(client.said("done") for client in clients):
        last = count()
        progress(last)
        wait_until(
            clients,
            lambda before=last: count() > before or all(client.said("done") for client in clients),
            "going on",
        )
