# SPDX-License-Identifier: Apache-2.0
"""The changeover of the how-to, from nova-scheduler to Roost and back, while servers are booted.

A nova-scheduler that is told to stop may still take a request, and not answer it: nova-conductor then waits in vain.
Up to MOST_TAKEN such requests are told, and not counted.
"""

import threading
import time
from datetime import datetime

from tests.interop.checks import tell
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.api_client import Nova
from tests.nova_stack.audit import settled

COMPUTES, PREFIX = 6, "changeover-"
STAGE_SECONDS, PAUSE_SECONDS = 15, 0.5
MOST_TAKEN = 2
"""Requests that a nova-scheduler may take as it stops."""


class Boots:
    """Boots a server every half second, from a thread, until the end of its context."""

    def __init__(self, cloud):
        self._nova, self._stopped, self.count = Nova(cloud), threading.Event(), 0
        self._thread = threading.Thread(target=self._work)

    def _work(self):
        flavor = self._nova.flavor("1,256,1")
        while not self._stopped.wait(PAUSE_SECONDS):
            self._nova.create(f"{PREFIX}{self.count}", flavor)
            self.count += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()


def run(checks, folder):
    """nova-scheduler alone, both, Roost alone, both, nova-scheduler alone; no server fails."""
    with running_cloud(folder, computes=COMPUTES) as cloud:
        cloud.set_scheduler("nova")
        with Boots(cloud) as boots:
            stay("nova-scheduler alone")
            with running_roost(cloud) as roost:
                stay("both")
                stopping = time.time()
                cloud.set_scheduler("none")
                stopped = time.time()
                stay("Roost alone")
                decided = decisions(roost)
                cloud.set_scheduler("nova")
                stay("both again")
            stay("nova-scheduler alone again")
        wait_until_built(cloud)
        servers = Nova(cloud).servers(PREFIX).values()
        audit = settled(cloud)
    failed = [each for each in servers if each["status"] != "ACTIVE"]
    taken = taken_by_a_stopping_scheduler(failed, stopping, stopped)
    checks.see(
        f"{boots.count} servers, booted during the changeover and back, are active",
        len(servers) == boots.count and len(failed) == len(taken) <= MOST_TAKEN,
        f"{len(failed)} failed, {len(taken)} of them because nova-scheduler took them as it stopped"
        if failed
        else "",
    )
    checks.see("Roost has decided about some of them", decided > 0, f"{decided:.0f}")
    checks.see("placement agrees with nova's database", audit["ok"], audit["first_faults"] or "")


def taken_by_a_stopping_scheduler(failed, stopping, stopped):
    """Servers that were asked for while it stopped, and whose scheduler did not answer."""
    silent = [each for each in failed if "MessagingTimeout" in each.get("fault", {}).get("message", "")]
    return [each for each in silent if stopping - 1 <= created(each) <= stopped]


def created(server):
    """When nova-api accepted a server, in seconds since the epoch; whole seconds."""
    return datetime.fromisoformat(server["created"]).timestamp()


def stay(what):
    tell(f"{what}, {STAGE_SECONDS} s")
    time.sleep(STAGE_SECONDS)


def decisions(roost):
    """How many requests Roost has answered."""
    lines = roost.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("roost_decisions_total{"))


def wait_until_built(cloud, seconds=120):
    nova, give_up = Nova(cloud), time.monotonic() + seconds
    building = f"/servers?all_tenants=1&limit=1&status=BUILD&name=^{PREFIX}"
    while nova.call("GET", building)["servers"] and time.monotonic() < give_up:
        time.sleep(0.5)
