# SPDX-License-Identifier: Apache-2.0
"""Keep away from hosts where builds failed lately."""

from dataclasses import dataclass
from typing import Any

from roost.hosts import Hosts
from roost.options import option
from roost.weighers.base import Weigher


class BuildFailureWeigher(Weigher):
    """Builds that failed in a row; higher means worse. The multiplier is turned round: failures push a host last."""

    multiplier_option = aggregate_key = "build_failure_weight_multiplier"
    column = "failed_builds"
    reads = frozenset({column})

    @dataclass(frozen=True)
    class Options:
        """How much it counts."""

        build_failure_weight_multiplier: float = option(
            1000000.0, help="weight of failed builds, to a host's disadvantage; large enough to outdo all others"
        )

    def multipliers(self, hosts: Hosts) -> Any:
        """The configured number, or that of the aggregates, turned round."""
        return -1 * super().multipliers(hosts)
