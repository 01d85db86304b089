# SPDX-License-Identifier: Apache-2.0
"""The reference implementation for ratios: plain loops over plain objects (`tests/parity/plain.py`)."""

from __future__ import annotations

from tests.parity import plain

from roost import RequestSpec, Scheduler
from roost.errors import BadInput

Chosen = list[tuple[str, str]] | None
"""(host, node) of each instance; None where no host fits one of them."""


class PlainLoops:
    """Plain loops over a copy of a scheduler's hosts, with its rules. The scheduler must not place anything."""

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
        """Choose hosts for all instances of a request and consume their resources."""
        chosen = plain.place(self.hosts, spec, self.filters, self.weighers)
        return None if chosen is None else [(each.host, each.node) for each in chosen]

    def restore(self, chosen: Chosen) -> None:
        """Reset the chosen hosts to their initial state."""
        for pair in chosen or ():
            row = self.table.find_row(pair)
            assert row is not None
            host, initial = self._by_name[pair], self.table.view_of(row)
            for name in vars(host).keys() & self.table.numbers.keys():
                setattr(host, name, getattr(initial, name))
            host.allocated = {name: getattr(initial, f"allocated:{name}") for name in host.allocated}
