# SPDX-License-Identifier: Apache-2.0
"""Keep away from hosts that are busy building, resizing or copying."""

from dataclasses import dataclass

from roost.options import option
from roost.weighers.base import Weigher


class IoOpsWeigher(Weigher):
    """I/O-heavy operations running; higher means busier. The multiplier is negative: busy hosts come last."""

    minval = 0
    multiplier_option = aggregate_key = "io_ops_weight_multiplier"
    column = "num_io_ops"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        io_ops_weight_multiplier: float = option(
            -1.0,
            old=("io_ops_weight_multiplier",),
            help="weight of running I/O operations; negative avoids busy hosts",
        )
