# SPDX-License-Identifier: Apache-2.0
"""One of several schedulers that race for PCI devices and dedicated CPUs: places, releases some, places again."""

import json
import random
import sys
import uuid
from typing import Any

from tests.soak.clients import say
from tests.soak.race_worker import open_scheduler

from roost import Flavor, NoValidHost, RequestSpec
from roost.scheduler.all_options import read_options
from roost.scheduler.build import Preparation

ALIAS = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"})
OPTIONS = {"pci": {"alias": [ALIAS]}}
KINDS = {
    "gpu": {"pci_passthrough:alias": "gpu:1"},
    "pinned": {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "2048"},
}
"""Kind of request -> extra specs. A pinned guest has two dedicated CPUs and 1 GiB of huge pages."""


def main(orders: dict[str, Any]) -> None:
    chance = random.Random(orders["name"])
    scheduler = open_scheduler(orders["address"], chance, OPTIONS)
    preparation = Preparation(read_options(explicit=OPTIONS), ())
    specs = {
        kind: preparation.complete(RequestSpec(flavor=Flavor(2, 1024, root_gb=1, extra_specs=extra)))
        for kind, extra in KINDS.items()
    }
    held: list[tuple[str, str]] = []

    def place(kind: str) -> None:
        instance = str(uuid.UUID(int=chance.getrandbits(128)))
        try:
            scheduler.select(specs[kind], [instance])
        except NoValidHost:
            say("nowhere", kind=kind)
        else:
            held.append((kind, instance))
            say("placed", kind=kind)

    say("ready")
    for line in sys.stdin:
        order = line.split()
        if order[:1] == ["release"]:
            chance.shuffle(held)
            for _ in range(len(held) // 2):
                kind, instance = held.pop()
                assert scheduler.granter.release([instance]) == 1
                say("released", kind=kind)
        elif order[:1] == ["place"]:
            wanted = [kind for kind in KINDS for _ in range(int(order[1]))]
            chance.shuffle(wanted)
            for kind in wanted:
                place(kind)
        else:
            break
        say("done", refusals=scheduler.refusals)
