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

    def weigh(self, hosts: Hosts, spec: RequestSpec) -> Array:
        """Inside or outside."""
        destination = spec.requested_destination
        if destination is None or not destination.cell or not destination.allow_cross_cell_move:
            return np.zeros(len(hosts))
        return hosts.per_value("cell", lambda cell: 1 if cell == destination.cell else -1, np.float64)
