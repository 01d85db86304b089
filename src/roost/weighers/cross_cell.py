# SPDX-License-Identifier: Apache-2.0
"""The weigher that prefers the instance's own nova cell, for moves that may leave it."""

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from roost.hosts import Hosts
from roost.hosts.encoded import Array
from roost.model.request import RequestSpec
from roost.options.declare import option
from roost.weighers.base import Weigher


class CrossCellWeigher(Weigher):
    """1 for hosts in the nova cell of the instance, -1 for hosts in other nova cells; higher means the same cell.

    0 for all hosts if the request is not a move that may leave its nova cell.
    """

    applies_if = attrgetter("requested_destination")
    multiplier_option = aggregate_key = "cross_cell_move_weight_multiplier"
    reads = frozenset({"cell"})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        cross_cell_move_weight_multiplier: float = option(
            1000000.0, help="weight of staying in the nova cell; negative prefers to leave it"
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """True for a move that may leave its nova cell."""
        destination = spec.requested_destination
        return destination is not None and bool(destination.cell) and destination.allow_cross_cell_move

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """1 for hosts in the nova cell of the instance, -1 for the rest; all 0 if the weigher does not apply."""
        destination = spec.requested_destination
        if not self.applies_to(spec) or destination is None:
            return np.zeros(len(hosts))
        home = (destination.cell, destination.cell_uuid)
        return hosts.per_value("cell", lambda cell: 1 if cell in home else -1, np.float64)
