# SPDX-License-Identifier: Apache-2.0
"""Different requests, each put to Roost in shadow mode and then to nova-scheduler, on the same state.

Shadow mode claims nothing, and what nova-scheduler claims is deleted, so the state stays the same. Where several
hosts weigh the same, either may be chosen.
"""

import json
import random
import time
from collections import Counter

from tests.interop.checks import print_table, tell, telling
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.interop.varied_requests import State, make_requests
from tests.nova_stack.api_client import Nova, host
from tests.nova_stack.asking import Asker

COMPUTES, REQUESTS, SEED = 8, 200, 1
SIZES = "16,32768,500,2:32,65536,1000,2:8,16384,200,2:16,49152,500"
SERVERS = {"": 8, "anti-affinity": 3, "affinity": 2}
"""By the policy of their server group."""
TOPIC = "scheduler_shadow"
SETTLE_SECONDS = 65
"""After this time nova-compute has written the last of what it counts."""
TRIES, MOST_REPEATED = 3, 5
"""A pair that differs is asked again, since a report of nova-compute may have come in between."""
RECORD_SECONDS = 10


def run(checks, folder):
    """Fill a cloud a little with nova-scheduler's help, then ask both."""
    report = folder / "shadow.jsonl"
    shadow = f"shadow = true\nshadow_topic = {TOPIC}\nshadow_report = {report}\n"
    with running_cloud(folder, computes=COMPUTES, sizes=SIZES) as cloud:
        cloud.set_scheduler("nova")
        state = fill(cloud)
        tell(f"{SETTLE_SECONDS} s until the hosts have reported")
        time.sleep(SETTLE_SECONDS)
        with running_roost(cloud, options=shadow), Asker(cloud, TOPIC) as roost, Asker(cloud) as nova:
            progress, pairs = telling(REQUESTS), []
            for asked in make_requests(state, REQUESTS, SEED):
                pairs.append(compare(asked, roost, nova, report))
                progress(asked)
    judge(checks, pairs)


def fill(cloud):
    """Zones, an aggregate, groups and servers; one host is disabled."""
    nova, hosts = Nova(cloud), cloud.env["hosts"]
    for name, members, metadata in (
        ("zone-a", hosts[:3], {"availability_zone": "zone-a"}),
        ("fast", hosts[2:5], {"disk": "ssd"}),
    ):
        created = nova.call("POST", "/os-aggregates", {"aggregate": {"name": name}})["aggregate"]["id"]
        nova.call("POST", f"/os-aggregates/{created}/action", {"set_metadata": {"metadata": metadata}})
        for each in members:
            nova.call("POST", f"/os-aggregates/{created}/action", {"add_host": {"host": each}})
    groups = {policy: create_group(nova, policy) for policy in ("anti-affinity", "affinity")}
    servers = {policy: create_servers(nova, policy, groups, random.Random(SEED)) for policy in ("", *groups)}
    service = nova.call("GET", f"/os-services?binary=nova-compute&host={hosts[-1]}")["services"][0]["id"]
    nova.call("PUT", f"/os-services/{service}", {"status": "disabled"})
    members = {groups[policy]: list(servers[policy].values()) for policy in groups}
    return State(hosts, {**servers[""], **servers["affinity"], **servers["anti-affinity"]}, groups, members)


def create_group(nova, policy):
    body = {"server_group": {"name": policy, "policy": policy}}
    return nova.call("POST", "/os-server-groups", body)["server_group"]["id"]


def create_servers(nova, policy, groups, rng):
    """uuid -> host of new servers: members of the group with this policy, or of none."""
    created = {}
    for number in range(SERVERS[policy]):
        flavor = nova.flavor(rng.choice(("1,512,1", "2,4096,10", "4,2048,20")))
        hints = {"group": groups[policy]} if policy else None
        server = nova.create(f"filling-{policy}-{number}", flavor, hints=hints)
        created[server] = host(nova.wait(server, "ACTIVE"))
    return created


def compare(asked, roost, nova, report):
    """Put one request to both, again where they differ: what came of it."""
    kind, make = asked
    attempts, verdict = 0, "DIFFERENT"
    while verdict == "DIFFERENT" and attempts < TRIES:
        request, attempts = make(), attempts + 1
        (ours,) = roost.ask([request], releases=False)
        (theirs,) = nova.ask([request])
        verdict = compare_answers(ours, theirs, read_record(report, request["uuids"][0]))
    return {"kind": kind, "verdict": verdict, "attempts": attempts, "roost": outcome(ours), "nova": outcome(theirs)}


def compare_answers(ours, theirs, record):
    """same host, no host, equal weight, or DIFFERENT."""
    if ours.get("error") == theirs.get("error") == "NoValidHost":
        return "no host"
    if "hosts" in ours and ours["hosts"] == theirs.get("hosts"):
        return "same host"
    if "hosts" in ours and "hosts" in theirs and theirs["hosts"][0] in record.get("ties", ()):
        return "equal weight"
    return "DIFFERENT"


def outcome(answer):
    return answer["hosts"][0] if "hosts" in answer else answer["error"]


def read_record(report, instance):
    """What Roost wrote of this request; empty where it wrote nothing in time."""
    give_up = time.monotonic() + RECORD_SECONDS
    while time.monotonic() < give_up:
        for line in reversed(report.read_text().splitlines() if report.exists() else []):
            record = json.loads(line)
            if record.get("instance") == instance:
                return record
        time.sleep(0.05)
    return {}


def judge(checks, pairs):
    verdicts = ("same host", "equal weight", "no host", "DIFFERENT")
    kinds = sorted({pair["kind"] for pair in pairs})
    counts = {kind: Counter(pair["verdict"] for pair in pairs if pair["kind"] == kind) for kind in kinds}
    rows = [(kind, *(counts[kind][verdict] for verdict in verdicts)) for kind in kinds]
    print_table("Roost in shadow and nova-scheduler", ("request", *verdicts), rows)
    for pair in pairs:
        if pair["verdict"] == "DIFFERENT":
            checks.see(f"{pair['kind']}: the same choice", False, f"Roost {pair['roost']}, nova {pair['nova']}")
    agreed = [pair for pair in pairs if pair["verdict"] != "DIFFERENT"]
    checks.see(f"{len(pairs)} requests: the same host or one of equal weight", len(agreed) == len(pairs), len(agreed))
    chosen = Counter(pair["nova"] for pair in agreed if pair["verdict"] != "no host")
    checks.see("most of them have a host", chosen.total() > len(pairs) / 2, dict(chosen.most_common()))
    repeated = sum(pair["attempts"] > 1 for pair in pairs)
    checks.see(f"at most {MOST_REPEATED} had to be asked again", repeated <= MOST_REPEATED, repeated)
