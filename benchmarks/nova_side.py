#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""The real nova, asked and timed: one message per line in, one answer per line out.

    build/nova-env/bin/python -W ignore benchmarks/nova_side.py

Runs in an environment that has nova and not Roost; `versus_measuring.py` writes the messages. No line of nova is
here: it is only imported and driven, as in conformance/oracle.py, which also puts the database out of nova's way.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "conformance")]

from benchmarks.versus_clocks import TwoClocks  # noqa: E402
from oracle import fx  # noqa: E402


class Nova:
    """A HostManager and ready HostStates."""

    def __init__(self) -> None:
        self.now = fx.utcnow()
        self.states: list[Any] = []
        self.aggregates: dict[str, Any] = {}
        self.manager: Any = None

    def start(self, service_down_time: int) -> dict[str, Any]:
        """Before anything else: options that hold for the whole run."""
        fx.set_option("DEFAULT.service_down_time", service_down_time)
        return {"release": fx.RELEASE.removeprefix("nova "), "python": platform.python_version()}

    def add(self, hosts: list[dict[str, Any]]) -> dict[str, Any]:
        """Build the states of these hosts. Hosts in one aggregate share the object, as in nova itself."""
        for host in hosts:
            state = fx.host_state(host | {"aggregates": []}, self.now)
            state.aggregates = [self.shared(each) for each in host["aggregates"]]
            self.states.append(state)
        return {"hosts": len(self.states)}

    def shared(self, aggregate: dict[str, Any]) -> Any:
        if aggregate["name"] not in self.aggregates:
            self.aggregates[aggregate["name"]] = fx.aggregate(aggregate)
        return self.aggregates[aggregate["name"]]

    def enable(self, filters: list[str], weighers: list[str]) -> dict[str, Any]:
        """nova's own default multipliers; the weighers in this order."""
        self.manager = fx.host_manager(filters, weighers)
        return {"filters": len(self.manager.enabled_filters), "weighers": len(self.manager.weighers)}

    def choose(self, request: dict[str, Any], passing: list[int], consumes: bool) -> dict[str, Any]:
        """The best of the hosts that passed capacity, and how long filter + weigh (+ consume) took."""
        spec, watch = fx.request_spec(request), TwoClocks()
        hosts = [self.states[at] for at in passing]
        gc.collect()  # what messages left behind is not nova's
        chosen = watch.time(self.consuming(hosts, spec) if consumes else self.choosing(hosts, spec))
        return {
            "chosen": [chosen.host, chosen.nodename] if chosen else None,
            "cpu_us": watch.times_us[0],
            "wall_us": watch.walls_us[0],
        }

    def choosing(self, hosts: list[Any], spec: Any) -> Callable[[], Any]:
        """Everything that is timed of a cold request."""

        def filter_and_weigh() -> Any:
            filtered = self.manager.get_filtered_hosts(iter(hosts), spec, 0)
            weighed = self.manager.get_weighed_hosts(filtered, spec) if filtered else []
            return weighed[0].obj if weighed else None

        return filter_and_weigh

    def consuming(self, hosts: list[Any], spec: Any) -> Callable[[], Any]:
        """Everything that is timed of a request in a stream."""
        filter_and_weigh = self.choosing(hosts, spec)

        def filter_weigh_and_consume() -> Any:
            chosen = filter_and_weigh()
            if chosen:
                chosen.consume_from_request(spec)
            return chosen

        return filter_weigh_and_consume


def main() -> None:
    """Answer line by line until the input ends."""
    nova = Nova()
    actions = {"start": nova.start, "add": nova.add, "enable": nova.enable, "choose": nova.choose}
    for line in sys.stdin:
        message = json.loads(line)
        answer = actions[message["do"]](**message["with"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
