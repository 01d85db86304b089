# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.filters: the base class of filters."""

from roost.plugins import nova_shapes
from roost.plugins.nova_shapes import BaseHostFilter

__all__ = ["BaseHostFilter", "all_filters"]


def all_filters() -> list[type[BaseHostFilter]]:
    """Every built-in filter."""
    return list(nova_shapes.filters().values())
