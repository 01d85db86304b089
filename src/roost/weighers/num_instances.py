# SPDX-License-Identifier: Apache-2.0
"""Spread, or pack, by the number of instances."""

from dataclasses import dataclass

from roost.options import option
from roost.weighers.base import Weigher


class NumInstancesWeigher(Weigher):
    """Instances on the host; higher means more of them. Off by default; negative spreads, positive packs."""

    multiplier_option = aggregate_key = "num_instances_weight_multiplier"
    column = "num_instances"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        num_instances_weight_multiplier: float = option(
            0.0, help="weight of the number of instances; negative spreads, positive packs"
        )
