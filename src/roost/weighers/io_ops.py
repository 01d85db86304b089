# SPDX-License-Identifier: Apache-2.0
"""The weigher that avoids hosts with many I/O-heavy operations, such as builds, resizes and copies."""

from dataclasses import dataclass

from roost.options.declare import option
from roost.weighers.base import Weigher


class IoOpsWeigher(Weigher):
    """Running I/O-heavy operations; higher means busier. The default multiplier is negative: busy hosts rank last."""

    minval = 0
    multiplier_option = aggregate_key = "io_ops_weight_multiplier"
    column = "num_io_ops"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        io_ops_weight_multiplier: float = option(
            -1.0,
            old=("io_ops_weight_multiplier",),
            help="weight of running I/O operations; negative avoids busy hosts",
        )
