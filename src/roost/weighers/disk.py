# SPDX-License-Identifier: Apache-2.0
"""The weigher by free local disk."""

from dataclasses import dataclass

from roost.options.declare import option
from roost.weighers.base import Weigher


class DiskWeigher(Weigher):
    """Free local disk in MiB; higher means more is free. A negative multiplier packs instead of spreading."""

    minval = 0
    multiplier_option = aggregate_key = "disk_weight_multiplier"
    column = "free_disk_mb"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        disk_weight_multiplier: float = option(
            1.0, old=("disk_weight_multiplier",), help="weight of free local disk; negative packs"
        )
