# SPDX-License-Identifier: Apache-2.0
"""A client that claims and releases until it is stopped or killed: it says what it is about to do, does it, says so.

Two threads share the ledger, so that requests of both are in one transaction now and then.
"""

import random
import sys
import threading
import uuid
from collections.abc import Sequence
from typing import Any

from tests.soak.clients import say

from roost.errors import ClaimRejected, DatabaseConflict, DatabaseUnreachable
from roost.ledger.claim import Claim, StrictGroup
from roost.ledger.ledger import Ledger
from roost.model.resources import Use
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

THREADS = 2
MOST_HELD = 10
"""Requests that a thread holds before it lets go of one."""
MEMORY_PER_VCPU_MB = 512
PART_WITH_GROUP = 0.25


class Worker:
    """One thread: requests of its own."""

    def __init__(self, ledger: Ledger, orders: dict[str, Any], number: int) -> None:
        self.ledger, self.nodes, self.groups = ledger, orders["nodes"], orders["groups"]
        self.name = f"{orders['name']}.{number}"
        self.chance = random.Random(self.name)
        self.count = 0
        self.held: list[tuple[str, list[str]]] = []

    def work(self, stop: threading.Event) -> None:
        """Claim and release in turns."""
        while not stop.is_set():
            if len(self.held) >= MOST_HELD or (self.held and self.chance.random() < 0.3):
                self.release(*self.held.pop(self.chance.randrange(len(self.held))))
            else:
                self.claim()

    def claim(self) -> None:
        """One to four instances, whole or not at all."""
        self.count += 1
        request = f"{self.name}.{self.count}"
        claims = self.make_claims()
        wanted = {each.consumer_uuid: [each.node_uuid, dict(each.amounts)] for each in claims}
        say("claiming", request=request, wanted=wanted)
        try:
            insist(lambda: self.ledger.claim(claims))
        except ClaimRejected:
            say("refused", request=request)
            return
        say("claimed", request=request)
        self.held.append((request, list(wanted)))

    def make_claims(self) -> list[Claim]:
        nodes = self.chance.sample(self.nodes, self.chance.randint(1, 4))
        group = None
        if self.chance.random() < PART_WITH_GROUP:
            group = StrictGroup(self.chance.choice(self.groups), "anti-affinity", 3)
        return [self.make_claim(node, group) for node in nodes]

    def make_claim(self, node: str, group: StrictGroup | None) -> Claim:
        vcpus = self.chance.randint(1, 4)
        memory_mb = vcpus * MEMORY_PER_VCPU_MB
        amounts = {"VCPU": vcpus, "MEMORY_MB": memory_mb}
        consumer = str(uuid.UUID(int=self.chance.getrandbits(128)))
        return Claim(consumer, node, amounts, Use(memory_mb, 0, vcpus), "project", "user", {}, group)

    def release(self, request: str, consumers: Sequence[str]) -> None:
        say("releasing", request=request)
        insist(lambda: self.ledger.release(consumers))
        say("released", request=request)


def insist(do: Any) -> None:
    """The ledger tries for some seconds; a service would go on asking, and so do we."""
    while True:
        try:
            do()
            return
        except (DatabaseUnreachable, DatabaseConflict) as error:
            say("unreachable", error=str(error))


def main(orders: dict[str, Any]) -> None:
    engine = open_engine(DatabaseOptions(connection=orders["address"]))
    ledger, stop = Ledger(engine), threading.Event()
    failed: list[BaseException] = []

    def run(worker: Worker) -> None:
        try:
            worker.work(stop)
        except BaseException as error:
            failed.append(error)
            stop.set()

    workers = [Worker(ledger, orders, number) for number in range(THREADS)]
    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    with engine.connect():
        say("ready")
    for thread in threads:
        thread.start()
    # Whoever tells us to stop may be gone, and a worker may fail: both end the wait.
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    engine.dispose()
