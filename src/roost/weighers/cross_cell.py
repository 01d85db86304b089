# SPDX-License-Identifier: Apache-2.0
"""Stay in the cell, where a move may leave it."""

from dataclasses import dataclass

import numpy as np

from roost.hosts import Hosts
from roost.hosts.arrays import Array
from roost.model.request import RequestSpec
from roost.options import option
from roost.weighers.base import Weigher


class CrossCellWeigher(Weigher):
    """1 for hosts of the cell that the request comes from, -1 for others, where it may leave the cell; else 0."""

    multiplier_option = aggregate_key = "cross_cell_move_weight_multiplier"
    reads = frozenset({"cell"})

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        cross_cell_move_weight_multiplier: float = option(
            1000000.0, help="weight of staying in the cell; negative prefers to leave it"
        )

    def applies_to(self, spec: RequestSpec) -> bool:
        """It may leave a cell."""
        destination = spec.requested_destination
        return destination is not None and bool(destination.cell) and destination.allow_cross_cell_move

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Inside or outside."""
        destination = spec.requested_destination
        if not self.applies_to(spec) or destination is None:
            return np.zeros(len(hosts))
        home = (destination.cell, destination.cell_uuid)
        return hosts.per_value("cell", lambda cell: 1 if cell in home else -1, np.float64)
