# SPDX-License-Identifier: Apache-2.0
"""The weigher by the number of instances."""

from dataclasses import dataclass

from roost.options.declare import option
from roost.weighers.base import Weigher


class NumInstancesWeigher(Weigher):
    """Number of instances on the host; higher means more. Off by default; negative spreads, positive packs."""

    multiplier_option = aggregate_key = "num_instances_weight_multiplier"
    column = "num_instances"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        num_instances_weight_multiplier: float = option(
            0.0, help="weight of the number of instances; negative spreads, positive packs"
        )
