# SPDX-License-Identifier: Apache-2.0
"""The yardstick: the same fleet, rules and requests as plain loops over plain objects (`tests/parity/plain.py`)."""

from __future__ import annotations

from tests.parity import plain

from roost import RequestSpec, Scheduler
from roost.errors import BadInput

Chosen = list[tuple[str, str]] | None
"""(host, node) of each instance; None where there is no host for one."""


class PlainLoops:
    """A fleet of its own, with the hosts and rules of a scheduler that is not used otherwise."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.filters = [each.name for each in scheduler.pipeline.rules.filters]
        self.weighers = [each.name for each in scheduler.pipeline.rules.weighers]
        unknown = {*self.filters, *self.weighers} - {*plain.FILTERS, *plain.WEIGHERS}
        if unknown:
            raise BadInput(f"{', '.join(sorted(unknown))}: there is no plain loop of it", "set requests.compare to 0")
        self.table = scheduler.table
        self.hosts = plain.plain_hosts(self.table)
        self._by_name = {(each.host, each.node): each for each in self.hosts}

    def place(self, spec: RequestSpec) -> Chosen:
        """Choose and consume."""
        chosen = plain.place(self.hosts, spec, self.filters, self.weighers)
        return None if chosen is None else [(each.host, each.node) for each in chosen]

    def put_back(self, chosen: Chosen) -> None:
        """Make the chosen hosts as they were at first."""
        for pair in chosen or ():
            row = self.table.find_row(pair)
            assert row is not None
            host, untouched = self._by_name[pair], self.table.view_of(row)
            for name in vars(host).keys() & self.table.numbers.keys():
                setattr(host, name, getattr(untouched, name))
            host.allocated = {name: getattr(untouched, f"allocated:{name}") for name in host.allocated}
