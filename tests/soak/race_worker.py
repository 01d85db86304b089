# SPDX-License-Identifier: Apache-2.0
"""One scheduler of several, with a table, connections and a ledger of its own: it places and says what came of it."""

import random
import sys
import time
import uuid
from datetime import UTC, datetime
from typing import Any

from tests.soak.clients import say

from roost import Flavor, NoValidHost, RequestSpec, ServerGroup
from roost.ledger.ledger import Ledger
from roost.scheduler.all_options import read_options
from roost.scheduler.build import build_pipeline
from roost.scheduler.claiming import ClaimLoop
from roost.scheduler.options import SchedulerOptions
from roost.scheduler.own_replica import make_host_manager
from roost.store.engine import open_engine
from roost.store.options import DatabaseOptions

ASKED = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
"""What each instance takes."""


def open_scheduler(
    address: str, randomness: random.Random, explicit: dict[str, dict[str, Any]] | None = None
) -> ClaimLoop:
    """As a service would set it up; the default options but for the explicit ones."""
    engine, settings = open_engine(DatabaseOptions(connection=address)), read_options(explicit=explicit)
    manager = make_host_manager(engine, settings.fill(SchedulerOptions), lambda: datetime.now(UTC), time.monotonic)
    manager.load()
    return ClaimLoop(manager, build_pipeline(settings), Ledger(engine), randomness=randomness)


def main(orders: dict[str, Any]) -> None:
    chance = random.Random(orders["name"])
    scheduler = open_scheduler(orders["address"], chance)
    flavor = Flavor(ASKED["VCPU"], ASKED["MEMORY_MB"], root_gb=ASKED["DISK_GB"])
    group = ServerGroup("anti-affinity", "group", orders["group"]) if orders["group"] else None
    say("ready")
    sys.stdin.readline()
    for _ in range(orders["requests"]):
        instance = str(uuid.UUID(int=chance.getrandbits(128)))
        try:
            decision = scheduler.select(RequestSpec(flavor=flavor, instance_group=group), [instance]).decision
        except NoValidHost:
            say("nowhere", instance=instance)
        else:
            say("placed", instance=instance, host=decision.selections[0].host)
    say("done", refusals=scheduler.refusals)
    sys.stdin.readline()
