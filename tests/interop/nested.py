# SPDX-License-Identifier: Apache-2.0
"""GPUs in providers below those of the hosts: every request is decided, and every decision can be asked about.

Decisions are recorded in a state folder. While the file there is locked, requests go on.
"""

import collections
import contextlib
import io
import json
import random
import re
import sqlite3
import uuid
from concurrent.futures import ThreadPoolExecutor

import requests
from tests.interop.checks import median, percentile_99, print_table, tell, telling
from tests.interop.faults import wait_until
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.asking import Asker, request
from tests.nova_stack.audit import held_by_consumer, overbooked
from tests.nova_stack.paper_hosts import add_paper_hosts

from roost.cli.main import main

COMPUTES, HOSTS, CHILDREN = 2, 40, 8
MIXED, LOCKED, CLIENTS, SEED = 100, 20, 4, 1
RECORD_SECONDS, LONGEST_SECONDS = 15, 5.0
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.36"}
PLAIN, VGPU = {}, {"extra_specs": {"resources:VGPU": "1"}}
SEQUENCE = {"plain": PLAIN, "VGPU": VGPU}
ORDER = ("plain", "VGPU", "plain", "plain", "VGPU", "VGPU", "plain")
KINDS = {
    "plain": PLAIN,
    "larger": {"size": "2,2048,10"},
    "three of one request": {"count": 3},
    "a VGPU": VGPU,
    "two with a VGPU each": VGPU | {"count": 2},
    "a VGPU in a group of its own": {"extra_specs": {"resources1:VGPU": "1"}},
    "more memory than any host has": {"size": "1,9999999,1"},
    "more VGPUs than any host has": {"extra_specs": {"resources:VGPU": "9"}},
}
IMPOSSIBLE = ("more memory than any host has", "more VGPUs than any host has")
WATCHED = r'^(roost_(?:watcher_errors|decisions_unrecorded)_total|roost_decisions_total\{result="error"\})\S* (\S+)$'


def run(checks, folder):
    """The sequence, mixed requests, requests while the file of decisions is locked; then every decision is asked."""
    state = folder / "state"
    state.mkdir()
    with running_cloud(folder, computes=COMPUTES, sizes="16,32768,500") as cloud:
        add_paper_hosts(cloud, HOSTS - COMPUTES)
        children = add_gpus(cloud)
        with running_roost(cloud, options=f"state_directory = {state}\n") as roost, Asker(cloud) as asker:
            asked = [("sequence", name, SEQUENCE[name]) for name in ORDER]
            found = ask_all(checks, asker, asked, clients=1)
            chance = random.Random(SEED)
            names = [chance.choice(list(KINDS)) for _ in range(MIXED)]
            found += ask_all(checks, asker, [("mixed", name, KINDS[name]) for name in names], CLIENTS)
            with locked(state / "decisions.sqlite"):
                found += ask_all(checks, asker, [("file locked", "plain", PLAIN)] * LOCKED, CLIENTS)
            judge_claims(checks, cloud, found, children)
            see_records(checks, cloud, found)
            see_metrics(checks, roost)
    print_table("nested providers", ("part", "requests", "placed", "no valid host", "ms", "99 %"), figures(found))


def add_gpus(cloud):
    """Children of every host, each with one VGPU, made through placement's API: child -> uuid of its host."""
    roots = [uuid for (uuid,) in cloud.rows("placement", "select uuid from resource_providers")]
    assert len(roots) == HOSTS, roots
    children = {str(uuid.uuid4()): (root, number) for root in roots for number in range(CHILDREN)}
    tell(f"adding {len(children)} providers with a VGPU each")
    address = f"{cloud.env['placement']}/resource_providers"

    def add(child):
        root, number = children[child]
        body = {"uuid": child, "name": f"{root}_gpu{number}", "parent_provider_uuid": root}
        requests.post(address, json=body, headers=HEADERS, timeout=60).raise_for_status()
        room = {"inventories": {"VGPU": {"total": 1}}, "resource_provider_generation": 0}
        requests.put(f"{address}/{child}/inventories", json=room, headers=HEADERS, timeout=60).raise_for_status()

    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(add, children))
    return {child: root for child, (root, _) in children.items()}


def ask_all(checks, asker, asked, clients):
    """Put requests by nova's client: (part, kind, request, answer) of each. Impossible ones raise NoValidHost."""
    part = asked[0][0]
    made = [request(**more) for _, _, more in asked]
    answers = asker.ask(made, clients, releases=False, on_answer=telling(len(made)))
    found = [(part, kind, each, answer) for (_, kind, _), each, answer in zip(asked, made, answers, strict=True)]
    failed = [f"{kind}: {answer.get('said')}" for _, kind, _, answer in found if not is_as_expected(kind, answer)]
    checks.see(f"{part}: {len(made)} requests, 0 failures", not failed, failed[:3] or "")
    longest = max(answer["seconds"] for answer in answers)
    checks.see(f"{part}: none takes longer than {LONGEST_SECONDS:g} s", longest < LONGEST_SECONDS, f"{longest:.2f} s")
    return found


def is_as_expected(kind, answer):
    return answer.get("error") == "NoValidHost" if kind in IMPOSSIBLE else "hosts" in answer


@contextlib.contextmanager
def locked(file):
    """Context in which nobody else can write a SQLite file: the recorder has to wait."""
    with contextlib.closing(sqlite3.connect(file, timeout=30, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def judge_claims(checks, cloud, found, children):
    """What was answered is what placement holds: GPUs of children of the chosen host, each given out once."""
    held, wrong = held_by_consumer(cloud), []
    for _, _, asked, answer in found:
        gpus = sum(int(n) for name, n in asked.get("extra_specs", {}).items() if name.endswith(":VGPU"))
        for consumer, node in zip(asked["uuids"], answer.get("nodes", ()), strict=False):
            holds = held.get(consumer, {})
            below = [child for child in holds if children.get(child) == node]
            if node not in holds or len(below) != gpus or len(holds) != 1 + gpus:
                wrong.append((consumer, node, holds))
    checks.see("GPUs are claimed of children of the chosen hosts", not wrong, wrong[:2] or "")
    placed = {consumer for _, _, asked, answer in found if "hosts" in answer for consumer in asked["uuids"]}
    checks.see("only those that were placed hold anything", set(held) == placed, len(held))
    over = overbooked(cloud)
    checks.see("no provider is overbooked", not over, over[:3] or "")


def see_records(checks, cloud, found):
    """Each decision is in the list, and can be shown and explained by the id of its request."""
    files = [word for file in ("nova.conf", "roost1.conf") for word in ("--config-file", str(cloud.dir / file))]

    def recorded():
        return {each["request_id"]: each for each in roost("decision", "list", "--limit", "1000", *files)[1]}

    wait_until(lambda: len(recorded()) >= len(found), RECORD_SECONDS)
    listed, wrong, explained = recorded(), [], collections.Counter()
    checks.see("each decision is recorded, once", len(listed) == len(found), f"{len(listed)} of {len(found)}")
    tell(f"asking about {len(found)} decisions")
    for _, kind, asked, answer in found:
        request_id = answer["request_id"]
        shown_code, shown = roost("decision", "show", request_id, *files)
        why_code, why = roost("decision", "why", request_id, *files)
        hosts = [each[0] for each in shown.get("data", {}).get("selections", ())] if shown else None
        is_right = shown_code == 0 and hosts == answer.get("hosts", []) and why_code in (0, 1) and bool(why)
        is_right = is_right and shown["data"]["servers"] == asked["uuids"] and why.get("hosts") == HOSTS
        explained[kind] += is_right
        if not is_right:
            wrong.append((kind, request_id, shown_code, why_code, hosts, answer.get("hosts")))
    checks.see("each can be shown and explained, as it was answered", not wrong, wrong[:3] or sum(explained.values()))


def roost(*words):
    """Exit code and JSON of a command, run in this process; None where it printed none."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = main([*words, "-f", "json"])
    return code, json.loads(printed.getvalue()) if printed.getvalue() else None


def see_metrics(checks, scheduler):
    """No watcher has failed, nothing was lost, no request ended with an error."""
    counted = re.findall(WATCHED, scheduler.get("/metrics")[1], re.MULTILINE)
    raised = [f"{name} {value}" for name, value in counted if float(value)]
    checks.see("metrics: no watcher failed, no decision was lost", len(counted) > 2 and not raised, raised or "")
    text = scheduler.log.read_text()
    checks.see("the log has no traceback", "Traceback" not in text, text.count("Traceback") or "")


def figures(found):
    """A row for each part."""
    rows = []
    for part in dict.fromkeys(each[0] for each in found):
        answers = [answer for of, _, _, answer in found if of == part]
        times = [1000 * answer["seconds"] for answer in answers]
        placed = sum("hosts" in answer for answer in answers)
        rows.append((part, len(answers), placed, len(answers) - placed, median(times), percentile_99(times)))
    return rows
