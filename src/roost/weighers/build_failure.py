# SPDX-License-Identifier: Apache-2.0
"""The weigher that avoids hosts with recent build failures."""

from dataclasses import dataclass

from roost.options.declare import option
from roost.weighers.base import Weigher


class BuildFailureWeigher(Weigher):
    """Consecutive failed builds; higher means worse. The multiplier is negated: hosts with failures rank last."""

    multiplier_option = aggregate_key = "build_failure_weight_multiplier"
    column = "failed_builds"
    reads = frozenset({column})
    is_penalty = True

    @dataclass(frozen=True)
    class Options:
        """The multiplier."""

        build_failure_weight_multiplier: float = option(
            1000000.0,
            help="weight of failed builds; it is negated, and by default large enough to outweigh all other weighers",
        )
