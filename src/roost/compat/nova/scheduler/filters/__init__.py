# SPDX-License-Identifier: Apache-2.0
"""nova.scheduler.filters: the base class of filters."""

from roost.compat import built_in
from roost.compat.base_classes import BaseHostFilter

__all__ = ["BaseHostFilter", "all_filters"]


def all_filters() -> list[type[BaseHostFilter]]:
    """Every built-in filter."""
    return list(built_in.filters().values())
