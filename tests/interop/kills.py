# SPDX-License-Identifier: Apache-2.0
"""Schedulers are killed with kill -9 under load: how many allocations stay whose caller got no answer.

An orphan is an allocation of a request that was not answered. nova leaves such, too: the claim is in placement before
the answer is on its way. Roost notes its claims and releases such ones, when their callers have surely given up; so
they are counted at once, and again when that time is over.
"""

import random
import threading
import time
from typing import NamedTuple

from tests.interop.checks import print_table, tell
from tests.interop.nova_cloud import running_cloud, start_roost
from tests.interop.races import release_all
from tests.nova_stack.asking import Asker, request
from tests.nova_stack.audit import held_by_consumer
from tests.nova_stack.paper_hosts import add_paper_hosts

COMPUTES, HOSTS, CLIENTS, KILLS = 2, 20, 8, 12
ANSWER_SECONDS = 10
"""How long a client waits: those of a killed scheduler wait that long."""
ANSWERS_PER_KILL, CHUNK, SEED = 20, 40, 1
RESPONSE_TIMEOUT, RELEASE_SECONDS = 20, 30 + 15 + 15
"""`rpc_response_timeout` of the cloud; and how long after it Roost looks, and looks again, and some more."""
HEADINGS = ("schedulers", "killed", "kills", "not answered", "orphans at once", "orphans", "orphans per kill")


class Killed(NamedTuple):
    """What the kills of one kind of scheduler left."""

    schedulers: str
    kind: str
    kills: int
    unanswered: int
    orphans_at_once: int
    orphans: int
    orphans_per_kill: float


def run(checks, folder):
    """Two Roost schedulers beside a nova-scheduler, each killed in turn; then three nova-schedulers."""
    patience = f"[DEFAULT]\nrpc_response_timeout = {RESPONSE_TIMEOUT}\n"
    with running_cloud(folder, computes=COMPUTES, sizes="16,32768,500", extra=patience) as cloud:
        add_paper_hosts(cloud, HOSTS - COMPUTES)
        mixed = [RoostScheduler(cloud, 1), RoostScheduler(cloud, 2), NovaScheduler(cloud, 3)]
        rows = kill_in_turn(checks, cloud, "two Roost, one nova", mixed)
        rows += kill_in_turn(checks, cloud, "three nova", [NovaScheduler(cloud, number) for number in (1, 2, 3)])
    print_table("kill -9 under load", HEADINGS, rows)
    compare(checks, rows)


def compare(checks, rows):
    """Whether Roost leaves more than nova-scheduler; where nova left nothing at once, that is told."""
    by_kind = {(row.schedulers, row.kind): row for row in rows}
    roost, nova = by_kind["two Roost, one nova", "Roost"], by_kind["three nova", "nova-scheduler"]
    what = "Roost leaves no more allocations without an answer per kill than nova-scheduler"
    found = f"{roost.orphans_per_kill:.2f}, nova-scheduler {nova.orphans_per_kill:.2f}"
    checks.see(what, roost.orphans_per_kill <= nova.orphans_per_kill, found)
    if not nova.orphans_at_once:
        print("     no kill hit nova-scheduler between claim and answer: the comparison shows nothing", flush=True)


class RoostScheduler:
    """One `roost service scheduler`, running."""

    kind = "Roost"

    def __init__(self, cloud, number):
        folder = cloud.dir / "roost-state"
        folder.mkdir(exist_ok=True)
        self._scheduler = start_roost(cloud, number, f"state_directory = {folder}")

    def kill(self):
        self._scheduler.kill()

    def restart(self):
        self._scheduler.start()
        self._scheduler.wait_until_ready()

    def stop(self):
        self._scheduler.stop()


class NovaScheduler:
    """One nova-scheduler, running."""

    kind = "nova-scheduler"

    def __init__(self, cloud, number):
        self._cloud, self._name = cloud, f"nova-scheduler{number}"
        self.restart()

    def kill(self):
        self._cloud.end_process(self._name, force=True)

    def restart(self):
        self._cloud.add_nova_scheduler(self._name)

    def stop(self):
        self._cloud.end_process(self._name)


class Load:
    """Clients that ask all the time, in a thread, until `stop`."""

    def __init__(self, cloud):
        self.answers, self._stops = [], threading.Event()
        self._asker = Asker(cloud, answer_seconds=ANSWER_SECONDS)
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def _ask(self):
        with self._asker:
            while not self._stops.is_set():
                self._asker.ask([request() for _ in range(CHUNK)], CLIENTS, on_answer=self.answers.append)

    @property
    def answered(self):
        return len(self.answers)

    def wait_for(self, more):
        """Until so many more requests have been answered."""
        wanted, give_up = self.answered + more, time.monotonic() + 300
        while self.answered < wanted and self._thread.is_alive() and time.monotonic() < give_up:
            time.sleep(0.005)

    def stop(self):
        """All answers, when the last has come or its client has given up."""
        self._stops.set()
        self._thread.join()
        return self.answers


def kill_in_turn(checks, cloud, name, schedulers):
    """Kill one after the other under load, several times: a row of figures for each kind of scheduler."""
    rng, load, kills = random.Random(SEED), Load(cloud), []
    for number in range(KILLS):
        load.wait_for(ANSWERS_PER_KILL)
        time.sleep(rng.uniform(0, 0.3))
        scheduler = schedulers[number % len(schedulers)]
        kills.append((time.time(), scheduler.kind))
        scheduler.kill()
        tell(f"{name}: killed {number + 1} of {KILLS}, {load.answered} requests")
        scheduler.restart()
    load.wait_for(ANSWERS_PER_KILL)
    answers, at_once = load.stop(), set(held_by_consumer(cloud))
    wait_for_release(cloud)
    for scheduler in schedulers:
        scheduler.stop()
    return judge(checks, cloud, name, answers, kills, at_once)


def wait_for_release(cloud):
    """Until nothing is held any more, or until it would have been released."""
    tell(f"allocations without an answer are released for {RESPONSE_TIMEOUT + RELEASE_SECONDS} s")
    give_up = time.monotonic() + RESPONSE_TIMEOUT + RELEASE_SECONDS
    while held_by_consumer(cloud) and time.monotonic() < give_up:
        time.sleep(1)


def judge(checks, cloud, name, answers, kills, at_once):
    silent = [answer for answer in answers if answer.get("error") == "MessagingTimeout"]
    others = [answer["said"] for answer in answers if answer.get("error", "MessagingTimeout") != "MessagingTimeout"]
    held, asked = set(held_by_consumer(cloud)), {uuid for answer in silent for uuid in answer["uuids"]}
    checks.see(
        f"{name}: every request was answered with a host, or not at all", not others, others[:2] or len(answers)
    )
    checks.see(f"{name}: every allocation that stays is of a request without an answer", held <= asked, len(held))
    release_all(cloud)
    kinds = sorted({kind for _, kind in kills}, reverse=True)
    return [summarise(name, kind, kills, silent, at_once, held) for kind in kinds]


def summarise(name, kind, kills, silent, at_once, held):
    lost = [answer for answer in silent if killed_during(answer, kills) == kind]
    uuids = {uuid for answer in lost for uuid in answer["uuids"]}
    count = [each for _, each in kills].count(kind)
    return Killed(name, kind, count, len(lost), len(uuids & at_once), len(uuids & held), len(uuids & held) / count)


def killed_during(answer, kills):
    """The kind of scheduler that was killed first after the request began: the request was lost with it."""
    return next((kind for moment, kind in kills if moment >= answer["started"]), kills[-1][1])
