# SPDX-License-Identifier: Apache-2.0
"""A client whose connection loses acknowledgements: it claims, moves and releases, and checks each answer."""

import random
import sys
import uuid
from functools import partial
from typing import Any

from tests.soak.clients import demand, say

from roost.errors import ClaimRejected
from roost.ledger.claim import Claim
from roost.ledger.ledger import Ledger
from roost.model.resources import Use
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

MOST_HELD = 8
MEMORY_PER_VCPU_MB = 512


class Worker:
    """Knows what each of its consumers holds: no other client knows of them."""

    def __init__(self, ledger: Ledger, orders: dict[str, Any]) -> None:
        self.ledger, self.nodes = ledger, orders["nodes"]
        self.chance = random.Random(orders["name"])
        self.held: dict[str, Claim] = {}

    def step(self) -> None:
        """One operation, drawn by chance."""
        if len(self.held) >= MOST_HELD or (self.held and self.chance.random() < 0.3):
            self.release()
        elif self.held and self.chance.random() < 0.4:
            self.move()
        else:
            self.claim()

    def claim(self) -> None:
        """One to three instances; a refusal is an answer too."""
        claims = [self.make_claim(node) for node in self.chance.sample(self.nodes, self.chance.randint(1, 3))]
        try:
            self.ledger.claim(claims)
        except ClaimRejected:
            return
        self.held |= {each.consumer_uuid: each for each in claims}

    def make_claim(self, node: str, consumer: str = "") -> Claim:
        vcpus = self.chance.randint(1, 4)
        memory_mb = vcpus * MEMORY_PER_VCPU_MB
        amounts = {"VCPU": vcpus, "MEMORY_MB": memory_mb}
        return Claim(consumer or self.new_uuid(), node, amounts, Use(memory_mb, 0, vcpus), "project", "user")

    def new_uuid(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128)))

    def move(self) -> None:
        """To another node, and either there or back again: the second end of the move finds nothing to do."""
        instance, migration = self.chance.choice(list(self.held)), self.new_uuid()
        targets = [node for node in self.nodes if node != self.held[instance].node_uuid]
        target = self.make_claim(self.chance.choice(targets), instance)
        try:
            self.ledger.start_move(migration, target)
        except ClaimRejected:
            return
        is_finished = self.chance.random() < 0.5
        finish = partial(self.ledger.finish_move, migration)
        undo = partial(self.ledger.undo_move, migration, instance)
        end = finish if is_finished else undo
        for is_first in (True, False):
            answer = end()
            demand(answer is is_first, f"the end of move {migration} said {answer}; finished: {is_finished}")
        if is_finished:
            self.held[instance] = target

    def release(self) -> None:
        """Some of what it holds; the same again is no release."""
        gone = self.chance.sample(list(self.held), self.chance.randint(1, len(self.held)))
        for expected in (len(gone), 0):
            released = self.ledger.release(gone)
            demand(released == expected, f"a release of {expected} consumers said {released}")
        for each in gone:
            del self.held[each]


def main(orders: dict[str, Any]) -> None:
    worker = Worker(Ledger(open_engine(DatabaseOptions(connection=orders["address"]))), orders)
    say("ready")
    sys.stdin.readline()
    for _ in range(orders["steps"]):
        worker.step()
        say("step")
    say("done", held={who: [each.node_uuid, dict(each.amounts)] for who, each in worker.held.items()})
    sys.stdin.readline()
