# SPDX-License-Identifier: Apache-2.0
"""How long select_destinations takes, asked by nova's own client: nova-scheduler and Roost on the same cloud.

Hosts are mostly rows only, so that no nova-compute takes processor time. Claims are released after each answer.
"""

import time
from typing import NamedTuple

from tests.interop.checks import median, percentile_99, print_table, tell, telling
from tests.interop.nova_cloud import running_cloud, running_roost
from tests.nova_stack.asking import Asker, request
from tests.nova_stack.paper_hosts import add_paper_hosts
from tests.nova_stack.request_log import RequestLog, calls_for, of_schedulers, seconds_inside

COMPUTES, FEW, MANY, CLIENTS = 4, 20, 1000, 8
CALLS = {("nova-scheduler", FEW): 100, ("nova-scheduler", MANY): 60, ("Roost", FEW): 300, ("Roost", MANY): 300}
WARM_UP_CALLS = 20
SETTLE_SECONDS = 75
"""Until nova-scheduler trusts the server lists of all hosts: until then it reads them for each request."""
READ_SECONDS = 120
"""How long Roost may take to read all hosts."""
SETTLES_SOONER = "[DEFAULT]\nscheduler_instance_sync_interval = 20\n"
OWN_MS, MOST_TIMES_PLACEMENT, AIM = 10, 1.5, 20
HEADINGS = (
    "hosts",
    "scheduler",
    "clients",
    "calls",
    "median",
    "p99",
    "placement",
    "own",
    "total/placement",
    "calls/s",
)


class Measured(NamedTuple):
    """One scheduler, one number of clients; medians in milliseconds."""

    hosts: int
    scheduler: str
    clients: int
    calls: int
    median: float
    p99: float
    placement: float
    """Inside placement, for the calls of a request."""
    own: float
    """Total minus placement: the scheduler, messages, and HTTP on both sides."""
    times_placement: float
    calls_per_second: float


def run(checks, folder):
    """Few hosts, then many; nova-scheduler first, one client, then several."""
    with running_cloud(folder, computes=COMPUTES, sizes="16,32768,500", extra=SETTLES_SOONER) as cloud:
        rows, known = [], COMPUTES
        for hosts in (FEW, MANY):
            add_paper_hosts(cloud, hosts - known)
            known = hosts
            rows += measure_nova(checks, cloud, hosts) + measure_roost(checks, cloud, hosts)
    print_table("select_destinations, milliseconds", HEADINGS, rows)
    judge(checks, {(row.hosts, row.scheduler, row.clients): row for row in rows})


def measure_nova(checks, cloud, hosts):
    cloud.set_scheduler("nova")
    tell(f"{hosts} hosts: nova-scheduler settles for {SETTLE_SECONDS} s")
    time.sleep(SETTLE_SECONDS)
    try:
        return measure(checks, cloud, "nova-scheduler", hosts)
    finally:
        cloud.set_scheduler("none")


def measure_roost(checks, cloud, hosts):
    with running_roost(cloud) as roost:
        wait_for_hosts(roost, hosts)
        return measure(checks, cloud, "Roost", hosts, roost)


def wait_for_hosts(roost, hosts, seconds=READ_SECONDS, pause=0.5):
    """Until the replica has all of them; TimeoutError if that takes too long."""
    give_up = time.monotonic() + seconds
    while f"roost_table_hosts {hosts}.0" not in roost.get("/metrics")[1]:
        if time.monotonic() > give_up:
            raise TimeoutError(f"Roost does not have {hosts} hosts after {seconds} s")
        time.sleep(pause)


def measure(checks, cloud, scheduler, hosts, roost=None):
    calls, found = CALLS[scheduler, hosts], []
    with Asker(cloud) as asker:
        asker.ask([request() for _ in range(WARM_UP_CALLS)])
        for clients in (1, CLIENTS):
            tell(f"{hosts} hosts: {calls} calls of {scheduler} from {clients} clients")
            log, before, began = RequestLog(cloud), read_sums(roost), time.monotonic()
            answers = asker.ask([request() for _ in range(calls)], clients, on_answer=telling(calls))
            seconds = time.monotonic() - began
            errors = [answer["said"] for answer in answers if "error" in answer]
            what = f"{hosts} hosts: all {calls} calls of {scheduler} from {clients} clients are answered"
            checks.see(what, not errors, errors[:1] or "")
            found.append(summarise(answers, log, hosts, scheduler, clients, seconds))
            if roost:
                print_breakdown(
                    f"{hosts} hosts, {clients} clients: where Roost's time goes", before, read_sums(roost)
                )
    return found


def summarise(answers, log, hosts, scheduler, clients, seconds):
    entries = of_schedulers(log.read())
    totals = [answer["seconds"] * 1e3 for answer in answers]
    inside = [seconds_inside(calls_for(answer, entries)) * 1e3 for answer in answers]
    own = [total - placement for total, placement in zip(totals, inside, strict=True)]
    times = [total / placement for total, placement in zip(totals, inside, strict=True) if placement]
    return Measured(
        hosts,
        scheduler,
        clients,
        len(answers),
        median(totals),
        percentile_99(totals),
        median(inside),
        median(own),
        median(times),
        len(answers) / seconds,
    )


def judge(checks, rows):
    for hosts in (FEW, MANY):
        one = rows[hosts, "Roost", 1]
        checks.see(
            f"{hosts} hosts: Roost's own share is at most {OWN_MS} ms in the median",
            one.own <= OWN_MS,
            f"{one.own:.1f} ms",
        )
        checks.see(
            f"{hosts} hosts: all of it is at most {MOST_TIMES_PLACEMENT} times placement's share",
            0 < one.times_placement <= MOST_TIMES_PLACEMENT,
            f"{one.times_placement:.2f} times",
        )
        for clients in (1, CLIENTS):
            ratio = rows[hosts, "nova-scheduler", clients].median / rows[hosts, "Roost", clients].median
            aim = f" (aim: {AIM})" if hosts == MANY else ""
            print(f"     {hosts} hosts, {clients} clients: {ratio:.1f} times as fast as nova-scheduler{aim}")


def read_sums(roost):
    """Metric with its labels -> seconds in total, and count, of all durations."""
    sums = {}
    for line in roost.get("/metrics")[1].splitlines() if roost else ():
        name, _, value = line.rpartition(" ")
        for suffix, index in (("_sum", 0), ("_count", 1)):
            metric, brace, labels = name.partition("{")
            if metric.endswith(f"_seconds{suffix}"):
                sums.setdefault(metric.removesuffix(suffix) + brace + labels, [0.0, 0.0])[index] = float(value)
    return sums


def print_breakdown(title, before, after):
    rows = []
    for name, (total, count) in after.items():
        known, known_count = before.get(name, (0.0, 0.0))
        if count > known_count:
            calls = int(count - known_count)
            rows.append((name, calls, (total - known) * 1e3, (total - known) * 1e3 / calls))
    print_table(title, ("metric", "count", "ms in total", "ms each"), rows)
