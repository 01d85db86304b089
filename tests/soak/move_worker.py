# SPDX-License-Identifier: Apache-2.0
"""One scheduler of several that get the same requests to move instances; it says which host each was given."""

import json
import random
import sys
from typing import Any

from tests.soak.clients import say
from tests.soak.race_worker import ASKED, open_scheduler

from roost import Flavor, NoValidHost, RequestSpec


def main(orders: dict[str, Any]) -> None:
    scheduler = open_scheduler(orders["address"], random.Random(orders["name"]))
    flavor = Flavor(ASKED["VCPU"], ASKED["MEMORY_MB"], root_gb=ASKED["DISK_GB"])
    say("ready")
    for line in sys.stdin:
        if line.strip() == "stop":
            return
        asked = json.loads(line)
        spec = RequestSpec(flavor=flavor, ignore_hosts=tuple(asked["ignore"]))
        try:
            host = scheduler.select(spec, [asked["instance"]]).decision.selections[0].host
        except NoValidHost as error:
            host = f"no host: {error}"
        say("answer", instance=asked["instance"], ignore=asked["ignore"], host=host)
