#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Drives and times the real nova: reads one message per line, writes one answer per line.

    build/nova-env/bin/python -W ignore benchmarks/nova_side.py

Runs in an environment that has nova and not Roost; `versus_measuring.py` writes the messages. It contains no code of
nova, which is only imported and called, as in conformance/oracle.py, which also stubs nova's database.
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
    """nova's HostManager, with HostState objects that are built in advance."""

    def __init__(self) -> None:
        self.now = fx.utcnow()
        self.states: list[Any] = []
        self.aggregates: dict[str, Any] = {}
        self.manager: Any = None

    def start(self, service_down_time: int) -> dict[str, Any]:
        """Set the options of the whole run; must be called first. Returns the versions of nova and Python."""
        fx.set_option("DEFAULT.service_down_time", service_down_time)
        return {"release": fx.RELEASE.removeprefix("nova "), "python": platform.python_version()}

    def add(self, hosts: list[dict[str, Any]]) -> dict[str, Any]:
        """Build HostState objects of these hosts. Hosts in one aggregate share its object, as in nova."""
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
        """Enable filters and weighers, in this order, with nova's default multipliers. Returns their numbers."""
        self.manager = fx.host_manager(filters, weighers)
        return {"filters": len(self.manager.enabled_filters), "weighers": len(self.manager.weighers)}

    def choose(self, request: dict[str, Any], passing: list[int], consumes: bool) -> dict[str, Any]:
        """The best of the hosts with capacity, and the time in us of filter, weigh and, if asked, consume."""
        spec, watch = fx.request_spec(request), TwoClocks()
        hosts = [self.states[at] for at in passing]
        gc.collect()  # garbage of the messages is not part of nova's time
        chosen = watch.time(self.consuming(hosts, spec) if consumes else self.choosing(hosts, spec))
        return {
            "chosen": [chosen.host, chosen.nodename] if chosen else None,
            "cpu_us": watch.times_us[0],
            "wall_us": watch.walls_us[0],
        }

    def choosing(self, hosts: list[Any], spec: Any) -> Callable[[], Any]:
        """The function that is timed for a cold request: filter and weigh."""

        def filter_and_weigh() -> Any:
            filtered = self.manager.get_filtered_hosts(iter(hosts), spec, 0)
            weighed = self.manager.get_weighed_hosts(filtered, spec) if filtered else []
            return weighed[0].obj if weighed else None

        return filter_and_weigh

    def consuming(self, hosts: list[Any], spec: Any) -> Callable[[], Any]:
        """The function that is timed for a request in a stream: filter, weigh and consume."""
        filter_and_weigh = self.choosing(hosts, spec)

        def filter_weigh_and_consume() -> Any:
            chosen = filter_and_weigh()
            if chosen:
                chosen.consume_from_request(spec)
            return chosen

        return filter_weigh_and_consume


def main() -> None:
    """Answer the messages on stdin, line by line, until it ends."""
    nova = Nova()
    actions = {"start": nova.start, "add": nova.add, "enable": nova.enable, "choose": nova.choose}
    for line in sys.stdin:
        message = json.loads(line)
        answer = actions[message["do"]](**message["with"])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
