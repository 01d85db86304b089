# SPDX-License-Identifier: Apache-2.0
"""The weigher by hypervisor version."""

from dataclasses import dataclass

from roost.options.declare import option
from roost.weighers.base import Weigher


class HypervisorVersionWeigher(Weigher):
    """The hypervisor's version as an integer; higher means newer."""

    multiplier_option = aggregate_key = "hypervisor_version_weight_multiplier"
    column = "hypervisor_version"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        hypervisor_version_weight_multiplier: float = option(
            1.0, help="weight of the hypervisor's version; negative prefers older ones"
        )
