# SPDX-License-Identifier: Apache-2.0
"""Which hosts may take it. Start reading at `base.py`; the list of built-ins is in `roost/plugins.py`."""

from roost.filters.base import BaseHostFilter, Filter, HostFilter

__all__ = ["BaseHostFilter", "Filter", "HostFilter", "all_filters"]


def all_filters() -> list[type[Filter]]:
    """Every built-in filter; `available_filters` may name this function."""
    from roost import plugins

    return list(plugins.FILTERS)
