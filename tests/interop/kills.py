# SPDX-License-Identifier: Apache-2.0
"""Schedulers are killed with kill -9 under load: how many allocations stay whose caller got no answer.

An orphan is an allocation of a request that was not answered. nova leaves such, too: the claim is in placement before
the answer is on its way.
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
HEADINGS = ("schedulers", "kills", "requests", "not answered", "orphans", "orphans per kill")


class Killed(NamedTuple):
    """What the kills of one kind of scheduler left."""

    schedulers: str
    kills: int
    requests: int
    unanswered: int
    orphans: int
    orphans_per_kill: float


def run(checks, folder):
    """Two Roost schedulers, each killed in turn; then three nova-schedulers."""
    with running_cloud(folder, computes=COMPUTES, sizes="16,32768,500") as cloud:
        add_paper_hosts(cloud, HOSTS - COMPUTES)
        roost = kill_in_turn(checks, cloud, "two Roost", RoostSchedulers(cloud))
        nova = kill_in_turn(checks, cloud, "three nova", NovaSchedulers(cloud))
    print_table("kill -9 under load", HEADINGS, [roost, nova])
    found = f"{roost.orphans_per_kill:.2f}, nova {nova.orphans_per_kill:.2f}"
    is_right = roost.orphans_per_kill <= nova.orphans_per_kill
    checks.see("Roost leaves no more allocations without an answer per kill than nova", is_right, found)


class RoostSchedulers:
    """Two `roost service scheduler`."""

    def __init__(self, cloud):
        self._running = [start_roost(cloud, number) for number in (1, 2)]

    def kill(self, turn):
        self._running[turn % 2].kill()

    def restart(self, turn):
        self._running[turn % 2].start()
        self._running[turn % 2].wait_until_ready()

    def stop(self):
        for scheduler in self._running:
            scheduler.stop()


class NovaSchedulers:
    """Three nova-schedulers."""

    NAMES = ("nova-scheduler1", "nova-scheduler2", "nova-scheduler3")

    def __init__(self, cloud):
        self._cloud = cloud
        for name in self.NAMES:
            cloud.add_nova_scheduler(name)

    def kill(self, turn):
        self._cloud.end_process(self.NAMES[turn % 3], force=True)

    def restart(self, turn):
        self._cloud.add_nova_scheduler(self.NAMES[turn % 3])

    def stop(self):
        for name in self.NAMES:
            self._cloud.end_process(name)


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
    rng, load = random.Random(SEED), Load(cloud)
    for turn in range(KILLS):
        load.wait_for(ANSWERS_PER_KILL)
        time.sleep(rng.uniform(0, 0.3))
        schedulers.kill(turn)
        tell(f"{name}: killed {turn + 1} of {KILLS}, {load.answered} requests")
        schedulers.restart(turn)
    load.wait_for(ANSWERS_PER_KILL)
    answers = load.stop()
    schedulers.stop()
    return judge(checks, cloud, name, answers)


def judge(checks, cloud, name, answers):
    silent = [answer for answer in answers if answer.get("error", "NoValidHost") == "MessagingTimeout"]
    others = [answer["said"] for answer in answers if answer.get("error", "MessagingTimeout") != "MessagingTimeout"]
    held, asked = set(held_by_consumer(cloud)), {uuid for answer in silent for uuid in answer["uuids"]}
    checks.see(
        f"{name}: every request was answered with a host, or not at all", not others, others[:2] or len(answers)
    )
    checks.see(f"{name}: every allocation that stays is of a request without an answer", held <= asked, len(held))
    release_all(cloud)
    return Killed(name, KILLS, len(answers), len(silent), len(held), len(held) / KILLS)
