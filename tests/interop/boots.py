# SPDX-License-Identifier: Apache-2.0
"""The same boots, from request to ACTIVE: by nova alone, then by Roost's own conductor, scheduler and agents.

Both have the same number of hosts with a fake hypervisor that takes no time, on the same machine one after the other;
nova with MariaDB, placement and its API, Roost with PostgreSQL. nova's clients come over HTTP, Roost's by messages.
"""

import statistics
import time

from benchmarks.boots_bench import Boots, running_cluster
from tests.interop.checks import print_table, tell
from tests.interop.nova_cloud import running_cloud
from tests.nova_stack.api_client import boot

from roost.trial.plan import ClusterShape

HOSTS, BOOTS, CLIENTS, ROUNDS = 20, 50, 8, 3
SIZE = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
SETTLE_SECONDS = 15


def run(checks, folder):
    """nova first, then Roost; servers per second, and how many times as many."""
    nova = measure_nova(checks, folder)
    own = measure_roost(checks)
    rows = [("nova", *figures(nova)), ("Roost", *figures(own))]
    print_table(f"{BOOTS} boots on {HOSTS} hosts by {CLIENTS} clients, servers per second", HEADINGS, rows)
    ratio = statistics.median(own) / statistics.median(nova)
    checks.see("Roost's own cloud boots faster than nova's", ratio > 1, f"{ratio:.1f} times as many a second")


HEADINGS = ("cloud", "median", "least", "most")


def figures(rates):
    return (round(statistics.median(rates), 1), round(min(rates), 1), round(max(rates), 1))


def measure_nova(checks, folder):
    with running_cloud(folder, computes=HOSTS) as cloud:
        cloud.set_scheduler("nova")
        tell(f"nova-scheduler settles for {SETTLE_SECONDS} s")
        time.sleep(SETTLE_SECONDS)
        rates = []
        for number in range(ROUNDS):
            result = boot(cloud, BOOTS, "1,512,1", CLIENTS)
            checks.see(f"nova: {BOOTS} boots are active, round {number + 1}", result["ok"], dict(result["status"]))
            rates.append(BOOTS / result["seconds"])
        return rates


def measure_roost(checks):
    rates = []
    with running_cluster(ClusterShape(agents=HOSTS, apis=0)) as cluster:
        boots = Boots(cluster, CLIENTS)
        boots.run([SIZE] * CLIENTS)
        for number in range(ROUNDS):
            found = boots.run([SIZE] * BOOTS, is_patient=False)
            checks.see(f"Roost: {BOOTS} boots are active, round {number + 1}", found.active == BOOTS, found.active)
            rates.append(found.per_second)
    return rates
