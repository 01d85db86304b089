# SPDX-License-Identifier: Apache-2.0
"""The weigher by free memory."""

from dataclasses import dataclass

from roost.options.declare import option
from roost.weighers.base import Weigher


class RAMWeigher(Weigher):
    """Free memory in MiB; higher means more is free. A negative multiplier packs instead of spreading."""

    minval = 0
    multiplier_option = aggregate_key = "ram_weight_multiplier"
    column = "free_ram_mb"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        ram_weight_multiplier: float = option(
            1.0, old=("ram_weight_multiplier",), help="weight of free memory; negative packs"
        )
