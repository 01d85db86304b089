# SPDX-License-Identifier: Apache-2.0
"""Several schedulers, room for exactly N servers, and clients that ask for more: N are placed, none is overbooked."""

from contextlib import ExitStack

import requests
from tests.interop.checks import print_table, tell, telling
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.asking import Asker, request
from tests.nova_stack.audit import CAPACITY, held_by_consumer, overbooked
from tests.nova_stack.paper_hosts import add_paper_hosts
from tests.nova_stack.request_log import RequestLog

COMPUTES, HOSTS, CLIENTS, ROUNDS = 2, 20, 8, 3
MEMORY_MB, TOO_MANY = 8192, 40
HEADINGS = ("schedulers", "round", "room", "placed", "no valid host", "other errors", "overbooked")


def run(checks, folder):
    """Two Roost schedulers with placement as it comes; then with a nova-scheduler beside them."""
    rows = []
    with running_cloud(folder, computes=COMPUTES, sizes="16,32768,500") as cloud, ExitStack() as ends:
        add_paper_hosts(cloud, HOSTS - COMPUTES)
        for number in (1, 2):
            ends.enter_context(running_roost(cloud, number))
        with Asker(cloud) as asker:
            rows += race(checks, cloud, asker, "two Roost")
            # nova-scheduler has no other protection against one room that is granted twice.
            cloud.restart_placement(retries=1)
            cloud.set_scheduler("nova")
            log = RequestLog(cloud)
            rows += race(checks, cloud, asker, "two Roost, one nova")
            see_both(checks, log.read())
            cloud.set_scheduler("none")
    print_table("races for the last room", HEADINGS, rows)


def see_both(checks, entries):
    """Both kinds of scheduler sent claims."""
    claims = [
        each for each in entries if each["method"] in ("PUT", "POST") and each["url"].startswith("/allocations")
    ]
    novas = sum((each["from"] or "").startswith("nova-scheduler") for each in claims)
    found = f"{novas} of {len(claims)} are nova-scheduler's"
    checks.see("claims of both kinds of scheduler", 0 < novas < len(claims), found)


def race(checks, cloud, asker, schedulers):
    """Fill the cloud several times from several clients: a row of figures for each."""
    rows = []
    for number in range(1, ROUNDS + 1):
        room = count_room(cloud)
        tell(f"{schedulers}: round {number}, {room + TOO_MANY} requests for {room} places")
        asked = [request(f"1,{MEMORY_MB},1") for _ in range(room + TOO_MANY)]
        answers = asker.ask(asked, CLIENTS, releases=False, on_answer=telling(len(asked)))
        rows.append((schedulers, number, room, *judge(checks, cloud, f"{schedulers}, round {number}", room, answers)))
        release_all(cloud)
    return rows


def judge(checks, cloud, what, room, answers):
    placed = {uuid for answer in answers if "hosts" in answer for uuid in answer["uuids"]}
    refused = [answer for answer in answers if answer.get("error") == "NoValidHost"]
    others = [answer["said"] for answer in answers if answer.get("error", "NoValidHost") != "NoValidHost"]
    held, over = held_by_consumer(cloud), overbooked(cloud)
    checks.see(f"{what}: {room} servers placed", len(placed) == room, len(placed))
    checks.see(f"{what}: all others raise NoValidHost", not others, others[:2] or len(refused))
    checks.see(f"{what}: no provider is overbooked", not over, over[:3] or "")
    checks.see(f"{what}: only those that were placed hold anything", set(held) == placed, len(held))
    return len(placed), len(refused), len(others), len(over)


def count_room(cloud):
    """How many servers fit in memory, by placement's inventories."""
    rows = cloud.rows(
        "placement",
        f"select {CAPACITY} from inventories i join resource_classes r on r.id = i.resource_class_id"
        " where r.name = 'MEMORY_MB'",
    )
    return sum(int(capacity) // MEMORY_MB for (capacity,) in rows)


def release_all(cloud):
    """Delete all allocations, through placement's API."""
    headers = {"X-Auth-Token": cloud.env["placement_token"]}
    for consumer in held_by_consumer(cloud):
        requests.delete(f"{cloud.env['placement']}/allocations/{consumer}", headers=headers, timeout=60)
