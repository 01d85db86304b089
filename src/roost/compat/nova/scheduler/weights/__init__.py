# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.weights: the base class of weighers."""

from roost.compat import built_in
from roost.compat.base_classes import BaseHostWeigher
from roost.weighers.base import WeighedHost

__all__ = ["BaseHostWeigher", "WeighedHost", "all_weighers"]


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Every built-in weigher."""
    return list(built_in.weighers().values())
