# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.weights: the base class of weighers."""

from roost.plugins import nova_shapes
from roost.plugins.nova_shapes import BaseHostWeigher
from roost.weighers.base import WeighedHost

__all__ = ["BaseHostWeigher", "WeighedHost", "all_weighers"]


def all_weighers() -> list[type[BaseHostWeigher]]:
    """Every built-in weigher."""
    return list(nova_shapes.weighers().values())
